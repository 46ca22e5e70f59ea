//! Inputs of the models, and data that belongs to them: sound, labelled images, names of classes. Photos are in [`media::photo`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`audio`] | from a WAV file to the autoencoder's input |
//! | [`digits`] | handwritten digits with their labels, and what a network says of them |
//! | [`imagenet`] | the names of ImageNet's classes |

pub mod audio;
pub mod digits;
pub mod imagenet;
