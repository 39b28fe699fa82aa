//! The command `dlq`: lists, shows, replays or deletes the dead letters of a stack.
//!
//! The app does the work: its program runs in one of its pods, where the address and the credentials of the broker are.
//! This command finds the pod and shows the answer. It runs with the user's permissions and needs no running operator.

mod pod;
mod table;

use std::{io::Write, iter, slice};

use clap::{Args, Subcommand};
use serde::Deserialize;

use super::{
    app_pod::AppPodError,
    cluster::{ConnectError, Stack},
};
use crate::kubernetes::refusal::sentence;

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
    /// List dead letters, the oldest first
    Ls {
        /// Stack of the dead letters
        #[command(flatten)]
        stack: Stack,
        /// Number of dead letters to skip
        #[arg(long, default_value_t = 0)]
        skip: u32,
        /// Maximum number of dead letters to list
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Print a dead letter with all that is known of it and its body as JSON
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
        /// Reason for the audit log
        #[arg(long)]
        reason: Option<String>,
    },
    /// Delete dead letters for good
    Drop {
        /// Stack of the dead letters
        #[command(flatten)]
        stack: Stack,
        /// Dead letters to delete
        #[command(flatten)]
        which: Which,
        /// Reason for the audit log
        #[arg(long)]
        reason: Option<String>,
    },
}

/// A choice of dead letters: some, or all.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// Ids of the jobs, at most 1000
    // They are a part of the path of a request.
    #[arg(value_name = "ID", num_args = 1..=1000)]
    pub ids: Vec<String>,
    /// Every dead letter
    #[arg(long)]
    pub all: bool,
}

