//! The registry: every table of the course, in its order. A table is a file here and a line of [`TABLES`].

use crate::spec::TableSpec;

mod differences;
pub(crate) mod peers;

/// Declares the module of each line, and the list of the tables that it has. `later` is a table without a file as yet.
///
/// rustfmt does not see modules that a macro declares: `.ci/run` checks the files of this folder one by one.
macro_rules! tables {
    ($($module:ident: $($table:tt),+;)*) => {
        $(tables!(@module $module);)*

        /// All tables.
        pub static TABLES: &[TableSpec] = &[$($(tables!(@table $module $table)),+),*];
    };
    (@module later) => {};
    (@module $module:ident) => {
        pub mod $module;
    };
    (@table later ($name:literal, $shows:literal, $phase:literal)) => {
        TableSpec::later($name, $shows, $phase)
    };
    (@table $module:ident $table:ident) => {
        $module::$table
    };
}

tables! {
    transfer: TABLE;
    gemm: TABLE;
    tensor_cores: TABLE;
    conv: TABLE;
    tensor_conv: TABLE;
    norm: TABLE;
    layers: TABLE;
    resnet: SINGLE, BATCH, MEMORY;
    accuracy: TABLE;
    linear_relu: TABLE;
    autoencoder: TABLE;
    attention: TABLE;
    tensor_attention: TABLE;
    fusion: TABLE;
    ptx: TABLE;
    // It makes streams, and from then on cudarc records events for each use of a buffer: after all that is timed launch by launch.
    video: TABLE;
    streams: TABLE;
    temporal: TABLE;
    claims: TABLE;
    later: ("multi-gpu", "1, 2, 4 GPUs: images/s, frames/s, efficiency", "phase 4");
}
