//! Sums of products, from left to right: `128 / 32 + 1` in a question, `rows / 4` in the description of a task.

use anyhow::{Context, Result, bail};

/// The value of a term: numbers and `names`, with `+`, `-`, `*` and what `divide` makes of `/`.
///
/// # Errors
/// If it says something else, or comes to less than 0 or more than 64 bits hold, on the way too.
pub(crate) fn value(
    term: &str,
    names: impl Fn(&str) -> Option<u64>,
    divide: fn(u64, u64) -> Option<u64>,
) -> Result<u64> {
    let apart =
        ["*", "/", "+", "-"].iter().fold(term.to_owned(), |term, sign| term.replace(sign, &format!(" {sign} ")));
    let mut words = apart.split_whitespace();
    let number = |word: Option<&str>| -> Result<u64> {
        let word = word.with_context(|| format!("`{term}` ends too early"))?;
        names(word)
            .or_else(|| word.parse().ok())
            .with_context(|| format!("`{word}` in `{term}` is no number and no size"))
    };
    // What is complete, how the next product joins it, and the product that is under way.
    let (mut sum, mut join, mut product) = (0, u64::checked_add as fn(u64, u64) -> Option<u64>, number(words.next())?);
    let out_of_range = || format!("`{term}` is below 0 or too large");
    while let Some(operator) = words.next() {
        let operand = number(words.next())?;
        match operator {
            "*" => product = product.checked_mul(operand).with_context(out_of_range)?,
            "/" => product = divide(product, operand).with_context(|| format!("`{term}` cannot be divided"))?,
            "+" | "-" => {
                sum = join(sum, product).with_context(out_of_range)?;
                join = if operator == "+" { u64::checked_add } else { u64::checked_sub };
                product = operand;
            }
            other => bail!("`{other}` in `{term}` is not one of *, /, + and -"),
        }
    }
    join(sum, product).with_context(out_of_range)
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn terms_come_to_a_number_or_say_what_is_wrong() {
        let names = |name: &str| (name == "rows").then_some(10);
        let up = |a: u64, b: u64| (b > 0).then(|| a.div_ceil(b));
        let of = |term: &str| value(term, names, up).map_err(|error| error.to_string());
        for (term, expected) in [("7", 7), ("rows/4", 3), ("2 * rows - 3 * 4 + 1", 9), ("rows / 3 * 2", 8)] {
            assert_eq!(of(term), Ok(expected), "{term}");
        }
        for (term, why) in [
            ("", "`` ends too early"),
            ("rows +", "`rows +` ends too early"),
            ("-1", "`-` in `-1` is no number and no size"),
            ("3 - rows + 8", "`3 - rows + 8` is below 0 or too large"),
            ("rows * 18446744073709551615", "`rows * 18446744073709551615` is below 0 or too large"),
            ("rows / 0", "`rows / 0` cannot be divided"),
            ("rows ^ 2", "`^` in `rows ^ 2` is not one of *, /, + and -"),
            ("(rows)", "`(rows)` in `(rows)` is no number and no size"),
        ] {
            assert_eq!(of(term), Err(why.to_owned()));
        }
    }
}
