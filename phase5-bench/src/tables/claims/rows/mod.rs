//! The claims: a row of data each. A claim is added by adding a row.

pub(super) mod fused;
pub(super) mod layers;

use super::figure::Figure;
use super::rule::{Rule, Verdict};

/// A claim of the literature, and how it is measured.
pub(super) struct Claim {
    pub text: String,
    pub claimed: String,
    /// The page of the book that measures it, below `book/pages` and without its ending.
    pub page: &'static str,
    /// Figures that the rest mentions, by name.
    pub figures: Vec<(&'static str, Figure)>,
    /// Text of the measurement, as [`super::figure::Figures::cite`] reads it.
    pub measured: &'static str,
    pub rule: Rule,
    pub why: Why,
}

/// Why a claim holds or not, for each verdict: a sentence that cites a figure, or none.
pub(super) struct Why {
    yes: &'static str,
    in_kind: &'static str,
    no: &'static str,
}

impl Why {
    const fn always(sentence: &'static str) -> Why {
        Why { yes: sentence, in_kind: sentence, no: sentence }
    }

    const fn unless_yes(sentence: &'static str) -> Why {
        Why { yes: "", ..Why::always(sentence) }
    }

    pub(super) fn of(&self, verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Yes => self.yes,
            Verdict::InKind => self.in_kind,
            Verdict::No => self.no,
        }
    }
}

/// All claims, in the order of the table.
pub(super) fn claims() -> Vec<Claim> {
    [
        layers::linear_relu(),
        layers::resnet18(),
        fused::autoencoder(),
        fused::parts(),
        fused::unet(),
        layers::accuracy(),
        fused::ptx_by_hand(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
