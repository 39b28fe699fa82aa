//! The Helm release of the operator, for tests that upgrade it.

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

    /// Upgrades to the chart of this checkout with the values of the first installation, and waits for the operator.
    ///
    /// # Errors
    /// Fails if helm refuses the chart or the operator does not become ready.
    pub async fn put_back(&self) -> Result<()> {
        self.upgrade(&[]).await
    }

    /// Does the same with one value (`name=value`) set to another.
    ///
    /// # Errors
    /// Fails if helm refuses the chart or the value, or the operator does not become ready.
    pub async fn upgrade_with(&self, setting: &str) -> Result<()> {
        self.upgrade(&["--set", setting]).await
    }

    async fn upgrade(&self, settings: &[&str]) -> Result<()> {
        let chart = checkout("../charts/shortener-operator");
        let path = chart
            .to_str()
            .with_context(|| format!("path {} is not valid UTF-8", chart.display()))?;
        let mut arguments = vec!["upgrade", RELEASE, path, FORCE, "--reset-values"];
        arguments.extend(["--values", "-", "--wait", "--timeout", "3m"]);
        arguments.extend(settings);
        helm(&arguments, &self.values).await.map(|_| ())
    }
}

async fn helm(arguments: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new("helm");
    command.args(["--namespace", OPERATOR_NAMESPACE]);
    run(command.args(arguments), input).await
}
