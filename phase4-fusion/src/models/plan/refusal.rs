//! Why a kernel does not take a node: [`Refusal`].

use common::prelude::*;

/// A reason, as `--explain` prints it, why a node of the graph does not get the kernel that its format asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("f32")]
    WantedInF32,
    /// The GPU has no tensor cores of the kind.
    #[error("{0}")]
    NoTensorCores(String),
    /// Kernels say themselves what they do not take.
    #[error("{0}")]
    ByKernel(String),
    #[error("no kernel of this phase")]
    NoKernel,
    #[error("its image is in planes")]
    ImageInPlanes,
    #[error("its image is no image, or has other channels")]
    OtherImage,
    #[error("what it adds has other channels")]
    AddsOtherChannels,
    #[error("what it adds lies in another way")]
    AddsOtherLayout,
    #[error("what is joined is in planes")]
    JoinedInPlanes,
    #[error("its parts are no whole vectors of 16 bytes")]
    PartsAreNoVectors,
    #[error("it has no rows")]
    NoRows,
    #[error("its rows are in f32")]
    RowsInF32,
    #[error("its rows are no pixels")]
    RowsAreNoPixels,
    #[error("its rows are not the pixels of images")]
    RowsOfOtherImages,
    #[error("it has no tokens")]
    NoTokens,
    #[error("its tokens are filled up")]
    TokensFilledUp,
}

/// The end of a choice without a kernel: a reason, with which the node gets another kernel, or a mistake.
#[derive(Debug)]
pub(super) enum Refused {
    Because(Refusal),
    Failed(Error),
}

impl From<Refusal> for Refused {
    fn from(reason: Refusal) -> Refused {
        Refused::Because(reason)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Failed(error)
    }
}

/// A kernel's choice for a node.
pub(super) type Choice<T> = Result<T, Refused>;
