//! The claims: a row of data each. A claim is added by adding a row.

pub(super) mod fused;
pub(super) mod layers;

use super::figure::Figure;
use super::rule::{Rule, Verdict};

/// A claim of the literature, and how it is measured.
pub(super) struct Claim {
    pub text: String,
    pub claimed: String,
    /// The page of the book that measures it, below `book/pages` and without its ending.
    pub page: &'static str,
    /// Figures that the rest mentions, by name.
    pub figures: Vec<(&'static str, Figure)>,
    /// Text of the measurement, as [`super::figure::Figures::cite`] reads it.
    pub measured: &'static str,
    pub rule: Rule,
    pub why: Why,
}

impl Claim {
    fn new(
        text: impl Into<String>,
        claimed: impl Into<String>,
        page: &'static str,
        measured: &'static str,
        rule: Rule,
    ) -> Claim {
        let (text, claimed, why) = (text.into(), claimed.into(), Why::Always(""));
        Claim { text, claimed, page, figures: Vec::new(), measured, rule, why }
    }

    fn figures(self, figures: Vec<(&'static str, Figure)>) -> Claim {
        Claim { figures, ..self }
    }

    fn why(self, why: Why) -> Claim {
        Claim { why, ..self }
    }
}

/// Why a claim holds or not: a sentence that cites a figure.
pub(super) enum Why {
    Always(&'static str),
    /// A claim that holds needs no reason.
    UnlessYes(&'static str),
}

impl Why {
    pub(super) fn of(&self, verdict: Verdict) -> &'static str {
        match self {
            Why::UnlessYes(_) if verdict == Verdict::Yes => "",
            Why::Always(sentence) | Why::UnlessYes(sentence) => sentence,
        }
    }
}

/// Figures that differ in one key, by name.
fn each<K, const N: usize>(figure: impl Fn(K) -> Figure, named: [(&'static str, K); N]) -> Vec<(&'static str, Figure)> {
    named.map(|(name, key)| (name, figure(key))).into()
}

/// All claims, in the order of the table.
pub(super) fn claims() -> Vec<Claim> {
    [
        layers::linear_relu(),
        layers::resnet18(),
        fused::autoencoder(),
        fused::parts(),
        fused::unet(),
        layers::accuracy(),
        fused::ptx_by_hand(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
