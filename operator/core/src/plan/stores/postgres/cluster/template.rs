//! The fields of a Cluster that users who edit a stack may set.

use serde_json::{Map, Value};

use crate::plan::error::ValidateError;

/// Fields that the policy `Restricted` admits, with all that is below them. None refers to a Secret, a ServiceAccount or
/// another cluster, opens a way in, or changes the labels by which others select pods.
const ADMITTED: [&str; 30] = [
    "affinity.additionalPodAffinity",
    "affinity.additionalPodAntiAffinity",
    "affinity.enablePodAntiAffinity",
    "affinity.nodeAffinity",
    "affinity.nodeSelector",
    "affinity.podAntiAffinityType",
    "affinity.tolerations",
    "affinity.topologyKey",
    "bootstrap.initdb.dataChecksums",
    "bootstrap.initdb.database",
    "bootstrap.initdb.owner",
    "enablePDB",
    "failoverDelay",
    "imageName",
    "logLevel",
    "maxSyncReplicas",
    "minSyncReplicas",
    "nodeMaintenanceWindow",
    "postgresql.parameters",
    "postgresql.synchronous",
    "primaryUpdateMethod",
    "primaryUpdateStrategy",
    "resources",
    "smartShutdownTimeout",
    "startDelay",
    "stopDelay",
    "storage",
    "switchoverDelay",
    "topologySpreadConstraints",
    "walStorage",
];

/// Checks a template. `restricted` tells that the policy for pod templates is `Restricted`.
///
/// # Errors
/// It sets a field that the spec has elsewhere, or that the policy does not admit.
pub(super) fn check(template: &Map<String, Value>, restricted: bool) -> Result<(), ValidateError> {
    if template.contains_key("instances") {
        return Err(ValidateError::ClusterTemplate {
            path: "instances".to_owned(),
            problem: "stands beside the template: set database.cloudNativePG.instances",
        });
    }
    // CloudNativePG's version stands on the Secret that it makes itself.
    let own_secret = template
        .get("bootstrap")
        .and_then(|bootstrap| bootstrap.pointer("/initdb/secret"));
    if own_secret.is_some() {
        return Err(ValidateError::ClusterTemplate {
            path: "bootstrap.initdb.secret".to_owned(),
            problem: "would keep CloudNativePG from making the Secret that the stack reads: remove it",
        });
    }
    match refused("", template).filter(|_| restricted) {
        Some(path) => Err(ValidateError::ClusterTemplate {
            path,
            problem: "is not admitted by podTemplatePolicy Restricted of the operator: remove it, or ask an administrator of the cluster for Unrestricted",
        }),
        None => Ok(()),
    }
}

/// Returns the first path that is not admitted.
fn refused(above: &str, fields: &Map<String, Value>) -> Option<String> {
    fields.iter().find_map(|(key, value)| {
        let path = format!("{above}{key}");
        if ADMITTED.contains(&path.as_str()) {
            return None;
        }
        let below = format!("{path}.");
        let leads_on = ADMITTED.iter().any(|admitted| admitted.starts_with(&below));
        match value {
            Value::Object(fields) if leads_on => refused(&below, fields),
            _ => Some(path),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(template: Value, restricted: bool) -> Option<String> {
        let Value::Object(template) = template else {
            return None;
        };
        let error = check(&template, restricted).err()?;
        Some(error.to_string())
    }

    #[test]
    fn the_restricted_policy_admits_what_refers_to_nothing_else() {
        let plain = json!({
            "imageName": "ghcr.io/cloudnative-pg/postgresql:18.1",
            "postgresql": {"parameters": {"shared_buffers": "1GB"}, "synchronous": {"number": 1}},
            "affinity": {"topologyKey": "topology.kubernetes.io/zone"},
            "resources": {"limits": {"memory": "4Gi"}},
        });
        assert_eq!(found(plain, true), None);
        for (template, path) in [
            (json!({"superuserSecret": {"name": "x"}}), "superuserSecret"),
            (json!({"postgresql": {"ldap": {}}}), "postgresql.ldap"),
            (json!({"postgresql": null}), "postgresql"),
            (
                json!({"inheritedMetadata": {"labels": {}}}),
                "inheritedMetadata",
            ),
            (json!({"managed": {"services": {}}}), "managed"),
            (json!({"bootstrap": {"recovery": {}}}), "bootstrap.recovery"),
            (json!({"fieldOfALaterVersion": 1}), "fieldOfALaterVersion"),
        ] {
            let message = found(template.clone(), true).unwrap_or_default();
            let named = format!("database.cloudNativePG.template: {path} is not admitted");
            assert!(message.starts_with(&named), "{message}");
            assert_eq!(found(template, false), None);
        }
    }

    #[test]
    fn the_number_of_servers_stands_in_one_place_and_cloudnativepg_makes_the_secret() {
        let secret = json!({"bootstrap": {"initdb": {"secret": {"name": "mine"}}}});
        for restricted in [true, false] {
            let message = found(secret.clone(), restricted).unwrap_or_default();
            assert!(
                message.contains("bootstrap.initdb.secret would keep"),
                "{message}"
            );
            let message = found(json!({"instances": 5}), restricted).unwrap_or_default();
            assert!(
                message.ends_with("set database.cloudNativePG.instances"),
                "{message}"
            );
        }
    }
}
