//! Validation of the monitoring settings.

use crate::{
    api::MonitoringSpec,
    model::{metadata::is_subdomain, stack::Monitoring},
    plan::error::ValidateError,
};

/// Maximum length of the name in a label key.
const NAME_LENGTH: usize = 63;

/// Resolves the settings of the monitoring objects, or `None` if they are off. By default they are on when the stack
/// is `observed`, that is, with the profile `observability`.
pub(super) fn monitoring(
    spec: &MonitoringSpec,
    observed: bool,
) -> Result<Option<Monitoring>, ValidateError> {
    if let Some(key) = spec.labels.keys().find(|key| !is_qualified_name(key)) {
        return Err(ValidateError::NotALabel {
            field: "monitoring.labels",
            key: key.clone(),
        });
    }
    let on = spec.enabled.unwrap_or(observed);
    Ok(on.then(|| Monitoring {
        labels: spec.labels.clone(),
    }))
}

/// Returns true when Kubernetes accepts a text as the key of a label or an annotation.
pub(super) fn is_qualified_name(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    domain.is_none_or(is_subdomain)
        && name.len() <= NAME_LENGTH
        && ends
            .into_iter()
            .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(enabled: Option<bool>, key: &str) -> MonitoringSpec {
        MonitoringSpec {
            enabled,
            labels: [(key.to_owned(), "prometheus".to_owned())].into(),
        }
    }

    #[test]
    fn those_who_watch_are_told_with_the_profile_or_when_it_is_asked_for() {
        for (enabled, observed, told) in [
            (None, false, false),
            (None, true, true),
            (Some(true), false, true),
            (Some(false), true, false),
        ] {
            let spec = spec(enabled, "release");
            let monitoring = monitoring(&spec, observed).unwrap();
            assert_eq!(monitoring.is_some(), told, "{enabled:?} {observed}");
            let labels = monitoring.map(|monitoring| monitoring.labels);
            assert_eq!(labels, told.then(|| spec.labels.clone()));
        }
    }

    #[test]
    fn keys_of_labels_are_those_that_kubernetes_takes() {
        for key in ["release", "a", "team.example.com/a_B.c-1", "7"] {
            assert!(monitoring(&spec(None, key), false).is_ok(), "{key}");
        }
        let long = "a".repeat(64);
        for key in [
            "", "-a", "a-", "a b", "/a", "a/", "A.b/c", "a..b/c", "a/b/c", &long,
        ] {
            let error = monitoring(&spec(None, key), false).unwrap_err();
            assert_eq!(error.reason(), "NotALabel", "{key}");
            assert!(
                error.to_string().starts_with("monitoring.labels: "),
                "{error}"
            );
        }
    }
}
