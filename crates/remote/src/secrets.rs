//! Words that must not stand in any message.

/// A setting is secret when its name has one of these in it.
const NAMES: [&str; 7] = ["secret", "password", "token", "key", "sas", "credential", "authorization"];
/// Shorter values are in too many words by chance.
const SHORTEST: usize = 6;

/// The secrets that this process was given.
pub(crate) struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// Those among some settings, by their names.
    pub(crate) fn among<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let secret = |name: &str| NAMES.iter().any(|word| name.to_ascii_lowercase().contains(word));
        let mut values: Vec<String> =
            settings.filter(|(name, value)| secret(name) && value.len() >= SHORTEST).map(|(_, value)| value.to_owned()).collect();
        // Longer ones first, in case one is within another.
        values.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self(values)
    }

    /// A message without them, and without what stands behind the `?` of an address: signatures are put there.
    pub(crate) fn hide(&self, message: &str) -> String {
        let mut shown = message.to_owned();
        for secret in &self.0 {
            shown = shown.replace(secret.as_str(), "***");
        }
        let mut words = shown.split_inclusive(char::is_whitespace).map(|word| match word.split_once('?') {
            Some((address, rest)) if address.contains("://") => {
                let end: String = rest.chars().rev().take_while(|end| end.is_whitespace()).collect();
                format!("{address}?***{end}")
            }
            _ => word.to_owned(),
        });
        words.by_ref().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_left() {
        let settings =
            [("AWS_SECRET_ACCESS_KEY", "hunter2hunter2"), ("AWS_REGION", "eu-west"), ("aws_session_token", "hunter2"), ("key", "a")];
        let secrets = Secrets::among(settings.into_iter());
        assert_eq!(secrets.hide("a region eu-west, hunter2hunter2 and hunter2"), "a region eu-west, *** and ***");
        assert_eq!(secrets.hide("GET https://h/c/x?sig=abc&se=1 failed"), "GET https://h/c/x?*** failed");
        assert_eq!(secrets.hide("is it there? yes"), "is it there? yes");
        assert!(!format!("{secrets:?}").contains("hunter"));
    }
}
