//! The resource definition of the cluster beside that of this program. An older one lacks fields, and the API server drops
//! them from every stack: without `gateway.auth`, for example, the operator would open the API.

use std::time::Duration;

use http::{Request, header::ACCEPT};
use kube::{Client, Resource};
use serde_json::Value;
use shortener_operator_core::{api::ShortenerStack, definition::missing_fields};
use tokio::time::sleep;

use crate::server::health::Health;

/// Time until an older definition is looked at again. Meanwhile this replica is not ready, so a rolling update keeps the
/// earlier operator.
const RECHECK: Duration = Duration::from_secs(10);
/// Time between two looks of a leader.
const PERIOD: Duration = Duration::from_secs(300);

/// Waits while the definition of the cluster is older than this program. One that cannot be read, or does not exist, is left
/// to the watch of the stacks.
pub async fn wait_until_current(client: &Client, health: &Health) {
    let stacks = health.expect("the stacks");
    let mut logged = None;
    while let Some(complaint) = complaint(client).await {
        stacks.fails(&complaint);
        if logged.as_ref() != Some(&complaint) {
            tracing::error!("this replica waits: {complaint}");
            logged = Some(complaint);
        }
        sleep(RECHECK).await;
    }
    health.forget();
}

/// Returns the complaint about the definition as soon as it has been replaced by an older one.
pub async fn replaced(client: &Client) -> String {
    loop {
        sleep(PERIOD).await;
        if let Some(complaint) = complaint(client).await {
            return complaint;
        }
    }
}

async fn complaint(client: &Client) -> Option<String> {
    // Every account may read this document, also where the operator has no ClusterRole.
    let api_version = ShortenerStack::api_version(&());
    let request = Request::get(format!("/openapi/v3/apis/{api_version}"))
        .header(ACCEPT, "application/json")
        .body(Vec::new());
    let document: Result<Value, kube::Error> = match request {
        Ok(request) => client.request(request).await,
        Err(error) => Err(kube::Error::HttpError(error)),
    };
    match document {
        Ok(document) => outdated(&document),
        Err(error) => {
            tracing::debug!(%error, "the definition of the stacks cannot be read");
            None
        }
    }
}

/// Returns the complaint about the definition in an OpenAPI document, if it is older than this program.
fn outdated(document: &Value) -> Option<String> {
    let kind = format!(".{}", ShortenerStack::kind(&()));
    let mut schemas = document["components"]["schemas"].as_object()?.iter();
    let (_, schema) = schemas.find(|(name, _)| name.ends_with(&kind))?;
    let missing = missing_fields(&schema["properties"]["spec"]);
    (!missing.is_empty()).then(|| {
        format!(
            "the resource definition is older than this operator (version {}) and lacks {}: upgrade the chart \
             shortener-definition",
            env!("CARGO_PKG_VERSION"),
            missing.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_without_a_field_of_this_program_is_older() {
        let definition = json!(ShortenerStack::crd());
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut document = json!({"components": {"schemas": {
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {},
            "dev.shortener.v1alpha1.ShortenerStack": schema,
        }}});
        assert_eq!(outdated(&document), None);
        assert_eq!(outdated(&json!({})), None);
        let gateway = "/components/schemas/dev.shortener.v1alpha1.ShortenerStack/properties/spec/properties/gateway/properties";
        let fields = document.pointer_mut(gateway).unwrap();
        fields.as_object_mut().unwrap().remove("auth").unwrap();
        let complaint = outdated(&document).unwrap();
        assert!(
            complaint.contains("lacks spec.gateway.auth:"),
            "{complaint}"
        );
    }
}
