//! The keys of a stack's clients.

use crate::{
    api::{Protected, RateLimits, ShortenerStackSpec},
    model::{
        facts::MissingKeys,
        stack::{Auth, AuthProxy},
    },
};

/// Resolves the settings of the keys, if the spec has any. `missing` says which of their Secrets do not exist.
pub(super) fn auth(spec: &ShortenerStackSpec, missing: MissingKeys) -> Option<Auth> {
    let auth = spec.gateway.auth.as_ref()?;
    let (limits, own) = (
        &spec.rate_limits,
        auth.rate_limits.clone().unwrap_or_default(),
    );
    Some(Auth {
        secret: auth.secret_ref.name.clone(),
        missing: missing.of_clients,
        proxy: auth.proxy.clone().map(|settings| AuthProxy {
            settings,
            missing: missing.of_proxy,
        }),
        protect: auth
            .protect
            .clone()
            .unwrap_or_else(|| Protected::ALL.into()),
        limits: RateLimits {
            shorten_per_minute: own.shorten_per_minute.unwrap_or(limits.shorten_per_minute),
            shorten_burst: own.shorten_burst.unwrap_or(limits.shorten_burst),
            requests_per_second: own
                .requests_per_second
                .unwrap_or(limits.requests_per_second),
            requests_burst: own.requests_burst.unwrap_or(limits.requests_burst),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_limits_of_a_key_are_those_of_an_address_unless_the_spec_has_others() {
        let spec = serde_json::from_value(json!({
            "rateLimits": {"shortenBurst": 7, "requestsBurst": 9},
            "gateway": {"auth": {"secretRef": {"name": "keys"}, "rateLimits": {"requestsBurst": 0}}},
        }));
        let missing = MissingKeys {
            of_clients: true,
            of_proxy: false,
        };
        let auth = auth(&spec.unwrap(), missing).unwrap();
        assert_eq!((auth.secret.as_str(), auth.missing), ("keys", true));
        assert_eq!(auth.protect, BTreeSet::from(Protected::ALL));
        let limits = RateLimits {
            shorten_burst: 7,
            requests_burst: 0,
            ..RateLimits::default()
        };
        assert_eq!(auth.limits, limits);
    }
}
