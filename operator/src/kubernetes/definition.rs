//! The resource definitions of the cluster beside those of this program. An older one lacks fields, and the API server drops
//! them from every stack: without `gateway.auth`, for example, the operator would open the API. A cluster without ShortLinks
//! or drills is no older one.

use std::time::Duration;

use http::{Request, header::ACCEPT};
use kube::{Client, Resource};
use serde_json::Value;
use shortener_operator_core::{
    api::{ShortLink, ShortenerDrill, ShortenerStack},
    definition::{missing_drill_fields, missing_fields, missing_link_fields},
};
use tokio::time::{sleep, timeout};

use crate::{kubernetes::refusal, server::health::Health};

/// Time until the definition is looked at again. While it is older, a replica that starts is not ready, so a rolling update
/// keeps the earlier operator.
const PERIOD: Duration = Duration::from_secs(10);
/// Time until one that could not be read is read again.
const RETRY: Duration = Duration::from_secs(2);
/// Longest time for which one that cannot be read holds up the start of the work.
const UNREAD_LIMIT: Duration = Duration::from_secs(60);

/// Waits while the definition of the cluster is older than this program.
pub async fn wait_until_current(client: &Client, health: &Health) {
    let stacks = health.expect("the stacks");
    let mut logged = None;
    while let Err(complaint) = check(client).await {
        stacks.fails(&complaint);
        if logged.as_ref() != Some(&complaint) {
            tracing::error!("this replica waits: {complaint}");
            logged = Some(complaint);
        }
        sleep(PERIOD).await;
    }
    health.forget();
}

/// Looks at the definition. One that cannot be read for a minute is left to the watch of the stacks.
///
/// # Errors
/// The complaint about a definition that is older than this program.
pub async fn check(client: &Client) -> Result<(), String> {
    let known = async {
        loop {
            match complaint(client).await {
                Ok(complaint) => return complaint.map_or(Ok(()), Err),
                Err(error) => tracing::debug!(%error, "the resource definition cannot be read"),
            }
            sleep(RETRY).await;
        }
    };
    timeout(UNREAD_LIMIT, known).await.unwrap_or_else(|_| {
        tracing::warn!(
            "the resource definition could not be read within {} s: going on; one older than this operator would drop fields of the stacks",
            UNREAD_LIMIT.as_secs()
        );
        Ok(())
    })
}

/// Returns the complaint about the definition as soon as it has been replaced by an older one.
pub async fn replaced(client: &Client) -> String {
    loop {
        sleep(PERIOD).await;
        if let Ok(Some(complaint)) = complaint(client).await {
            return complaint;
        }
    }
}

/// Returns the complaint about the definition, if it is older than this program. One that does not exist is left to the watch
/// of the stacks.
///
/// # Errors
/// The API server does not answer, or refuses the read.
pub async fn complaint(client: &Client) -> Result<Option<String>, kube::Error> {
    // Every account may read this document, also where the operator has no ClusterRole.
    let api_version = ShortenerStack::api_version(&());
    let request = Request::get(format!("/openapi/v3/apis/{api_version}"))
        .header(ACCEPT, "application/json")
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    match client.request(request).await {
        Ok(document) => Ok(outdated(&document)),
        Err(kube::Error::Api(status)) if refusal::is_absent(&status) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the complaint about the definition in an OpenAPI document, if it is older than this program.
fn outdated(document: &Value) -> Option<String> {
    let schemas = document["components"]["schemas"].as_object()?;
    let spec = |kind: &str| {
        let kind = format!(".{kind}");
        let (_, schema) = schemas.iter().find(|(name, _)| name.ends_with(&kind))?;
        Some(&schema["properties"]["spec"])
    };
    let mut missing = missing_fields(spec(&ShortenerStack::kind(&()))?);
    let of_links = spec(&ShortLink::kind(&())).map(missing_link_fields);
    let of_links = of_links.into_iter().flatten();
    missing.extend(of_links.map(|field| format!("{field} of ShortLinks")));
    let of_drills = spec(&ShortenerDrill::kind(&())).map(missing_drill_fields);
    let of_drills = of_drills.into_iter().flatten();
    missing.extend(of_drills.map(|field| format!("{field} of ShortenerDrills")));
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
pub mod tests {
    use kube::CustomResourceExt;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::testing::api_server::{FakeApiServer, Fault};

    /// Returns the OpenAPI document of this program's definition without a field of `spec.gateway`.
    pub fn document_without(field: &str) -> Value {
        let definition = json!(ShortenerStack::crd());
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut document = json!({"components": {"schemas": {
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {},
            "dev.shortener.v1alpha1.ShortenerStack": schema,
        }}});
        let gateway = "/components/schemas/dev.shortener.v1alpha1.ShortenerStack/properties/spec/properties/gateway/properties";
        let fields = document.pointer_mut(gateway).unwrap();
        fields.as_object_mut().unwrap().remove(field);
        document
    }

    #[test]
    fn a_definition_without_a_field_of_this_program_is_older() {
        assert_eq!(outdated(&document_without("")), None);
        assert_eq!(outdated(&json!({})), None);
        let complaint = outdated(&document_without("auth")).unwrap();
        assert!(
            complaint.contains("lacks spec.gateway.auth:"),
            "{complaint}"
        );
    }

    #[test]
    fn the_definition_of_short_links_is_compared_where_there_is_one() {
        let mut document = document_without("");
        let definition = json!(ShortLink::crd());
        let schemas = &mut document["components"]["schemas"];
        schemas["dev.shortener.v1alpha1.ShortLink"] =
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        assert_eq!(outdated(&document), None);
        let fields =
            "/components/schemas/dev.shortener.v1alpha1.ShortLink/properties/spec/properties";
        let fields = document.pointer_mut(fields).unwrap();
        fields.as_object_mut().unwrap().remove("adopt").unwrap();
        let complaint = outdated(&document).unwrap();
        assert!(
            complaint.contains("lacks spec.adopt of ShortLinks:"),
            "{complaint}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_that_cannot_be_read_is_waited_for_and_an_absent_one_is_not() {
        let server = FakeApiServer::default();
        let waited = async || {
            let begin = Instant::now();
            let result = check(&server.client()).await;
            (result.is_ok(), begin.elapsed().as_secs())
        };
        assert_eq!(waited().await, (true, 0));
        server.serve_definition(Some(document_without("auth")));
        assert_eq!(waited().await, (false, 0));
        for code in [403, 503] {
            server.fail_reads_of("v1alpha1", Some(Fault::Refuse(code)));
            assert_eq!(waited().await, (true, 60));
        }
        server.fail_reads_of("v1alpha1", Some(Fault::Hang));
        assert_eq!(waited().await, (true, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_sees_an_older_definition_within_ten_seconds() {
        let server = FakeApiServer::default();
        server.serve_definition(Some(document_without("auth")));
        let begin = Instant::now();
        replaced(&server.client()).await;
        assert_eq!(begin.elapsed().as_secs(), 10);
    }
}
