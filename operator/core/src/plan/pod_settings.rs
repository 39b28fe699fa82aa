//! Settings of a component's pods, with every default resolved.

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec, ResourceRequirements};

use crate::{
    api::{PodSettings, ResourceSettings, ShortenerStackSpec},
    model::{metadata::Component, pod_patch::PodPatch, stack::Pod},
};

/// Returns the settings of a component's pods, and the field of the component.
pub(super) fn of(
    spec: &ShortenerStackSpec,
    component: Component,
) -> Option<(&'static str, &PodSettings)> {
    let telemetry = &spec.observability;
    Some(match component {
        Component::App => ("app", &spec.app.pod),
        Component::Gateway => ("gateway", &spec.gateway.pod),
        Component::Worker => ("workers", &spec.workers.pod),
        Component::Postgres => ("database.managed", &spec.database.managed.as_ref()?.pod),
        Component::Cache => ("cache.managed", &spec.cache.managed.as_ref()?.pod),
        Component::Rabbitmq => ("queue.managed", &spec.queue.managed.as_ref()?.pod),
        Component::Qdrant => ("vector.managed", &spec.vector.managed.as_ref()?.pod),
        Component::Otel => (
            "observability.collector.managed",
            &telemetry.collector.managed.as_ref()?.pod,
        ),
        Component::Telemetry => (
            "observability.backend.managed",
            &telemetry.backend.managed.as_ref()?.pod,
        ),
        // Their pods have settings of the app's.
        Component::Purge
        | Component::Webhooks
        | Component::Backup
        | Component::Verify
        | Component::Move
        | Component::Stack => return None,
    })
}

/// Returns a pod with nothing but what the user's `podTemplate` adds. Changes that do not fit a template add nothing,
/// because the pods stay as they are.
pub(super) fn added(settings: &PodSettings) -> Option<PodSpec> {
    let changes = PodPatch::read(settings.pod_template.as_ref()?).ok()?;
    changes.onto(&PodTemplateSpec::default()).ok()?.spec
}

/// Merges the user's settings with the operator's image and the component's default resources.
pub(super) fn pod(settings: &PodSettings, image: &str, defaults: ResourceRequirements) -> Pod {
    Pod {
        image: settings.image.clone().unwrap_or_else(|| image.to_owned()),
        resources: resources(settings.resources.as_ref(), defaults),
    }
}

/// Merges the user's resources with the defaults; the user's value for a resource wins. A limit without a request
/// drops the default request, which might exceed the limit. Kubernetes then requests as much as the limit.
fn resources(
    given: Option<&ResourceSettings>,
    mut defaults: ResourceRequirements,
) -> ResourceRequirements {
    if let Some(given) = given {
        let requests = defaults.requests.get_or_insert_default();
        requests.retain(|name, _| !given.limits.contains_key(name));
        defaults
            .requests
            .get_or_insert_default()
            .extend(given.requests.clone());
        defaults
            .limits
            .get_or_insert_default()
            .extend(given.limits.clone());
    }
    defaults
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use serde_json::json;

    use super::*;

    fn defaults() -> ResourceRequirements {
        serde_json::from_value(
            json!({"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}),
        )
        .unwrap()
    }

    fn given(settings: serde_json::Value) -> ResourceRequirements {
        let settings: PodSettings = serde_json::from_value(settings).unwrap();
        pod(&settings, "default:1", defaults()).resources
    }

    #[test]
    fn the_changes_of_a_template_are_a_pod_of_their_own_unless_a_field_is_misspelt() {
        let read = |changes: serde_json::Value| {
            let settings = json!({"podTemplate": changes});
            added(&serde_json::from_value(settings).unwrap())
        };
        let pod = read(json!({"spec": {
            "nodeSelector": null,
            "containers": [{"name": "app", "env": [
                {"name": "A", "$patch": "delete"},
                {"name": "TZ", "value": "UTC"},
            ]}],
            "volumes": [{"name": "mine", "secret": {"secretName": "theirs"}}],
        }}));
        let pod = pod.unwrap();
        assert_eq!(pod.containers[0].env.as_ref().unwrap()[0].name, "TZ");
        assert_eq!(pod.volumes.unwrap().len(), 1);
        assert_eq!(read(json!({"sepc": {}})), None);
    }

    #[test]
    fn without_settings_the_defaults_hold() {
        let pod = pod(&PodSettings::default(), "default:1", defaults());
        assert_eq!(
            (pod.image.as_str(), pod.resources),
            ("default:1", defaults())
        );
    }

    #[test]
    fn a_given_quantity_replaces_the_default_of_its_name_only() {
        let resources = given(json!({"resources": {"requests": {"cpu": "1"}}}));
        let requests = resources.requests.unwrap();
        assert_eq!(
            (&requests["cpu"], &requests["memory"]),
            (&Quantity("1".into()), &Quantity("32Mi".into()))
        );
    }

    #[test]
    fn a_limit_below_the_default_request_takes_that_request_away() {
        let resources = given(json!({"resources": {"limits": {"memory": "16Mi"}}}));
        assert!(!resources.requests.unwrap().contains_key("memory"));
        assert_eq!(resources.limits.unwrap()["memory"], Quantity("16Mi".into()));
    }
}
