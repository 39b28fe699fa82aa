//! The address of the cluster under test and the images that it holds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use kube::{Client, config::Kubeconfig};

/// With this begin the contexts of the clusters that the scripts create: kind puts `kind-` before a cluster's name.
const OURS: &str = "kind-shortener";

/// Settings of a run, from the environment. The Kubernetes client reads `KUBECONFIG` itself.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base URL of the ingress controller (`E2E_GATEWAY_URL`).
    pub gateway_url: String,
    /// Image of the app (`E2E_APP_IMAGE`).
    pub app_image: String,
    /// Image of PostgreSQL, which also gives tests a shell (`E2E_POSTGRES_IMAGE`).
    pub postgres_image: String,
    /// Image of PostgreSQL for volumes that 17 made (`E2E_POSTGRES_17_IMAGE`).
    pub postgres_17_image: String,
    /// Image of the stand-in app (`E2E_ECHO_IMAGE`).
    pub echo_image: String,
    /// Image of the stand-in telemetry backend (`E2E_SINK_IMAGE`).
    pub sink_image: String,
    /// Image of Prometheus (`E2E_PROMETHEUS_IMAGE`).
    pub prometheus_image: String,
    /// Image of SeaweedFS (`E2E_OBJECT_STORE_IMAGE`).
    pub object_store_image: String,
    /// The operator's program on this machine, for its commands (`E2E_OPERATOR`).
    pub operator: String,
    /// True when the namespaces of failed tests stay (`E2E_KEEP=1`).
    pub keep_failed: bool,
}

impl Settings {
    pub fn from_env() -> Result<Self> {
        Ok(Self {
            gateway_url: variable("E2E_GATEWAY_URL")?
                .trim_end_matches('/')
                .to_owned(),
            app_image: variable("E2E_APP_IMAGE")?,
            postgres_image: variable("E2E_POSTGRES_IMAGE")?,
            postgres_17_image: variable("E2E_POSTGRES_17_IMAGE")?,
            echo_image: variable("E2E_ECHO_IMAGE")?,
            sink_image: variable("E2E_SINK_IMAGE")?,
            prometheus_image: variable("E2E_PROMETHEUS_IMAGE")?,
            object_store_image: variable("E2E_OBJECT_STORE_IMAGE")?,
            operator: variable("E2E_OPERATOR")?,
            keep_failed: std::env::var("E2E_KEEP").is_ok_and(|value| value == "1"),
        })
    }

    /// Returns the plugin of kubectl, which lies beside the operator's program.
    pub fn plugin(&self) -> PathBuf {
        Path::new(&self.operator).with_file_name("kubectl-shortener")
    }
}

/// Returns a client of the cluster under test. It refuses each cluster that the scripts did not create: tests delete
/// definitions, and with them the objects of every namespace.
pub async fn cluster_client() -> Result<Client> {
    let known = Kubeconfig::read().context("no cluster is known: run `make test`")?;
    let context = known.current_context.unwrap_or_default();
    ensure!(
        is_ours(&context),
        "kubectl's current context is {context:?}, and the tests change only clusters whose context begins with {OURS}: \
         run them with `make test`, or see CONTRIBUTING.md"
    );
    Ok(Client::try_default().await?)
}

fn is_ours(context: &str) -> bool {
    context.starts_with(OURS)
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| {
        format!("{name} is not set: run the cluster tests with `make test`, or see CONTRIBUTING.md")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_others_are_refused() {
        for ours in ["", "-test", "-nodes", "-ipv6"] {
            assert!(is_ours(&format!("kind-shortener{ours}")));
        }
        for other in ["", "production", "kind-kind", "shortener"] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
