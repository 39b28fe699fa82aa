//! Settings of a component's pods, with every default resolved.

use k8s_openapi::api::core::v1::ResourceRequirements;

use crate::{
    api::{PodSettings, ResourceSettings},
    model::stack::Pod,
};

/// Merges the user's settings with the operator's image and the component's default resources.
pub(super) fn pod(settings: &PodSettings, image: &str, defaults: ResourceRequirements) -> Pod {
    Pod {
        image: settings.image.clone().unwrap_or_else(|| image.to_owned()),
        resources: resources(settings.resources.as_ref(), defaults),
        node_selector: settings.node_selector.clone(),
        tolerations: settings.tolerations.clone(),
        affinity: settings.affinity.as_deref().cloned(),
        priority_class: settings.priority_class_name.clone(),
        env: settings.env.clone(),
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
