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
    model::kinds::{Kind, kinds},
    plan::diff::{Changes, ChildName},
};

use super::{patches::applying, refusal::sentence};

/// An error that names the changes of which it is unknown whether the API server accepts them.
#[derive(Debug, thiserror::Error)]
#[error("whether the API server accepts the change of {} is unknown: {}", joined(.children), sentence(.reason))]
pub struct Unasked {
    pub children: Vec<ChildName>,
    /// The reason for the first of them.
    pub reason: kube::Error,
}

fn joined(children: &[ChildName]) -> String {
    let names: Vec<String> = children.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Moves the changes that the API server refuses to those that cannot be written.
///
/// # Errors
/// The user may not write some of the objects, or the API server did not answer. It was asked about the others.
pub async fn confirm(
    client: &Client,
    namespace: &str,
    mut objects: BTreeMap<ChildName, Value>,
    changes: &mut Changes,
) -> Result<(), Unasked> {
    let params = PatchParams {
        dry_run: true,
        ..applying()
    };
    let changed: Vec<ChildName> = changes
        .changed
        .iter()
        .map(|one| one.child.clone())
        .collect();
    let (mut children, mut first) = (Vec::new(), None);
    let mut rest = changed.into_iter().filter_map(|child| {
        // A child that is only released has no object.
        let object = objects.remove(&child)?;
        let mut kinds = kinds().into_iter();
        let kind = kinds.find(|kind| kind.resource.kind == child.kind)?;
        Some((child, kind, object))
    });
    while let Some((child, Kind { resource, .. }, mut object)) = rest.next() {
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = resource.kind.clone().into();
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let answer = api.patch(&child.name, &params, &Patch::Apply(object)).await;
        match answer {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if refuses(&status) => {
                changes.refuse(
                    child,
                    format!("the API server refuses it: {}", status.message),
                );
            }
            Err(error) => {
                children.push(child);
                // A server that does not answer is not asked again.
                if !matches!(error, kube::Error::Api(_)) {
                    children.extend(rest.by_ref().map(|(child, ..)| child));
                }
                first = first.or(Some(error));
            }
        }
    }
    match first {
        Some(reason) => Err(Unasked { children, reason }),
        None => Ok(()),
    }
}

/// Returns true for an answer that a later apply gets too. One about a missing right says nothing about the object.
fn refuses(status: &Status) -> bool {
    let lacks_right = status.code == 403 && status.message.contains(" cannot patch resource \"");
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
                403,
                "admission webhook \"policy.example\" denied the request: a container cannot run as root",
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
