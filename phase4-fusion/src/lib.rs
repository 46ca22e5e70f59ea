//! Phase 4 — tensor cores, PTX by hand, fusion, attention, graphs and streams.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`report`] | what `cargo run -p phase4-fusion` shows: every step checked, counted on the simulator, timed on a GPU |

pub mod report;
