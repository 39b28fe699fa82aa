//! The cluster of the kubeconfig, for commands that people run: the connection.

use clap::Args;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, KubeconfigError},
};

/// The namespace of a stack, and the cluster that it is in.
#[derive(Clone, Debug, Default, Args)]
pub struct Location {
    /// Namespace of the stack; the kubeconfig's if absent
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig; the current one if absent
    #[arg(long)]
    pub context: Option<String>,
}

/// An error of the connection to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig or the named context cannot be used.
    #[error("cannot use the kubeconfig or its context (--context): {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// The client for the API server cannot be set up.
    #[error("cannot use the kubeconfig or the service account to connect to the API server: {0}")]
    Client(#[source] kube::Error),
}

impl Location {
    /// Returns a client for the cluster, and the namespace. Sends no request.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub async fn connect(&self) -> Result<(Client, String), ConnectError> {
        let config = match &self.context {
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
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(ConnectError::Client)?;
        Ok((client, namespace))
    }
}
