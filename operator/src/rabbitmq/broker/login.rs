//! Credentials for the management API.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use shortener_operator_core::{debug_only, model::topology::User};

/// Credentials for the management API.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub username: String,
    pub password: String,
}

debug_only!(Login: username);

impl Login {
    /// Returns the credentials of a user of a managed broker.
    pub fn of(user: &User<'_>) -> Self {
        Self {
            username: user.name.to_string(),
            password: String::from_utf8_lossy(user.password).into_owned(),
        }
    }

    /// Returns the value of the header `Authorization`.
    pub(super) fn header(&self) -> Result<HeaderValue, http::Error> {
        let pair = format!("{}:{}", self.username, self.password);
        let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))?;
        value.set_sensitive(true);
        Ok(value)
    }
}
