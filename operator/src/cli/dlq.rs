//! The command `dlq`: lists, shows, replays or deletes the dead letters of a stack.
//!
//! It runs on the user's machine with the user's permissions (or in the operator's pod), and needs no running
//! operator.

pub mod letters;
mod reach;
mod table;

use std::{collections::BTreeSet, io::Write};

use clap::{Args, Subcommand};

use super::cluster::Location;
use crate::rabbitmq::broker::{Broker, BrokerError};
use letters::{Choice, Operation, OperationResult};
use reach::ReachError;

/// Work with dead letters, the jobs that failed for good
#[derive(Debug, Args)]
pub struct Dlq {
    /// Action on the dead letters
    #[command(subcommand)]
    pub action: Action,
}

/// An action on dead letters.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the oldest dead letters
    Ls {
        /// Stack of the dead letters
        #[command(flatten)]
        stack: Stack,
        /// Maximum number of dead letters to list
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Print a dead letter with all its properties and its body as JSON
    Show {
        /// Stack of the dead letters
        #[command(flatten)]
        stack: Stack,
        /// Id of the job
        id: String,
    },
    /// Put dead letters back into the queue, with the same ids
    Replay {
        /// Stack of the dead letters
        #[command(flatten)]
        stack: Stack,
        /// Dead letters to replay
        #[command(flatten)]
        which: Which,
    },
    /// Delete dead letters for good
    Drop {
        /// Stack of the dead letters
        #[command(flatten)]
        stack: Stack,
        /// Dead letters to delete
        #[command(flatten)]
        which: Which,
    },
}

/// A stack and the connection to its broker.
#[derive(Debug, Args)]
pub struct Stack {
    /// Name of the stack
    #[arg(value_name = "STACK")]
    pub name: String,
    /// Place of the stack
    #[command(flatten)]
    pub location: Location,
    /// Address of the broker's management API, such as http://localhost:15672; a port-forward to the stack's managed
    /// broker if absent
    #[arg(long, value_name = "URL")]
    pub management_url: Option<http::Uri>,
}

/// A choice of dead letters: some, or all.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// Ids of the jobs
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Every dead letter
    #[arg(long)]
    pub all: bool,
}

impl From<Which> for Choice {
    fn from(which: Which) -> Self {
        if which.all {
            Self::All
        } else {
            Self::Ids(BTreeSet::from_iter(which.ids))
        }
    }
}

