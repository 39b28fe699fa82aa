//! The command `status`: a stack as a tree, from its conditions down to the containers that were restarted.

mod servers;
mod summary;
mod tree;

use std::io::Write;

use clap::{Args, ValueEnum};
use futures::{StreamExt, stream};

use super::{
    cluster::{ConnectError, Location},
    observed::{self, FindError},
};

/// Number of stacks that are read at the same time.
const AT_ONCE: usize = 4;

/// Show stacks: conditions, components, restarts, queue and last changes
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Name of the stack; all stacks of the namespace if absent
    #[arg(value_name = "STACK")]
    pub name: Option<String>,
    /// Place of the stacks
    #[command(flatten)]
    pub location: Location,
    /// Show the stacks of every namespace
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    pub all_namespaces: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: StatusFormat,
}

/// The output formats of `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    /// A tree for people
    #[default]
    Tree,
    /// A JSON list with one object for each stack
    Json,
}

/// An error of `status`: nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// There is no connection to the cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no stack to show.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Print(#[from] std::io::Error),
    /// The output cannot be formatted.
    #[error("cannot format the stacks as JSON: {0}")]
    Render(#[from] serde_json::Error),
}

/// Reads the stacks and prints them.
///
/// # Errors
/// [`StatusError`]
pub async fn run(arguments: StatusArguments, out: &mut impl Write) -> Result<(), StatusError> {
    let (client, namespace) = arguments.location.connect().await?;
    let namespace = (!arguments.all_namespaces).then_some(namespace);
    let stacks = observed::find(&client, namespace.as_deref(), arguments.name.as_deref()).await?;
    let observed = stream::iter(stacks).map(|stack| observed::observe(&client, stack));
    let summaries = observed
        .buffered(AT_ONCE)
        .map(|observed| summary::of(&observed));
    let summaries: Vec<_> = summaries.collect().await;
    match arguments.output {
        StatusFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&summaries)?)?,
        StatusFormat::Tree => {
            for summary in &summaries {
                write!(out, "{}", tree::of(summary))?;
            }
        }
    }
    Ok(())
}
