//! Phase 3 — every layer on the device, and whole models: ResNet18, the SpectralShapeAutoencoder, the video U-Net.
//!
//! This phase has not been written yet: the crate holds its place in the workspace and has no items.
