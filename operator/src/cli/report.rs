//! The command `report`: everything for a bug report in one YAML file, without credentials.

mod collect;
mod document;
mod mask;

use std::{io::Write, path::PathBuf};

use clap::Args;
use k8s_openapi::jiff::Timestamp;

use super::{
    cluster::{ConnectError, Location},
    observed::{self, FindError},
};

/// Write a bug report: the stack, its objects, events, logs and versions, without credentials
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Name of the stack
    #[arg(value_name = "STACK")]
    pub name: String,
    /// Place of the stack
    #[command(flatten)]
    pub location: Location,
    /// File for the report; standard output if absent
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Number of last lines of each log
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(i64).range(0..=100_000))]
    pub lines: i64,
    /// Namespace of the operator; without it, all namespaces are searched
    #[arg(long, value_name = "NAMESPACE")]
    pub operator_namespace: Option<String>,
}

/// An error of `report`: there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no connection to the cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no stack to report.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The report cannot be written to the file.
    #[error("cannot write {}: {source}", .path.display())]
    Save {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The report cannot be printed.
    #[error("cannot write the output: {0}")]
    Print(#[from] std::io::Error),
    /// The report cannot be formatted.
    #[error("cannot format the report as YAML: {0}")]
    Render(#[from] serde_yaml::Error),
}

/// Collects the report and writes it.
///
/// # Errors
/// [`ReportError`]
pub async fn run(arguments: ReportArguments, out: &mut impl Write) -> Result<(), ReportError> {
    let (client, namespace) = arguments.location.connect().await?;
    let stacks = observed::find(&client, Some(&namespace), Some(&arguments.name)).await?;
    let mut report = String::new();
    for stack in stacks {
        let material = collect::collect(&client, stack, &arguments).await;
        let made = Timestamp::now().to_string();
        report.push_str(&document::render(&material, &made)?);
    }
    match arguments.output {
        Some(path) => {
            std::fs::write(&path, report).map_err(|source| ReportError::Save { path, source })
        }
        None => Ok(out.write_all(report.as_bytes())?),
    }
}
