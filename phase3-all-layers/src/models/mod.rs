//! The models of the course: their structure and the names of their parameters. What runs them is in [`crate::backends`].

pub mod autoencoder;
pub mod resnet;
pub mod unet;
