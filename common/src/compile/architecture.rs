//! Architectures that kernels ask for, and the GPUs that have them.

use super::KernelHead;
use crate::error::{Error, Result};

impl KernelHead {
    /// The number and the variant of the architecture; `label` names the kernel in messages.
    pub(super) fn parsed_architecture(&self, label: &str) -> Result<(u32, &str)> {
        parse_architecture(&self.architecture).ok_or_else(|| {
            Error::Invalid(format!(
                "{label}: `{}` is not an architecture (compute_75, compute_80, compute_90a, …)",
                self.architecture
            ))
        })
    }
}

/// Whether a kernel that asks for `minimum` runs on a GPU of `capability`, both times ten. A variant such as the `a` of 90a
/// stands for features that later architectures need not have: such a kernel runs on that architecture only.
pub(super) fn runs(minimum: u32, variant: &str, capability: u32) -> bool {
    match variant {
        "" => capability >= minimum,
        _ => capability == minimum,
    }
}

/// `compute_90a` → (90, "a").
fn parse_architecture(architecture: &str) -> Option<(u32, &str)> {
    let number = architecture.strip_prefix("compute_").or_else(|| architecture.strip_prefix("sm_"))?;
    let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    Some((digits.parse().ok()?, &number[digits.len()..]))
}
