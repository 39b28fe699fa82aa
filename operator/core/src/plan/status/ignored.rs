//! Settings without an effect, because the profile that they belong to is off.

use crate::api::{
    BackendSpec, CacheSpec, CollectorSpec, Profile, QueueSpec, ShortenerStackSpec, VectorSpec,
    WorkersSpec,
};

/// Returns the fields of a spec that differ from their defaults and have no effect.
pub(super) fn settings(spec: &ShortenerStackSpec) -> Vec<String> {
    let ShortenerStackSpec {
        cache,
        queue,
        workers,
        vector,
        observability,
        ..
    } = spec;
    // The purge runs without a queue.
    let workers = WorkersSpec {
        purge: None,
        ..workers.clone()
    };
    let given = [
        (Profile::Caching, "cache", *cache != CacheSpec::default()),
        (Profile::Queue, "queue", *queue != QueueSpec::default()),
        (Profile::Queue, "workers", workers != WorkersSpec::default()),
        (
            Profile::Observability,
            "observability.collector",
            observability.collector != CollectorSpec::default(),
        ),
        (
            Profile::Observability,
            "observability.backend",
            observability.backend != BackendSpec::default(),
        ),
        (Profile::Vector, "vector", *vector != VectorSpec::default()),
    ];
    given
        .into_iter()
        .filter(|(profile, _, is_given)| *is_given && !spec.profiles.contains(profile))
        .map(|(_, field, _)| field.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ignored(spec: Value) -> Vec<String> {
        settings(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_setting_of_a_profile_that_is_off_is_named() {
        let spec = json!({
            "cache": {"ttlSeconds": 60},
            "queue": {"deliveryLimit": 3},
            "workers": {"replicas": 3},
            "observability": {"collector": {"managed": {}}, "backend": {"managed": {}}},
            "vector": {"size": 8},
        });
        let expected = [
            "cache",
            "queue",
            "workers",
            "observability.collector",
            "observability.backend",
            "vector",
        ];
        assert_eq!(ignored(spec.clone()), expected);
        let mut on = spec;
        on["profiles"] = json!(["caching", "queue", "observability", "vector"]);
        assert_eq!(ignored(on), Vec::<String>::new());
    }

    #[test]
    fn a_default_and_a_setting_that_needs_no_profile_are_not_named() {
        let spec = json!({
            "cache": {"ttlSeconds": 3600},
            "workers": {"replicas": 1, "purge": {"retentionDays": 7}},
            "observability": {"scrapeFrom": [{"podSelector": {}}]},
        });
        assert_eq!(ignored(spec), Vec::<String>::new());
    }
}
