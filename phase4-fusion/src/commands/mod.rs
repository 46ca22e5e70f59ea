//! What the command does beside the parts.

pub mod resnet18;
