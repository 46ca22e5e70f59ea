//! When a claim holds.

use super::figure::{Figures, Found};

/// Within this factor an amount, or what a ratio gains, is confirmed.
pub(super) const CLOSE: f64 = 1.5;

/// A smaller change of a ratio is none: so much differs from run to run.
pub(super) const NOISE: f64 = 0.01;

/// A ratio that was claimed to be 1 is confirmed within this.
pub(super) const PARITY: f64 = 0.05;

/// Whether a claim holds, from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    No,
    /// Only the direction is right.
    InKind,
    Yes,
}

impl Verdict {
    /// As the table has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::No => "no",
            Verdict::InKind => "in kind",
            Verdict::Yes => "yes",
        }
    }
}

/// How figures of a claim, by name, are held against what was claimed.
pub(super) enum Rule {
    /// A ratio, by what it gains.
    Ratio(&'static str, f64),
    /// Percent taken off, from the least to the most that were claimed; the best of several figures counts.
    TakesOff(&'static [&'static str], [f64; 2]),
    /// All of these amounts; in kind if of each pair, where there are pairs, the first is less than the second.
    Amounts(Vec<Amount>, &'static [[&'static str; 2]]),
}

/// Claim about one figure.
pub(super) enum Amount {
    /// This, within [`CLOSE`].
    Close(&'static str, f64),
    /// In this range.
    Within(&'static str, [f64; 2]),
    /// The same as another.
    Same(&'static str, &'static str),
}

impl Rule {
    pub(super) fn verdict(&self, figures: Figures<'_>) -> Found<Verdict> {
        match self {
            Rule::Ratio(name, claimed) => Ok(ratio(figures.one(name)?, *claimed)),
            Rule::TakesOff(names, range) => {
                let verdicts = names.iter().map(|name| Ok(takes_off(figures.one(name)?, *range)));
                Ok(verdicts.collect::<Found<Vec<_>>>()?.into_iter().max().unwrap_or(Verdict::No))
            }
            Rule::Amounts(amounts, pairs) => {
                let hold = amounts.iter().map(|amount| amount.holds(figures)).collect::<Found<Vec<_>>>()?;
                let ordered = pairs.iter().map(|[less, more]| Ok(figures.one(less)? < figures.one(more)?));
                let ordered = ordered.collect::<Found<Vec<_>>>()?;
                Ok(if !hold.contains(&false) {
                    Verdict::Yes
                } else if !ordered.is_empty() && !ordered.contains(&false) {
                    Verdict::InKind
                } else {
                    Verdict::No
                })
            }
        }
    }
}

impl Amount {
    fn holds(&self, figures: Figures<'_>) -> Found<bool> {
        Ok(match self {
            Amount::Close(name, claimed) => is_close(figures.one(name)?, *claimed),
            Amount::Within(name, [least, most]) => (*least..=*most).contains(&figures.one(name)?),
            Amount::Same(one, other) => figures.one(one)? == figures.one(other)?,
        })
    }
}

/// Whether a measured ratio is what was claimed. Not the ratio is compared but what it gains, so that a claimed 1.05 needs a gain of 5 %,
/// within [`CLOSE`], and not any ratio about 1. A loss is a gain of the other side.
fn ratio(measured: f64, claimed: f64) -> Verdict {
    if claimed == 1.0 {
        let is_parity = (1.0 - PARITY..=1.0 + PARITY).contains(&measured);
        return if is_parity { Verdict::Yes } else { Verdict::No };
    }
    let (measured, claimed) = if claimed < 1.0 { (1.0 / measured, 1.0 / claimed) } else { (measured, claimed) };
    match measured - 1.0 {
        gain if is_close(gain, claimed - 1.0) => Verdict::Yes,
        gain if gain > NOISE => Verdict::InKind,
        _ => Verdict::No,
    }
}

/// Whether a change took off what was claimed, in percent.
fn takes_off(percent: f64, [least, most]: [f64; 2]) -> Verdict {
    match percent {
        percent if (least..=most).contains(&percent) => Verdict::Yes,
        percent if percent > 100.0 * NOISE => Verdict::InKind,
        _ => Verdict::No,
    }
}

/// Whether an amount is what was claimed.
fn is_close(measured: f64, claimed: f64) -> bool {
    (1.0 / CLOSE..=CLOSE).contains(&(measured / claimed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_change_takes_off_is_held_against_the_range_that_was_claimed() {
        assert_eq!(takes_off(25.0, [15.0, 30.0]), Verdict::Yes);
        assert_eq!(takes_off(50.0, [15.0, 30.0]), Verdict::InKind);
        assert_eq!(takes_off(-1.0, [15.0, 30.0]), Verdict::No);
    }

    #[test]
    fn a_verdict_is_on_what_is_gained_and_can_fail_close_to_one() {
        use Verdict::*;
        for (measured, claimed, verdict) in [
            (1.04, 1.05, Yes),
            (1.02, 1.05, InKind),
            (1.20, 1.05, InKind),
            (1.009, 1.05, No),
            (0.98, 1.05, No),
            (1.04, 1.00, Yes),
            (0.96, 1.00, Yes),
            (1.06, 1.00, No),
            (0.50, 1.00, No),
            (1.25, 1.18, Yes),
            (1.30, 1.18, InKind),
            (1.02, 1.18, InKind),
            (8.47, 7.67, Yes),
            (3.00, 7.67, InKind),
            (0.90, 2.0, No),
            (0.12, 0.1, Yes),
            (0.20, 0.1, InKind),
            (1.20, 0.1, No),
        ] {
            assert_eq!(ratio(measured, claimed), verdict, "{measured} for {claimed}");
        }
    }
}
