//! The live children of a stack, whole and read from the API server, for plans. Reconciles use the inventory.

use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::{DynamicObject, ObjectList},
};
use shortener_operator_core::{
    model::{
        kinds::{Kind, kinds},
        metadata::{INSTANCE_LABEL, StackIdentity, managed_by_selector},
    },
    plan::diff::{ChildName, LiveChildren},
};

use super::refusal::{is_absent, sentence};

/// An error of a read for a plan.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what}: {}", sentence(.source))]
pub struct ReadError {
    /// Objects that were to be read.
    pub what: String,
    pub source: kube::Error,
}

/// Reads the children of a stack: those that carry its labels, and those that only have the name of a wanted one.
///
/// # Errors
/// The API server refuses a read or does not answer. A kind that the cluster lacks has no objects.
pub async fn read(
    client: &Client,
    identity: &StackIdentity,
    wanted: &[ChildName],
) -> Result<LiveChildren, ReadError> {
    let (namespace, name) = (identity.namespace.as_str(), &identity.name);
    let labels = format!("{},{INSTANCE_LABEL}={name}", managed_by_selector());
    let params = ListParams::default().labels(&labels);
    let mut live = LiveChildren::new();
    for Kind { resource, .. } in kinds() {
        let objects: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &resource);
        let what = || format!("{} in namespace {namespace}", resource.plural);
        let list: Option<ObjectList<_>> = present(objects.list(&params).await, what)?;
        for object in list.into_iter().flat_map(|list| list.items) {
            add(&mut live, &resource.kind, object)?;
        }
        for child in wanted.iter().filter(|child| child.kind == resource.kind) {
            if live.contains_key(child) {
                continue;
            }
            let what = || format!("{child} in namespace {namespace}");
            if let Some(object) = present(objects.get(&child.name).await, what)? {
                add(&mut live, &resource.kind, object)?;
            }
        }
    }
    Ok(live)
}

fn add(live: &mut LiveChildren, kind: &str, object: DynamicObject) -> Result<(), ReadError> {
    let child = ChildName {
        kind: kind.to_owned(),
        name: object.name_any(),
    };
    let value = serde_json::to_value(object).map_err(|error| ReadError {
        what: child.to_string(),
        source: kube::Error::SerdeError(error),
    })?;
    live.insert(child, value);
    Ok(())
}

/// Returns the answer to a read; `None` if the object or its kind does not exist.
///
/// # Errors
/// The API server refused the read or did not answer.
pub fn present<T>(
    answer: Result<T, kube::Error>,
    what: impl FnOnce() -> String,
) -> Result<Option<T>, ReadError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if is_absent(&status) => Ok(None),
        Err(source) => Err(ReadError {
            what: what(),
            source,
        }),
    }
}
