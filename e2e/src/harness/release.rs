//! The Helm release of the operator, for tests that change its version.

use std::path::Path;

use anyhow::{Context, Result};
use tokio::process::Command;

use crate::harness::{OPERATOR_NAMESPACE, checkout, kubectl::run};

/// Name of the release that the cluster's scripts install.
const RELEASE: &str = "shortener-operator";
/// The flag for field managers other than Helm: earlier tests scaled the operator by
/// hand, so they own its replicas too.
const FORCE: &str = "--force-conflicts";

/// The release of the operator with the values that it was installed with.
pub struct Release {
    values: String,
}

impl Release {
    /// Reads the values of the installed release.
    ///
    /// # Errors
    /// Fails if helm is not on the PATH or finds no release.
    pub async fn installed() -> Result<Self> {
        let arguments = ["get", "values", RELEASE, "--output", "yaml"];
        Ok(Self {
            values: helm(&arguments, "").await?,
        })
    }

    /// Replaces the installed release by the chart of an earlier one, with no operator pod, because the image of
    /// that release need not exist.
    ///
    /// # Errors
    /// Fails if helm refuses the chart, or the cluster one of its objects.
    pub async fn replace_by(&self, chart: &Path) -> Result<()> {
        upgrade(chart, &["--set", "replicaCount=0"], "").await
    }

    /// Upgrades to the chart of this checkout with the values of the first installation, and waits for the operator.
    ///
    /// # Errors
    /// Fails if helm refuses the chart or the operator does not become ready.
    pub async fn put_back(&self) -> Result<()> {
        self.install(&[]).await
    }

    /// Upgrades like [`Release::put_back`], with one value more.
    ///
    /// # Errors
    /// Fails if helm refuses the chart or the operator does not become ready.
    pub async fn change(&self, value: &str) -> Result<()> {
        self.install(&["--set", value]).await
    }

    async fn install(&self, more: &[&str]) -> Result<()> {
        let chart = checkout("../charts/shortener-operator");
        let options = ["--values", "-", "--wait", "--timeout", "3m"];
        upgrade(&chart, &[&options, more].concat(), &self.values).await
    }
}

/// Upgrades the release to a chart, without the values of the installed release.
async fn upgrade(chart: &Path, options: &[&str], input: &str) -> Result<()> {
    let path = chart
        .to_str()
        .with_context(|| format!("path {} is not valid UTF-8", chart.display()))?;
    let mut arguments = vec!["upgrade", RELEASE, path, FORCE, "--reset-values"];
    arguments.extend(options);
    helm(&arguments, input).await.map(|_| ())
}

async fn helm(arguments: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new("helm");
    command.args(["--namespace", OPERATOR_NAMESPACE]);
    run(command.args(arguments), input).await
}