/// An error of `dlq`: nothing, or not everything, was done.
#[derive(Debug, thiserror::Error)]
pub enum DlqError {
    /// The broker cannot be reached.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// A request to the broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// No dead letter that was read has this id.
    #[error(
        "dead letter {0} not found (`show` searches only the first {limit}): list the ids with `dlq ls --limit {limit}`",
        limit = letters::SCAN
    )]
    Unknown(String),
    /// No dead letter has these ids.
    #[error(
        "no dead letter has the id {}: list the ids with `dlq ls --limit {limit}`",
        .0.join(", "),
        limit = letters::SCAN
    )]
    Missing(Vec<String>),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Print(#[from] std::io::Error),
    /// A message cannot be printed as JSON.
    #[error("cannot format the dead letter as JSON: {0}")]
    Render(#[from] serde_json::Error),
}

/// Runs a command and prints its result.
///
/// # Errors
/// [`DlqError`]
pub async fn run(command: Dlq, out: &mut impl Write) -> Result<(), DlqError> {
    match command.action {
        Action::Ls { stack, limit } => list(&reach::broker(&stack).await?, limit.into(), out).await,
        Action::Show { stack, id } => show(&reach::broker(&stack).await?, &id, out).await,
        Action::Replay { stack, which } => {
            let broker = reach::broker(&stack).await?;
            sweep(&broker, which.into(), Operation::Replay, out).await
        }
        Action::Drop { stack, which } => {
            let broker = reach::broker(&stack).await?;
            sweep(&broker, which.into(), Operation::Drop, out).await
        }
    }
}

async fn list(broker: &Broker, limit: usize, out: &mut impl Write) -> Result<(), DlqError> {
    let letters = letters::first(broker, limit).await?;
    let total = letters
        .last()
        .map_or(0, |last| letters.len() + last.message_count);
    if !letters.is_empty() {
        write!(out, "{}", table::of_letters(&letters))?;
    }
    match total - letters.len() {
        0 => writeln!(out, "{}", count(total))?,
        more => writeln!(out, "{}, {more} of them not listed", count(total))?,
    }
    Ok(())
}

async fn show(broker: &Broker, id: &str, out: &mut impl Write) -> Result<(), DlqError> {
    let letters = letters::first(broker, letters::SCAN).await?;
    let Some(letter) = letters.iter().find(|letter| letter.id() == Some(id)) else {
        return Err(DlqError::Unknown(id.to_owned()));
    };
    writeln!(out, "{}", serde_json::to_string_pretty(letter)?)?;
    Ok(())
}

async fn sweep(
    broker: &Broker,
    choice: Choice,
    operation: Operation,
    out: &mut impl Write,
) -> Result<(), DlqError> {
    let OperationResult { done, missing } = letters::sweep(broker, choice, operation).await?;
    let verb = match operation {
        Operation::Replay => "put back into the queue",
        Operation::Drop => "deleted",
    };
    writeln!(out, "{} {verb}", count(done))?;
    match missing.is_empty() {
        true => Ok(()),
        false => Err(DlqError::Missing(missing)),
    }
}

fn count(letters: usize) -> String {
    match letters {
        0 => "no dead letter".to_owned(),
        1 => "1 dead letter".to_owned(),
        many => format!("{many} dead letters"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;
    use shortener_operator_core::model::topology::{DEAD_LETTERS, JOBS};

    use super::*;
    use crate::{rabbitmq::broker::message::Message, testing::broker::FakeBroker};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        dlq: Dlq,
    }

    fn letter(id: &str) -> Message {
        serde_json::from_value(json!({
            "properties": {"message_id": id, "headers": {
                "x-death": [{"reason": "delivery_limit", "time": 1_795_254_292}],
            }},
            "payload": "{\"task\":\"resize\"}", "payload_encoding": "string", "payload_bytes": 17,
        }))
        .unwrap()
    }

    fn text(out: Vec<u8>) -> String {
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn the_list_tells_id_task_reason_time_and_size() {
        let fake = FakeBroker::default();
        fake.fill(DEAD_LETTERS, ["m1", "m2", "m3"].map(letter));
        let mut out = Vec::new();
        list(&fake.broker(), 2, &mut out).await.unwrap();
        assert_eq!(
            text(out),
            "ID  TASK    REASON          DIED                  BYTES\n\
             m1  resize  delivery_limit  2026-11-21T09:44:52Z  17\n\
             m2  resize  delivery_limit  2026-11-21T09:44:52Z  17\n\
             3 dead letters, 1 of them not listed\n"
        );
        assert_eq!(fake.changes(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn an_empty_list_says_so() {
        let mut out = Vec::new();
        list(&FakeBroker::default().broker(), 100, &mut out)
            .await
            .unwrap();
        assert_eq!(text(out), "no dead letter\n");
    }

    #[tokio::test]
    async fn one_dead_letter_is_shown_whole() {
        let fake = FakeBroker::default();
        fake.fill(DEAD_LETTERS, ["m1", "m2"].map(letter));
        let mut out = Vec::new();
        show(&fake.broker(), "m2", &mut out).await.unwrap();
        let shown: serde_json::Value = serde_json::from_str(&text(out)).unwrap();
        assert_eq!(shown["properties"]["message_id"], "m2");
        assert_eq!(shown["payload"], "{\"task\":\"resize\"}");
        let error = show(&fake.broker(), "m9", &mut Vec::new())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("m9"), "{error}");
    }

    #[tokio::test]
    async fn what_was_done_is_told_even_when_ids_are_unknown() {
        let fake = FakeBroker::default();
        fake.fill(DEAD_LETTERS, ["m1"].map(letter));
        let mut out = Vec::new();
        let choice = Choice::Ids(["m1", "m9", "m8"].map(str::to_owned).into());
        let error = sweep(&fake.broker(), choice, Operation::Replay, &mut out)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("id m8, m9: "), "{error}");
        assert_eq!(text(out), "1 dead letter put back into the queue\n");
        assert_eq!(fake.ids(JOBS), ["m1"]);
    }

    #[test]
    fn replaying_and_dropping_need_ids_or_all_and_never_both() {
        let line = |arguments: &[&str]| {
            let words = ["operator"].iter().chain(arguments);
            Line::try_parse_from(words).map(|line| line.dlq.action)
        };
        for verb in ["replay", "drop"] {
            assert!(line(&[verb, "demo"]).is_err());
            assert!(line(&[verb, "demo", "m1", "--all"]).is_err());
            assert!(line(&[verb, "demo", "m1", "m2"]).is_ok());
            assert!(line(&[verb, "demo", "--all", "-n", "links"]).is_ok());
        }
        let url = ["ls", "demo", "--management-url", "http://localhost:15672"];
        assert!(line(&url).is_ok());
    }
}
