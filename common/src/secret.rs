//! Secrets that pass between the processes of one reader, and that no other account of the machine can guess.

use std::fmt;
use std::io;

/// A secret, as text; empty in a process that was given none.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// 256 bits from the system, in hexadecimal.
    ///
    /// # Errors
    /// If the system has none.
    pub fn random() -> io::Result<Secret> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The secret that another process has handed over as text.
    pub fn given(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, to hand it over.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `given` is the secret; takes as long for a wrong one as for another.
    pub fn is(&self, given: &str) -> bool {
        let differs = |(one, other): (u8, u8)| u32::from(one ^ other);
        self.0.len() == given.len() && self.0.bytes().zip(given.bytes()).map(differs).fold(0, |all, one| all | one) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_itself_and_is_not_shown() {
        let [one, other] = [(); 2].map(|()| Secret::random().unwrap());
        assert!(one.is(one.reveal()) && !one.is(other.reveal()) && !one.is("") && !one.is(&one.reveal()[1..]));
        assert_eq!((one.reveal().len(), format!("{one:?}")), (64, "Secret".to_owned()));
        assert!(Secret::given("").is(""));
    }
}
