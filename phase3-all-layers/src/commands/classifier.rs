//! [`Classifier`]: the network behind the commands that name the classes of photos.

use common::prelude::*;

use crate::backends::{Planned, Unfused};
use crate::models::resnet::ResNet;

/// A network that classifies images.
pub trait Classifier {
    /// Logits of images \[N, 3, H, W\] from the host, class by class, image by image.
    ///
    /// # Errors
    /// Errors of the pass.
    fn logits(&mut self, images: &Tensor) -> Result<Vec<f32>>;
}

/// All layers on a device, over batches most of which have one size.
#[derive(Debug)]
pub struct OnDevice<'a> {
    device: &'a Device,
    network: &'a ResNet<Unfused>,
    /// The number of images, and the plan for it.
    planned: Option<(usize, Planned<'a, ResNet<Unfused>>)>,
}

impl<'a> OnDevice<'a> {
    /// Passes of `network`, which is on `device`.
    pub fn new(device: &'a Device, network: &'a ResNet<Unfused>) -> OnDevice<'a> {
        OnDevice { device, network, planned: None }
    }
}

impl Classifier for OnDevice<'_> {
    fn logits(&mut self, images: &Tensor) -> Result<Vec<f32>> {
        let count = images.shape()[0];
        // What was planned for another size gives its memory back first.
        let (_, planned) = match self.planned.take_if(|(planned, _)| *planned == count) {
            Some(planned) => self.planned.insert(planned),
            None => {
                self.planned = None;
                self.planned.insert((count, Planned::new(self.device, self.network, images.shape())?))
            }
        };
        planned.infer(&self.device.stream(), images)?.into_vec()
    }
}
