//! Phase 5 — every comparison table of the course, by one command: `cargo run -p phase5-bench`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`tables`] | the list of all tables: what each shows, and whether it is here yet |
//! | [`transfer`] | `transfer`: copies between host and device |
//! | [`layers`] | `layers`: ResNet18's opening layers on a real photo (more layers come with phase 3) |
//! | [`photo`] | from a photo file to the network's input |
//! | [`record`] | a run saved with device, date and commit, and compared with a later one |
//! | [`recorded`] | runs recorded on other machines, shown where this one has no number |
//! | [`terminal`] | tables that fit a terminal of 100 columns |
//!
//! A table's check comes before its clock: results are compared with the f64 reference, and a wrong one fails the command.
//! Numbers are measured here, or recorded and shown as such; none is estimated.

mod error;
pub mod layers;
pub mod photo;
pub mod record;
pub mod recorded;
pub mod tables;
pub mod terminal;
pub mod transfer;

pub use error::{Error, Result};
