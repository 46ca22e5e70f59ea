//! Phase 5 — every comparison table of the course, by one command: `cargo run -p phase5-bench`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`tables`] | the list of all tables: what each shows, and whether it is here yet |
//! | [`transfer`] | `transfer`: copies between host and device |
//! | [`gemm`] | `gemm`: the matrix product's ladder over sizes, beside cuBLAS and PyTorch |
//! | [`conv`] | `conv`: the convolution's ladder over ResNet18's and the U-Net's shapes, beside cuDNN and PyTorch |
//! | [`norm`] | `norm`: BatchNorm, ReLU and the statistics of channels, beside cuDNN and PyTorch |
//! | [`linear_relu`] | `linear-relu`: a fused layer, forward and backward, beside cuBLAS and PyTorch |
//! | [`claims`] | `claims`: what the literature says, and what the other tables measured |
//! | [`layers`] | `layers`: ResNet18's opening layers on a real photo (more layers come with phase 3) |
//! | [`plot`] | the roofline: what was measured against the device's limits, as SVG and PNG |
//! | [`limits`] | what this device can do at most, measured |
//! | [`accuracy`] | every model's last layer beside the CPU's; digits |
//! | [`autoencoder`], [`video`] | the other two models |
//! | [`attention`] | attention with its scores in memory |
//! | [`resnet`] | whole ResNet18: one photo, batches, memory |
//! | [`torch`] | PyTorch beside our kernels, in a process of its own |
//!
//! A table's check comes before its clock: results are compared with the f64 reference, and a wrong one fails the command.
//! Numbers are measured here, or recorded on another machine and shown as such ([`common::record`]); none is estimated.

pub mod accuracy;
pub mod attention;
pub mod autoencoder;
mod board;
pub mod claims;
pub mod conv;
mod curves;
mod differences;
mod error;
pub mod gemm;
pub mod layers;
pub mod limits;
pub mod linear_relu;
pub mod norm;
pub mod plot;
pub mod resnet;
pub mod tables;
pub mod torch;
pub mod transfer;
pub mod video;

pub use error::{Error, Result};

/// The runs kept in `records/`, for columns that the simulator has no numbers for.
///
/// # Errors
/// [`common::Error::Record`] with the file that is no record.
pub fn records() -> common::Result<Vec<common::record::Record>> {
    common::records!("nvidia-h200.json")
}

#[cfg(test)]
mod tests {
    use common::record::Named;

    #[test]
    fn every_record_in_the_folder_is_built_in() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/records")).unwrap();
        let files = folder.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "json"));
        assert_eq!(super::records().unwrap().len(), files.count());
    }

    /// The tables of a GPU have columns that the simulator's do not.
    #[test]
    fn every_recorded_table_fits_a_terminal() {
        for record in super::records().unwrap() {
            for Named { name, table } in &record.tables {
                let text = table.to_text();
                assert!(text.lines().all(|line| line.chars().count() <= common::table::WIDTH), "{name}:\n{text}");
            }
        }
    }
}
