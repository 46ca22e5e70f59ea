//! Phase 4 — fusion, reduced precision, tensor cores, inline PTX, attention, graphs and streams.
//!
//! This phase has not been written yet: the crate holds its place in the workspace and has no items.
