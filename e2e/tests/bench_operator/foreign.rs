//! Secrets that have nothing to do with stacks.

use std::{cell::Cell, time::Duration};

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde_json::json;

use crate::{
    objects::{apply, create_namespace, each, namespace, namespaces},
    progress::step,
};

const GROUP: &str = "foreign";
const CREATED: Duration = Duration::from_secs(20 * 60);
/// One of so many has the labels that Helm's charts share with stacks, and its last configuration in an annotation.
const PER_LABELLED: usize = 20;
/// The sizes of a value and of that annotation in bytes.
const VALUE: usize = 256;
const LAST_APPLIED: usize = 4096;

/// Creates Secrets in namespaces of their own, and returns the time.
pub(crate) async fn create(client: &Client, secrets: usize) -> Result<Duration> {
    for namespace in namespaces(GROUP, secrets) {
        create_namespace(client, GROUP, &namespace).await?;
    }
    let done = Cell::new(0_usize);
    let shown = || format!("{} of {secrets} are created", done.get());
    let labelled = secrets / PER_LABELLED;
    let work = each(secrets, &done, |number| {
        create_one(client, number, number < labelled)
    });
    let what = format!("Create {secrets} Secrets of others");
    let ((), time) = step(&what, CREATED, shown, work).await?;
    Ok(time)
}

async fn create_one(client: &Client, number: usize, labelled: bool) -> Result<()> {
    let name = format!("foreign-{number:05}");
    let metadata = if labelled {
        json!({
            "name": name,
            "labels": {
                "app.kubernetes.io/managed-by": "Helm",
                "helm.sh/chart": "foreign-1.0.0",
                "app.kubernetes.io/instance": name,
            },
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "x".repeat(LAST_APPLIED),
            },
        })
    } else {
        json!({"name": name})
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata,
        "stringData": {"value": "x".repeat(VALUE)},
    });
    let secrets = Api::<Secret>::namespaced(client.clone(), &namespace(GROUP, number));
    apply(&secrets, &name, &secret).await
}
