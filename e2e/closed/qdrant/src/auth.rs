//! The check of the API key, which both APIs use.

/// The key that requests must have, if any.
#[derive(Debug, Clone)]
pub struct ApiKey(Option<String>);

impl ApiKey {
    /// Returns a check of this key. As in the real server, an empty key means no check.
    pub fn new(key: Option<String>) -> Self {
        Self(key.filter(|key| !key.is_empty()))
    }

    /// Checks the key in the headers of a request.
    ///
    /// # Errors
    /// The message for the client, if the key is missing or wrong.
    pub fn check<'a>(&self, header: impl Fn(&str) -> Option<&'a str>) -> Result<(), &'static str> {
        let Some(wanted) = &self.0 else { return Ok(()) };
        let given = header("api-key")
            .or_else(|| header("authorization")?.strip_prefix("Bearer "))
            .ok_or("Must provide an API key or an Authorization bearer token")?;
        if given == wanted {
            Ok(())
        } else {
            Err("Invalid API key or JWT")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(key: &str, name: &'static str, value: &'static str) -> Result<(), &'static str> {
        ApiKey::new(Some(key.to_owned())).check(|header| (header == name).then_some(value))
    }

    #[test]
    fn the_key_is_taken_from_either_header() {
        assert_eq!(checked("secret", "api-key", "secret"), Ok(()));
        assert_eq!(checked("secret", "authorization", "Bearer secret"), Ok(()));
    }

    #[test]
    fn no_key_and_a_wrong_one_are_told_apart() {
        assert_eq!(
            checked("secret", "other", "secret"),
            Err("Must provide an API key or an Authorization bearer token")
        );
        assert_eq!(checked("secret", "authorization", "secret").ok(), None);
        assert_eq!(
            checked("secret", "api-key", "secre"),
            Err("Invalid API key or JWT")
        );
    }

    #[test]
    fn without_a_key_everybody_is_let_in() {
        assert_eq!(checked("", "other", ""), Ok(()));
    }
}
