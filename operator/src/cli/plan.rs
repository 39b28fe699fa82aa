//! The command `plan`: what a ShortenerStack in a file would change, against the cluster or against none.
//!
//! It runs on the user's machine with the user's permissions, needs no running operator, and only reads. The steps
//! before the first write are those of a reconcile.

mod compare;
mod document;
mod neighbours;
mod operator;
mod text;

use std::{
    error::Error,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use serde::Serialize;
use shortener_operator_core::{api::ShortenerStack, plan::diff::Changes};

use super::cluster::Location;

/// Explanation of the exit codes, below the help.
const EXIT_CODES: &str = "Exit codes: 0 nothing changes; 1 an error, a conflicting object, or a held component; 2 objects change; 3 objects change, and running pods restart or end, or data is at risk.";
/// Namespace of a stack without one, when there is no kubeconfig.
const DEFAULT_NAMESPACE: &str = "default";

/// Show what a ShortenerStack in a file would change, who restarts and what data is at risk; change nothing
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct PlanArguments {
    /// File with one ShortenerStack in YAML or JSON; `-` for the standard input
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    /// Place of the stack
    #[command(flatten)]
    pub location: Location,
    /// Compare with a cluster that has no such stack, without a connection
    #[arg(long, conflicts_with_all = ["context", "operator_namespace"])]
    pub offline: bool,
    /// Namespace of the operator, whose default images and settings count; every namespace is searched if absent
    #[arg(long, value_name = "NAMESPACE")]
    pub operator_namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: PlanFormat,
}

/// The output formats of `plan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// Groups of lines for people
    #[default]
    Text,
    /// A JSON object, as docs/plan.md describes it
    Json,
}

/// The result of a plan, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanOutcome {
    Unchanged,
    /// An object is in the way, or a component is held.
    Blocked,
    Changed,
    /// Objects change, and running pods restart or end, or data is at risk.
    Disturbed,
}

impl From<PlanOutcome> for ExitCode {
    fn from(outcome: PlanOutcome) -> Self {
        let code: u8 = match outcome {
            PlanOutcome::Unchanged => 0,
            PlanOutcome::Blocked => 1,
            PlanOutcome::Changed => 2,
            PlanOutcome::Disturbed => 3,
        };
        Self::from(code)
    }
}

/// The changes of a plan with what people should know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanReport {
    namespace: String,
    name: String,
    /// True when the cluster has the stack already.
    exists: bool,
    /// What an apply would do.
    #[serde(flatten)]
    changes: Changes,
    /// Components that stay as they are.
    held: Vec<HeldComponent>,
    /// Assumptions and other remarks, one sentence each.
    notes: Vec<String>,
}

/// A component that stays as it is, because what it needs is missing or invalid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldComponent {
    /// Name of the component, as in its label.
    component: &'static str,
    /// Reason in CamelCase, for machines.
    reason: &'static str,
    /// Sentence with the remedy, for people.
    message: String,
}

impl PlanReport {
    fn outcome(&self) -> PlanOutcome {
        match &self.changes {
            changes if !changes.blocked.is_empty() || !self.held.is_empty() => PlanOutcome::Blocked,
            changes if changes.disturbs() => PlanOutcome::Disturbed,
            changes if changes.is_empty() => PlanOutcome::Unchanged,
            _ => PlanOutcome::Changed,
        }
    }
}

/// An error that leaves no plan to show, in words for people.
pub type PlanError = Box<dyn Error>;

/// Makes the plan and prints it.
///
/// # Errors
/// The file, the cluster or the output cannot be used, or the operator would refuse the spec.
pub async fn run(arguments: PlanArguments, out: &mut impl Write) -> Result<PlanOutcome, PlanError> {
    // The parser does not see it if the context stands before the command.
    if arguments.offline && arguments.location.context.is_some() {
        return Err("--offline needs no --context: leave one of them out".into());
    }
    let stack = document::parse(&read(&arguments.file)?)?;
    let flag = arguments.location.namespace.as_deref();
    let report = if arguments.offline {
        let stack = placed(stack, flag, DEFAULT_NAMESPACE)?;
        let (settings, _) = operator::assumed()?;
        compare::with_nothing(stack, &settings.defaults())?
    } else {
        let connected = arguments.location.connect().await;
        let (client, namespace) =
            connected.map_err(|error| format!("{error}; without a cluster, use --offline"))?;
        let stack = placed(stack, flag, &namespace)?;
        let searched = arguments.operator_namespace.as_deref();
        let (settings, notes) = operator::settings(&client, searched, &stack).await?;
        let mut report = compare::with_cluster(client, stack, settings.defaults()).await?;
        report.notes.extend(notes);
        report
    };
    let printed = match arguments.output {
        PlanFormat::Text => text::print(&report, out),
        PlanFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?),
    };
    printed.map_err(|error| format!("cannot write the output: {error}"))?;
    Ok(report.outcome())
}

fn read(path: &Path) -> Result<String, PlanError> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .read_to_string(&mut text)
            .map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| format!("cannot read {}: {error}", path.display()).into())
}

/// Sets the namespace of a stack whose file names none.
fn placed(
    mut stack: ShortenerStack,
    flag: Option<&str>,
    fallback: &str,
) -> Result<ShortenerStack, PlanError> {
    match (stack.metadata.namespace.clone(), flag) {
        (Some(file), Some(flag)) if file != flag => {
            return Err(format!(
                "the file has namespace {file}, and --namespace is {flag}: leave one of them out"
            )
            .into());
        }
        (Some(_), _) => {}
        (None, flag) => stack.metadata.namespace = Some(flag.unwrap_or(fallback).to_owned()),
    }
    Ok(stack)
}

#[cfg(test)]
mod tests;
