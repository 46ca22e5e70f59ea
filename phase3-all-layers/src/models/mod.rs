//! The models of the course: their structure and the names of their parameters. [`crate::backends`] runs them.

pub mod autoencoder;
pub mod resnet;
pub mod unet;
