//! The pods of the app, one of which a command talks to.

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, core::Selector};
use shortener_operator_core::model::metadata::{Component, selector_labels};

use super::observed::{self, FindError, text};

/// Container with the app.
pub const CONTAINER: &str = "app";

/// An error that leaves no pod to talk to.
#[derive(Debug, thiserror::Error)]
pub enum AppPodError {
    /// The pods cannot be read, or there is no such stack.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The app does not run.
    #[error("stack {0} has no running pod of the app: see `kubectl shortener status {0}`")]
    NoPod(String),
}

/// Returns the name of a pod in which the app runs, a ready one if there is one.
///
/// # Errors
/// [`AppPodError`]
pub async fn find(client: &Client, namespace: &str, stack: &str) -> Result<String, AppPodError> {
    let selector = Selector::from_iter(selector_labels(stack, Component::App)).to_string();
    let pods = observed::list::<Pod>(client, Some(namespace), &selector).await?;
    let running = pods.iter().filter_map(|pod| {
        let containers = pod["status"]["containerStatuses"].as_array();
        let mut containers = containers.into_iter().flatten();
        let app = containers.find(|container| container["name"] == CONTAINER)?;
        let runs = app["state"]["running"].is_object();
        let leaves = !pod["metadata"]["deletionTimestamp"].is_null();
        (runs && !leaves).then(|| (app["ready"] == true, text(&pod["metadata"]["name"])))
    });
    match running.max() {
        Some((_, pod)) => Ok(pod.to_owned()),
        None => {
            observed::find(client, Some(namespace), Some(stack)).await?;
            Err(AppPodError::NoPod(stack.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{
        api_server::{FakeApiServer, Fault},
        shared::stored_stack,
    };

    fn pod(name: &str, containers: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "links", "labels": {
                "app.kubernetes.io/name": "shortener", "app.kubernetes.io/instance": "acme",
                "app.kubernetes.io/component": "app",
            }},
            "status": {"containerStatuses": containers},
        }))
        .unwrap()
    }

    fn status(name: &str, ready: bool, state: Value) -> Value {
        json!({"name": name, "ready": ready, "state": state, "image": "", "imageID": "", "restartCount": 0})
    }

    async fn found(server: &FakeApiServer) -> Result<String, String> {
        let found = find(&server.client(), "links", "acme").await;
        found.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_ready_pod_of_the_app_is_asked_and_else_one_that_runs() {
        let server = FakeApiServer::default();
        let running = json!({"running": {}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        server.create(&stored_stack(json!({})));
        let sidecar = status("proxy", true, running.clone());
        let down = json!([sidecar, status("app", false, waiting)]);
        server.create(&pod("acme-app-down", down));
        let error = found(&server).await.unwrap_err();
        assert!(error.contains("no running pod"), "{error}");
        for (name, ready) in [("acme-app-young", false), ("acme-app-old", true)] {
            let app = status("app", ready, running.clone());
            server.create(&pod(name, json!([app])));
        }
        assert_eq!(found(&server).await.unwrap(), "acme-app-old");
    }

    #[tokio::test]
    async fn a_stack_that_is_not_there_and_pods_that_may_not_be_read_are_told() {
        let server = FakeApiServer::default();
        let error = found(&server).await.unwrap_err();
        assert!(error.starts_with("no ShortenerStack acme"), "{error}");
        server.fail_all(Some(Fault::Refuse(403)));
        let error = found(&server).await.unwrap_err();
        assert!(
            error.starts_with("cannot read pods in namespace links"),
            "{error}"
        );
    }
}
