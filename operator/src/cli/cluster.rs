//! The cluster of the kubeconfig, for commands that people run: the connection, and reads of which each may fail alone.

use std::time::Duration;

use clap::Args;
use kube::{
    Api, Client, Config,
    api::ListParams,
    client::ClientBuilder,
    config::{KubeConfigOptions, KubeconfigError},
    core::{DynamicObject, ObjectList, ObjectMeta},
    discovery::ApiResource,
};
use serde_json::{Value, json};

use crate::kubernetes::{deadline::DeadlineLayer, refusal};

/// Time limit of a request, including a large list.
const LIMIT: Duration = Duration::from_secs(60);

/// The namespace of a stack, and the cluster that it is in.
#[derive(Clone, Debug, Default, Args)]
pub struct Location {
    /// Namespace of the stack; the kubeconfig's if absent
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig; the current one if absent
    #[arg(long, global = true)]
    pub context: Option<String>,
}

/// A stack.
#[derive(Debug, Args)]
pub struct Stack {
    /// Name of the stack
    #[arg(value_name = "STACK")]
    pub name: String,
    /// Place of the stack
    #[command(flatten)]
    pub location: Location,
}

/// An error of the connection to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig or the named context cannot be used.
    #[error("cannot use the kubeconfig or its context (--context): {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// The client for the API server cannot be set up.
    #[error("cannot use the kubeconfig or the service account to connect to the API server: {}", refusal::sentence(.0))]
    Client(#[source] kube::Error),
}

impl Location {
    /// Returns a client for the cluster, and the namespace. Sends no request. A request without an answer in time fails.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub async fn connect(&self) -> Result<(Client, String), ConnectError> {
        let (config, namespace) = self.config().await?;
        let client = ClientBuilder::try_from(config).map_err(ConnectError::Client)?;
        Ok((client.with_layer(&DeadlineLayer(LIMIT)).build(), namespace))
    }

    /// Does the same without the time limit, for connections through the API server that stay open.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub async fn connect_for_streams(&self) -> Result<(Client, String), ConnectError> {
        let (config, namespace) = self.config().await?;
        let client = Client::try_from(config).map_err(ConnectError::Client)?;
        Ok((client, namespace))
    }

    async fn config(&self) -> Result<(Config, String), ConnectError> {
        let mut config = match &self.context {
            Some(context) => {
                let options = KubeConfigOptions {
                    context: Some(context.clone()),
                    ..KubeConfigOptions::default()
                };
                Config::from_kubeconfig(&options).await?
            }
            None => Config::infer()
                .await
                .map_err(|error| ConnectError::Client(kube::Error::InferConfig(error)))?,
        };
        // kube would repeat a request that got 429, 503 or 504 until its time limit, so that the answer is never told. A request
        // that creates something may have been carried out the first time.
        config.default_retry = false;
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        Ok((config, namespace))
    }
}

/// Reads objects as JSON. A read that fails leaves a line in `unread`, so that a missing right on one kind never ends
/// a command. The kinds that the cluster lacks have no objects.
pub struct Reader {
    client: Client,
    /// Reads that failed, one sentence each.
    pub unread: Vec<String>,
    /// Kinds that were to be read and that the cluster lacks.
    pub lacking: Vec<String>,
}

