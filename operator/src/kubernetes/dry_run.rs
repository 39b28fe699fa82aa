//! Asks the API server, for a plan, whether it accepts the changes of children: a webhook, a quota or its own validation
//! may refuse them. Nothing is stored.

use std::collections::BTreeMap;

use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::{DynamicObject, Status},
};
use serde_json::Value;
use shortener_operator_core::{
    model::{kinds::kinds, metadata::FIELD_MANAGER},
    plan::diff::{Changes, ChildName},
};

/// Moves the changes that the API server refuses to those that cannot be written.
///
/// # Errors
/// The API server was not asked about every change: it did not answer, or the user may not write the object.
pub async fn confirm(
    client: &Client,
    namespace: &str,
    mut objects: BTreeMap<ChildName, Value>,
    changes: &mut Changes,
) -> Result<(), kube::Error> {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(FIELD_MANAGER).force()
    };
    let changed: Vec<ChildName> = changes
        .changed
        .iter()
        .map(|one| one.child.clone())
        .collect();
    for child in changed {
        let kind = kinds()
            .into_iter()
            .find(|kind| kind.resource.kind == child.kind);
        // A child that is only released has no object.
        let (Some(kind), Some(mut object)) = (kind, objects.remove(&child)) else {
            continue;
        };
        object["apiVersion"] = kind.resource.api_version.clone().into();
        object["kind"] = kind.resource.kind.clone().into();
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &kind.resource);
        match api.patch(&child.name, &params, &Patch::Apply(object)).await {
            Err(kube::Error::Api(status)) if refuses(&status) => {
                changes.refuse(
                    child,
                    format!("the API server refuses it: {}", status.message),
                );
            }
            answer => answer.map(|_| ())?,
        }
    }
    Ok(())
}

/// Returns true for an answer that a later apply gets too. One about a missing right says nothing about the object.
fn refuses(status: &Status) -> bool {
    let lacks_right = status.code == 403 && status.message.contains(" cannot ");
    matches!(status.code, 400 | 403 | 422) && !lacks_right
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_right_and_a_busy_server_refuse_nothing() {
        for (code, message, refused) in [
            (
                403,
                "deployments.apps \"a\" is forbidden: User \"ann\" cannot patch resource \"deployments\"",
                false,
            ),
            (
                403,
                "persistentvolumeclaims \"a\" is forbidden: exceeded quota: small",
                true,
            ),
            (
                403,
                "admission webhook \"policy.example\" denied the request: no",
                true,
            ),
            (
                400,
                "admission webhook \"policy.example\" denied the request: no",
                true,
            ),
            (422, "spec.replicas: Invalid value", true),
            (409, "the object has been modified", false),
            (429, "too many requests", false),
            (500, "failed calling webhook", false),
        ] {
            let status =
                json!({"status": "Failure", "message": message, "reason": "", "code": code});
            let status: Status = serde_json::from_value(status).unwrap();
            assert_eq!(refuses(&status), refused, "{message}");
        }
    }
}