/// An error of `dlq`: nothing, or not everything, was done.
#[derive(Debug, thiserror::Error)]
pub enum DlqError {
    /// There is no connection to the cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no pod to run it in.
    #[error(transparent)]
    Pod(#[from] AppPodError),
    /// The API server refused to run the program, or did not answer.
    #[error(
        "cannot run the app's program in pod {pod}: {}; check that you may get and create pods/exec",
        sentence(.source)
    )]
    Exec {
        /// Name of the pod.
        pod: String,
        source: kube::Error,
    },
    /// The connection to the pod broke before the program's end.
    #[error(
        "the connection to pod {0} broke before the end: list the dead letters to see what was done"
    )]
    Interrupted(String),
    /// The program failed, with this message.
    #[error("{0}")]
    Failed(String),
    /// The program's answer is not understood.
    #[error("the app's answer is not understood, as if it were of another release: {0}")]
    Answer(#[from] serde_json::Error),
    /// No dead letter has these ids.
    #[error("no dead letter has the id {}: list the ids with `dlq ls`", .0.join(", "))]
    Missing(Vec<String>),
    /// A chosen dead letter is no job.
    #[error("what never was a job cannot be put back into the queue: delete it with `dlq drop`")]
    NoJob,
    /// The time of the program was not enough.
    #[error("there are more dead letters than could be looked at in time: run the command again")]
    Incomplete,
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Print(#[from] std::io::Error),
}

/// The app's list of dead letters.
#[derive(Deserialize)]
struct Page {
    dead_letters: Vec<Letter>,
    /// Number of all dead letters.
    total: usize,
    /// Number of dead letters to skip for the next page.
    next_skip: Option<usize>,
}

/// One dead letter in the app's list.
#[derive(Deserialize)]
struct Letter {
    id: Option<String>,
    task: String,
    reason: Option<String>,
    died_at: Option<String>,
    bytes: usize,
}

/// The app's answer to a replay or a deletion.
#[derive(Deserialize)]
struct Swept {
    done: usize,
    /// Number of chosen dead letters that stay because they never were jobs. An app of an earlier release does not tell it.
    #[serde(default)]
    kept: usize,
    /// Chosen ids of which no dead letter was found.
    missing: Vec<String>,
    /// False if the time ended first.
    complete: bool,
}

impl Action {
    /// Returns the stack, and the arguments of `app dead-letters`.
    fn request(&self) -> (&Stack, Vec<String>) {
        match self {
            Self::Ls { stack, skip, limit } => {
                let words = ["ls".to_owned(), format!("--limit={limit}")];
                // An app of an earlier release has no pages.
                let skip = (*skip > 0).then(|| format!("--skip={skip}"));
                (stack, words.into_iter().chain(skip).collect())
            }
            Self::Show { stack, id } => {
                let words = iter::once("show".to_owned());
                (stack, words.chain(of_ids(slice::from_ref(id))).collect())
            }
            Self::Replay {
                stack,
                which,
                reason,
            } => (stack, which.request("replay", reason.as_deref())),
            Self::Drop {
                stack,
                which,
                reason,
            } => (stack, which.request("drop", reason.as_deref())),
        }
    }
}

impl Which {
    fn request(&self, verb: &str, reason: Option<&str>) -> Vec<String> {
        let mut words = vec![verb.to_owned()];
        words.extend(reason.map(|reason| format!("--reason={reason}")));
        match self.all {
            true => words.push("--all".to_owned()),
            false => words.extend(of_ids(&self.ids)),
        }
        words
    }
}

fn of_ids(ids: &[String]) -> impl Iterator<Item = String> {
    iter::once("--".to_owned()).chain(ids.iter().cloned())
}

/// Runs a command and prints its result.
///
/// # Errors
/// [`DlqError`]
pub async fn run(command: Dlq, out: &mut impl Write) -> Result<(), DlqError> {
    let (stack, request) = command.action.request();
    let answer = pod::ask(stack, request).await?;
    show(&command.action, &answer, out)
}

fn show(action: &Action, answer: &str, out: &mut impl Write) -> Result<(), DlqError> {
    let (verb, all) = match action {
        Action::Ls { .. } => return list(&serde_json::from_str(answer)?, out),
        Action::Show { .. } => return Ok(out.write_all(answer.as_bytes())?),
        Action::Replay { which, .. } => ("put back into the queue", which.all),
        Action::Drop { which, .. } => ("deleted", which.all),
    };
    let Swept {
        done,
        kept,
        missing,
        complete,
    } = serde_json::from_str(answer)?;
    writeln!(out, "{} {verb}", count(done))?;
    if kept > 0 {
        writeln!(out, "{} left in place: not a job", count(kept))?;
    }
    match (complete, missing.is_empty()) {
        (false, _) => Err(DlqError::Incomplete),
        (true, false) => Err(DlqError::Missing(missing)),
        (true, true) if kept > 0 && !all => Err(DlqError::NoJob),
        (true, true) => Ok(()),
    }
}

fn list(page: &Page, out: &mut impl Write) -> Result<(), DlqError> {
    let Page {
        dead_letters,
        total,
        next_skip,
    } = page;
    if !dead_letters.is_empty() {
        write!(out, "{}", table::of_letters(dead_letters))?;
    }
    let mut summary = count(*total);
    match total - dead_letters.len() {
        0 => {}
        more => summary.push_str(&format!(", {more} of them not listed")),
    }
    if let Some(skip) = next_skip {
        summary.push_str(&format!("; the next page has --skip {skip}"));
    }
    writeln!(out, "{summary}").map_err(Into::into)
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
    use shortener_app::{
        config::{Cli, Command},
        publisher::letters,
        routes::admin::dead_letters::bodies::DeadLetterPage,
    };
    use shortener_common::queue::{dead_letter::DeadLetter, origin::Origin};

    use super::*;

    const ID: &str = "0197f2a4-8c1e-7b54-9d7b-2f6f0a7f3c11";

    #[derive(Debug, Parser)]
    struct OutcomeLine {
        #[command(flatten)]
        dlq: Dlq,
    }

    fn action(words: &[&str]) -> Result<Action, clap::Error> {
        let words = ["operator"].iter().chain(words);
        OutcomeLine::try_parse_from(words).map(|line| line.dlq.action)
    }

    /// Shows an answer of the app, and returns what is printed and the error.
    fn shown(words: &[&str], answer: &impl serde::Serialize) -> (String, String) {
        let mut out = Vec::new();
        let answer = serde_json::to_string(answer).unwrap();
        let error = show(&action(words).unwrap(), &answer, &mut out).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        (String::from_utf8(out).unwrap(), error)
    }

    fn letter(task: &str) -> DeadLetter {
        DeadLetter {
            id: ID.parse().ok(),
            task: task.to_owned(),
            client_id: None,
            origin: Origin::Anonymous,
            reason: Some("delivery_limit".to_owned()),
            died_at: "2026-11-21T09:44:52Z".parse().ok(),
            bytes: 17,
        }
    }

    #[test]
    fn the_app_understands_every_request() {
        for words in [
            &["ls", "demo", "--limit", "1000", "--skip", "9000"][..],
            &["show", "demo", ID],
            &["replay", "demo", ID, ID],
            &["drop", "demo", "--all", "-n", "links"],
            &["drop", "demo", "--reason", "ticket 7", ID],
        ] {
            let action = action(words).unwrap();
            let (stack, request) = action.request();
            assert_eq!(stack.name, "demo");
            // The pod's environment has the database.
            let line = pod::COMMAND
                .into_iter()
                .chain(["--database-url=postgres://db/x"]);
            let line = line.map(str::to_owned).chain(request);
            let parsed = Cli::try_parse_from(line).unwrap().command;
            assert!(matches!(parsed, Command::DeadLetters(_)), "{words:?}");
        }
    }

    #[test]
    fn the_first_page_asks_for_nothing_to_skip() {
        let request = |words: &[&str]| action(words).unwrap().request().1;
        assert_eq!(request(&["ls", "demo"]), ["ls", "--limit=100"]);
        let second = request(&["ls", "demo", "--skip", "100"]);
        assert_eq!(second, ["ls", "--limit=100", "--skip=100"]);
    }

    #[test]
    fn the_list_tells_id_task_reason_time_and_size() {
        let bare = DeadLetter {
            id: None,
            reason: None,
            died_at: None,
            ..letter("")
        };
        let page = |letters, total, next_skip| {
            DeadLetterPage::from(letters::Page {
                letters,
                total,
                next_skip,
            })
        };
        let letters = vec![letter("resize"), letter("\u{1b}[2J"), bare];
        let (printed, error) = shown(&["ls", "demo"], &page(letters, 4, Some(3)));
        assert_eq!(
            printed,
            "ID                                    TASK    REASON          DIED                  BYTES\n\
             0197f2a4-8c1e-7b54-9d7b-2f6f0a7f3c11  resize  delivery_limit  2026-11-21T09:44:52Z  17\n\
             0197f2a4-8c1e-7b54-9d7b-2f6f0a7f3c11  ?[2J    delivery_limit  2026-11-21T09:44:52Z  17\n\
             -                                     -       -               -                     17\n\
             4 dead letters, 1 of them not listed; the next page has --skip 3\n"
        );
        assert_eq!(error, "");
        let (printed, _) = shown(&["ls", "demo"], &page(Vec::new(), 0, None));
        assert_eq!(printed, "no dead letter\n");
        let (printed, _) = shown(&["ls", "demo"], &page(vec![letter("")], 4, None));
        assert!(printed.ends_with("\n4 dead letters, 3 of them not listed\n"));
    }

    #[test]
    fn what_was_done_is_told_even_when_ids_are_unknown_or_the_time_is_over() {
        let swept = |done, missing: &[&str], complete| {
            let missing = missing.iter().map(|id| id.parse().unwrap()).collect();
            letters::Swept {
                done,
                kept: 0,
                missing,
                complete,
            }
        };
        let all = ["drop", "demo", "--all"];
        let (printed, error) = shown(&all, &swept(2, &[], true));
        assert_eq!(
            (printed.as_str(), error.as_str()),
            ("2 dead letters deleted\n", "")
        );
        let (printed, error) = shown(&["replay", "demo", ID], &swept(1, &[ID], true));
        assert_eq!(printed, "1 dead letter put back into the queue\n");
        assert!(error.contains(&format!("id {ID}: ")), "{error}");
        let (printed, error) = shown(&all, &swept(0, &[], false));
        assert_eq!(printed, "no dead letter deleted\n");
        assert!(error.contains("run the command again"), "{error}");
    }

    #[test]
    fn what_is_no_job_is_told_and_fails_a_replay_by_id() {
        let swept = |done| letters::Swept {
            done,
            kept: 1,
            missing: Default::default(),
            complete: true,
        };
        let (printed, error) = shown(&["replay", "demo", ID], &swept(0));
        let expected =
            "no dead letter put back into the queue\n1 dead letter left in place: not a job\n";
        assert_eq!(printed, expected);
        assert!(error.contains("`dlq drop`"), "{error}");
        let (printed, error) = shown(&["replay", "demo", "--all"], &swept(2));
        assert!(printed.ends_with("\n1 dead letter left in place: not a job\n"));
        assert_eq!(error, "");
        let earlier = serde_json::json!({"done": 1, "missing": [], "complete": true});
        let (_, error) = shown(&["replay", "demo", ID], &earlier);
        assert_eq!(error, "");
    }

    #[test]
    fn replaying_and_dropping_need_ids_or_all_and_never_both() {
        for verb in ["replay", "drop"] {
            assert!(action(&[verb, "demo"]).is_err());
            assert!(action(&[verb, "demo", "m1", "--all"]).is_err());
            assert!(action(&[verb, "demo", "m1", "m2"]).is_ok());
            let many = vec!["m1"; 1001];
            assert!(action(&[&[verb, "demo"][..], &many].concat()).is_err());
        }
    }
}