impl Reader {
    /// Returns a reader that has read nothing yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            unread: Vec::new(),
            lacking: Vec::new(),
        }
    }

    /// Lists the objects of a kind, in every namespace if none is given. An empty selector selects all of them.
    pub async fn list(
        &mut self,
        kind: &ApiResource,
        namespace: Option<&str>,
        selector: &str,
    ) -> Vec<Value> {
        let listed = api(self.client.clone(), kind, namespace)
            .list(&selected(selector))
            .await;
        let objects = self.items(listed, kind, namespace);
        objects
            .into_iter()
            .map(|object| of_kind(kind, serde_json::to_value(object).unwrap_or_default()))
            .collect()
    }

    /// Lists the metadata of the objects of a kind, without annotations: those of a Secret may hold its data.
    pub async fn list_metadata(
        &mut self,
        kind: &ApiResource,
        namespace: Option<&str>,
        selector: &str,
    ) -> Vec<Value> {
        let listed = api(self.client.clone(), kind, namespace)
            .list_metadata(&selected(selector))
            .await;
        let objects = self.items(listed, kind, namespace);
        objects
            .into_iter()
            .map(|object| {
                let metadata = ObjectMeta {
                    annotations: None,
                    managed_fields: None,
                    ..object.metadata
                };
                of_kind(kind, json!({"metadata": metadata}))
            })
            .collect()
    }

    fn items<T: Clone>(
        &mut self,
        listed: Result<ObjectList<T>, kube::Error>,
        kind: &ApiResource,
        namespace: Option<&str>,
    ) -> Vec<T> {
        let error = match listed {
            Ok(list) => return list.items,
            Err(kube::Error::Api(status)) if refusal::is_absent(&status) => {
                self.lacking.push(kind.kind.clone());
                return Vec::new();
            }
            Err(error) => refusal::sentence(&error),
        };
        let place = match namespace {
            Some(namespace) => format!("{} in namespace {namespace}", kind.plural),
            None => format!("{} of the cluster", kind.plural),
        };
        self.unread.push(format!("cannot read {place}: {error}"));
        Vec::new()
    }
}

fn api(client: Client, kind: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, kind),
        None => Api::all_with(client, kind),
    }
}

fn selected(selector: &str) -> ListParams {
    match selector {
        "" => ListParams::default(),
        labels => ListParams::default().labels(labels),
    }
}

/// Sets kind and API version, which the items of a list lack.
fn of_kind(kind: &ApiResource, mut object: Value) -> Value {
    object["apiVersion"] = kind.api_version.clone().into();
    object["kind"] = kind.kind.clone().into();
    object
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;
    use crate::testing::api_server::{FakeApiServer, Fault};

    fn server() -> FakeApiServer {
        let server = FakeApiServer::default();
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "acme-postgres", "namespace": "links", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"stringData\":{\"password\":\"s3cret\"}}",
            }},
            "data": {"password": "czNjcmV0"},
        }))
        .unwrap();
        server.create(&secret);
        server
    }

    #[tokio::test]
    async fn a_refused_read_becomes_a_line_and_the_next_one_goes_on() {
        let server = server();
        let secrets = ApiResource::erase::<Secret>(&());
        let mut reader = Reader::new(server.client());
        server.fail_all(Some(Fault::Refuse(403)));
        assert!(reader.list(&secrets, Some("links"), "").await.is_empty());
        assert_eq!(
            reader.unread,
            ["cannot read secrets in namespace links: this failure was asked for"]
        );
        server.fail_all(None);
        let found = reader.list(&secrets, Some("links"), "").await;
        assert_eq!(found[0]["kind"], "Secret");
        assert_eq!(reader.unread.len(), 1);
    }

    #[tokio::test]
    async fn a_kind_that_the_cluster_lacks_has_no_objects_and_no_line() {
        let server = server();
        server.fail_all(Some(Fault::Refuse(404)));
        let mut reader = Reader::new(server.client());
        let secrets = ApiResource::erase::<Secret>(&());
        assert!(reader.list(&secrets, None, "a=b").await.is_empty());
        assert_eq!(reader.unread, Vec::<String>::new());
        assert_eq!(reader.lacking, ["Secret"]);
    }

    #[tokio::test]
    async fn metadata_holds_neither_data_nor_annotations() {
        let mut reader = Reader::new(server().client());
        let secrets = ApiResource::erase::<Secret>(&());
        let found = reader.list_metadata(&secrets, Some("links"), "").await;
        assert_eq!(found[0]["metadata"]["name"], "acme-postgres");
        let text = Value::from(found).to_string();
        assert!(
            !text.contains("s3cret") && !text.contains("czNjcmV0"),
            "{text}"
        );
    }
}
