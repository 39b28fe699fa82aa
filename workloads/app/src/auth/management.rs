//! The key of the management port, which the operator has and no client.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use subtle::ConstantTimeEq;

use super::bearer;
use crate::error::Error;

const REFUSED: &str = "This port needs its key; send it as `Authorization: Bearer <key>`.";

/// The key of the management port; cheap to clone.
#[derive(Clone)]
pub struct ManagementKey(Arc<str>);

impl From<&str> for ManagementKey {
    fn from(key: &str) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for ManagementKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ManagementKey")
    }
}

impl ManagementKey {
    /// Checks the key of a request. The time that it takes tells nothing of the key but its length.
    ///
    /// # Errors
    /// Returns [`Error::Unauthorized`] without the key, or with several.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Error> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let key = match (values.next(), values.next()) {
            (Some(value), None) => bearer(value.as_bytes()),
            _ => None,
        };
        let is_known = key.is_some_and(|key| key.trim_ascii().ct_eq(self.0.as_bytes()).into());
        is_known.then_some(()).ok_or(Error::Unauthorized {
            detail: REFUSED,
            challenge: HeaderValue::from_static("Bearer"),
        })
    }
}

#[cfg(test)]
mod tests {
    use http::header::WWW_AUTHENTICATE;

    use super::*;

    #[test]
    fn a_request_has_the_key_once_as_a_bearer() {
        let key = ManagementKey::from("0123456789abcdef0123456789abcdef");
        let checked = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            key.check(&headers)
        };
        for good in [
            "Bearer 0123456789abcdef0123456789abcdef",
            "bearer  0123456789abcdef0123456789abcdef ",
        ] {
            assert!(checked(&[good]).is_ok(), "{good}");
        }
        let good = "Bearer 0123456789abcdef0123456789abcdef";
        for bad in [
            &[][..],
            &["Bearer"],
            &["Bearer "],
            &["0123456789abcdef0123456789abcdef"],
            &["Basic 0123456789abcdef0123456789abcdef"],
            &["Bearer 0123456789abcdef0123456789abcdee"],
            &["Bearer 0123456789abcdef0123456789abcde"],
            &["Bearer 0123456789abcdef0123456789abcdef0"],
            &[good, good],
        ] {
            let refused = checked(bad).unwrap_err().to_problem("/", None);
            assert_eq!(refused.status(), 401, "{bad:?}");
            assert_eq!(refused.headers()[WWW_AUTHENTICATE], "Bearer");
        }
        assert_eq!(format!("{key:?}"), "ManagementKey");
    }
}
