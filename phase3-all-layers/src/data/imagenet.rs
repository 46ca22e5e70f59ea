//! The names of ImageNet's classes.

use std::sync::LazyLock;

/// The names of the 1000 classes in torchvision's order; `assets/README.md` has their origin and licence.
pub static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("../../assets/imagenet-classes.txt").lines().collect());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_classes_have_names_that_differ_and_fit_a_table() {
        assert_eq!(NAMES.len(), crate::models::resnet::Config::RESNET18.classes);
        // The first, the last, and two that are told apart by a word.
        assert_eq!([0, 134, 517, 999].map(|class| NAMES[class]), ["tench", "crane bird", "crane", "toilet tissue"]);
        let mut sorted = NAMES.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 1000);
        assert!(NAMES.iter().all(|name| !name.trim().is_empty() && name.trim() == *name && name.chars().count() <= 30));
    }
}
