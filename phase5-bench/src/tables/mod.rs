//! The registry: every table of the course, in its order. A table is a file here and a line of [`TABLES`].

use crate::spec::TableSpec;

mod differences;
pub(crate) mod peers;

/// Declares the module of each line, and the list of the tables that it has.
///
/// rustfmt does not see modules that a macro declares: `.ci/run` checks the files of this folder one by one.
macro_rules! tables {
    ($($module:ident: $($table:ident),+;)*) => {
        $(pub mod $module;)*

        /// All tables.
        pub static TABLES: &[TableSpec] = &[$($($module::$table),+),*];
    };
}

tables! {
    transfer: TABLE;
    gemm: TABLE;
    tensor_cores: TABLE;
    conv: TABLE;
    tensor_conv: TABLE;
    norm: TABLE;
    patterns: TABLE;
    layers: TABLE;
    resnet: SINGLE, BATCH, MEMORY;
    accuracy: TABLE;
    linear_relu: TABLE;
    autoencoder: TABLE;
    attention: TABLE;
    tensor_attention: TABLE;
    fusion: TABLE;
    ptx: TABLE;
    precision: TABLE;
    // It makes streams, and from then on cudarc records events for each use of a buffer: after all that is timed launch by launch.
    video: TABLE;
    streams: TABLE;
    multi_gpu: TABLE;
    temporal: TABLE;
    best_peer: TABLE;
    claims: TABLE;
}
