//! The commands `export` and `import`: all links of a stack as lines of JSON, and links of this and of other shorteners into
//! a stack.
//!
//! The app does the work: requests go through a forwarded port of one of its pods, with a key of the user.

mod api;
mod export;
mod import;
mod progress;
mod source;

use std::{env, fs, io, path::PathBuf};

use clap::{Args, ValueEnum};
use http::HeaderValue;

use self::{api::Api, source::SourceError};
pub use self::{export::export, import::import};
use super::{
    app_pod::AppPodError,
    cluster::{ConnectError, Stack},
};
use crate::kubernetes::refusal::sentence;

/// The variable of the environment with the key.
const KEY: &str = "SHORTENER_KEY";

/// Write all links of a stack to a file, one JSON object on each line
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// Stack of the links
    #[command(flatten)]
    pub access: Access,
    /// New file for the links, or with --after the file to continue; standard output if absent
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Code behind which the export begins: the last one of an export that was interrupted
    #[arg(long, value_name = "CODE")]
    pub after: Option<String>,
}

/// Create links of an export in a stack, with their codes and creation times
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Stack of the links
    #[command(flatten)]
    pub access: Access,
    /// File with the links; `-` for standard input
    pub file: PathBuf,
    /// Program or service that wrote the file
    #[arg(long, value_enum)]
    pub format: Format,
    /// Say what would become of each link, and store nothing
    #[arg(long)]
    pub dry_run: bool,
    /// New file for the lines that were refused, as CSV; standard output if absent
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// A stack, and a key for its management.
#[derive(Debug, Args)]
pub struct Access {
    /// Stack
    #[command(flatten)]
    pub stack: Stack,
    /// File with a key of the scope `links:all`; the variable SHORTENER_KEY if absent
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

/// The formats of files with links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The output of `export`
    Ndjson,
    /// CSV of its web pages, or JSON of its API
    Bitly,
    /// CSV of the table of URLs or of a plugin, or JSON of its API
    Yourls,
    /// CSV of its web client, or JSON of its API
    Shlink,
    /// JSON of its API, or CSV of the table of links
    Kutt,
}

/// An error of `export` or `import`.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// There is no connection to the cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no pod to talk to.
    #[error(transparent)]
    Pod(#[from] AppPodError),
    /// The API server refused to forward the port, or did not answer.
    #[error(
        "cannot reach pod {pod}: {}; check that you may get and create pods/portforward",
        sentence(.source)
    )]
    Forward {
        /// Name of the pod.
        pod: String,
        source: kube::Error,
    },
    /// There is no key.
    #[error(
        "a key with the scope `links:all` is needed: set {KEY} or --key-file (see https://github.com/shortenerstack/shortener-stack/blob/main/docs/keys.md)"
    )]
    NoKey,
    /// The key cannot be sent.
    #[error("the key has characters that no key has")]
    MalformedKey,
    /// A file cannot be used.
    #[error("cannot use {path}: {source}")]
    File {
        /// The file.
        path: String,
        source: io::Error,
    },
    /// The app refused the request.
    #[error("the app refused the request: {0}")]
    Refused(String),
    /// The app did not answer, also when asked again.
    #[error("the app did not answer: {0}")]
    Unavailable(String),
    /// The answer of the app is not understood.
    #[error("the app's answer is not understood, as if it were of another release: {0}")]
    Answer(String),
    /// The file is not understood.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Print(#[from] io::Error),
    /// The report cannot be written.
    #[error("cannot write the report: {0}")]
    Report(#[from] csv::Error),
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
    /// The export ended early.
    #[error("{reason}; continue with --after {after}")]
    Partial {
        reason: Box<TransferError>,
        /// The last code that was written.
        after: String,
    },
    /// The import ended early.
    #[error(
        "{reason}; run the command again, with another file for --report: links that exist stay as they are"
    )]
    Unfinished { reason: Box<TransferError> },
}

impl Access {
    /// Returns the API of the stack, without a request.
    async fn api(&self) -> Result<Api, TransferError> {
        let key = match &self.key_file {
            Some(path) => fs::read_to_string(path).map_err(|error| file(path, error))?,
            None => env::var(KEY).map_err(|_| TransferError::NoKey)?,
        };
        let key = HeaderValue::try_from(format!("Bearer {}", key.trim()));
        let mut key = key.map_err(|_| TransferError::MalformedKey)?;
        key.set_sensitive(true);
        let (client, namespace) = self.stack.location.connect_for_streams().await?;
        let connect = api::forwarded(client, namespace, self.stack.name.clone());
        Ok(Api::new(connect, key))
    }
}

fn file(path: &std::path::Path, source: io::Error) -> TransferError {
    TransferError::File {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests;
