//! Dead letters: jobs that were given up. They are listed, put back into the queue of jobs, or dropped.
//!
//! Each message is received without an acknowledgement, so that the next one can be received while it is kept from other
//! clients. Those that stay return to their queue at the end, or by themselves if the connection is lost. A job is
//! published, and the audit log has its entry, before its dead letter is acknowledged. An interruption therefore leaves it
//! twice at worst, which the workers' ledger detects, and never loses one.

mod session;

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use lapin::message::Delivery;
use serde::Serialize;
use shortener_common::{
    budget::Share,
    database::{Database, StoreError},
    queue::{
        Broker,
        dead_letter::DeadLetter,
        decision::Decision,
        job::{self, Fields},
        origin::Origin,
    },
};
use tokio::sync::{Mutex, MutexGuard};
use tracing::field::display;
use uuid::Uuid;

use self::session::{AHEAD, Session};
use super::{NewJob, Publisher, Refusal};
use crate::store::{
    audit::{Action, Audit, Cause, NewEntry},
    jobs::Jobs,
};

/// The default time limit of one request. It leaves time for the response within that of every request.
const LIMIT: Duration = Duration::from_secs(5);
/// The memory for the dead letters that a session has at once, in bytes: the largest jobs, and the frames in which they arrive.
const LETTERS: usize = AHEAD * 2 * 64 * 1024;

/// A choice of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Every dead letter that is in the queue now.
    All,
    /// The dead letters of these jobs.
    Ids(BTreeSet<Uuid>),
}

/// An operation on the chosen dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Put them back into the queue of jobs.
    Replay,
    /// Delete them.
    Drop,
}

impl Operation {
    fn action(self) -> Action {
        match self {
            Self::Replay => Action::DeadLetterReplayed,
            Self::Drop => Action::DeadLetterDropped,
        }
    }
}

/// A part of the dead letters in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub letters: Vec<DeadLetter>,
    /// Number of all dead letters.
    pub total: usize,
    /// Number of dead letters to skip for the next page; `None` on the last one.
    pub next_skip: Option<usize>,
}

/// The result of working on dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Number of dead letters that were replayed or deleted.
    pub done: usize,
    /// Number of chosen dead letters that were not replayed because they never were jobs. Only a deletion removes them.
    pub kept: usize,
    /// Chosen identifiers of which no dead letter was found; if `complete` is false, there may be one.
    pub missing: BTreeSet<Uuid>,
    /// False if the time limit ended before every chosen dead letter was found. If all are chosen, send the request
    /// again.
    pub complete: bool,
}

/// The reason why dead letters could not be worked on.
#[derive(Debug, thiserror::Error)]
pub enum LettersError {
    /// Another request works on them.
    #[error("another request works on the dead letters")]
    Busy,
    /// There are too many dead letters before the wanted one.
    #[error("the dead letter was not reached within the time limit")]
    OutOfTime,
    /// The broker refused something or was lost.
    #[error("the broker failed: {0}")]
    Broker(#[from] lapin::Error),
    /// A job could not be published.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database cannot be written.
    #[error("cannot write to the database: {0}")]
    Unrecorded(#[from] StoreError),
}

/// A handle to the dead letters; cheap to clone.
#[derive(Clone)]
pub struct DeadLetters {
    /// The time limit for receiving dead letters. One is always received.
    pub limit: Duration,
    broker: Arc<Broker>,
    publisher: Publisher,
    audit: Audit,
    jobs: Jobs,
    /// Locked while a request works on the dead letters, so that this replica connects once. Among all programs the session
    /// has the turn.
    turn: Arc<Mutex<()>>,
}

impl DeadLetters {
    /// Returns the dead letters at this broker, with the publisher for jobs that are replayed, and the database of the log of
    /// changes. Connects only when asked.
    pub fn new(broker: Broker, publisher: Publisher, database: &Database) -> Self {
        Self {
            limit: LIMIT,
            broker: Arc::new(broker),
            publisher,
            audit: Audit::new(database.clone()),
            jobs: Jobs::new(database.clone()),
            turn: Arc::default(),
        }
    }

    /// Returns up to `limit` dead letters behind the first `skip` of the queue, the oldest first. There are fewer if the time
    /// limit ends.
    ///
    /// # Errors
    /// Fails if another request works on them, if the broker fails, or if there are too many to skip.
    pub async fn list(&self, skip: usize, limit: usize) -> Result<Page, LettersError> {
        let _turn = self.turn()?;
        let mut session = Session::open(&self.broker, self.limit).await?;
        let (mut letters, mut received) = (Vec::new(), 0);
        let end = skip.saturating_add(limit);
        while received < end
            && let Some(letter) = session.receive(end - received).await?
        {
            if received >= skip {
                letters.push(DeadLetter::read(&letter.properties, &letter.data));
            }
            received += 1;
        }
        let (left, is_at_the_end) = (session.left(), session.is_at_the_end());
        session.close().await?;
        if letters.is_empty() && !is_at_the_end {
            return Err(LettersError::OutOfTime);
        }
        // Those that returned to the queue may have changed places.
        letters.sort_by_key(|letter| letter.died_at);
        Ok(Page {
            letters,
            total: received + left,
            next_skip: (!is_at_the_end).then_some(received),
        })
    }

    /// Returns the dead letter of a job with its body; `None` if there is none.
    ///
    /// # Errors
    /// Fails if another request works on the dead letters, if the broker fails, or if there are too many before it.
    pub async fn find(&self, id: Uuid) -> Result<Option<(DeadLetter, Vec<u8>)>, LettersError> {
        let _turn = self.turn()?;
        let mut session = Session::open(&self.broker, self.limit).await?;
        let mut found = None;
        while found.is_none()
            && let Some(mut letter) = session.receive(AHEAD).await?
        {
            if job::id_of(&letter.properties) == Some(id) {
                let body = mem::take(&mut letter.data);
                found = Some((DeadLetter::read(&letter.properties, &body), body));
            }
        }
        let complete = found.is_some() || session.is_at_the_end();
        session.close().await?;
        complete.then_some(found).ok_or(LettersError::OutOfTime)
    }

    /// Replays or deletes the chosen dead letters. It should run to its end: an interruption may leave a job twice.
    ///
    /// # Errors
    /// Fails if another request works on them, or if the broker or the database fails. Some may be done then; the audit log
    /// has them.
    pub async fn sweep(
        &self,
        choice: Choice,
        operation: Operation,
        cause: &Cause,
    ) -> Result<Swept, LettersError> {
        let _turn = self.turn()?;
        let mut session = Session::open(&self.broker, self.limit).await?;
        match self.work(&mut session, choice, operation, cause).await {
            Err(lost @ LettersError::Broker(_)) => Err(lost),
            // After a failure of the database too, so that the next request gets the turn.
            swept => {
                session.close().await?;
                swept
            }
        }
    }

    async fn work(
        &self,
        session: &mut Session,
        choice: Choice,
        operation: Operation,
        cause: &Cause,
    ) -> Result<Swept, LettersError> {
        let mut wanted = match choice {
            Choice::All => None,
            Choice::Ids(ids) => Some(ids),
        };
        let (mut done, mut kept) = (0, 0);
        while wanted.as_ref().is_none_or(|ids| !ids.is_empty())
            && let Some(letter) = session.receive(1).await?
        {
            let chosen = match (&mut wanted, job::id_of(&letter.properties)) {
                (None, _) => true,
                (Some(ids), Some(id)) => ids.remove(&id),
                (Some(_), None) => false,
            };
            if !chosen {
                continue;
            }
            match self.remove(session, letter, operation, cause).await? {
                true => done += 1,
                false => kept += 1,
            }
        }
        let found_all = wanted.as_ref().is_some_and(BTreeSet::is_empty);
        let complete = found_all || session.is_at_the_end();
        Ok(Swept {
            done,
            kept,
            missing: wanted.unwrap_or_default(),
            complete,
        })
    }

    /// Takes the turn in this replica, and memory for a session.
    fn turn(&self) -> Result<(MutexGuard<'_, ()>, Share), LettersError> {
        let turn = self.turn.try_lock().map_err(|_| LettersError::Busy)?;
        let share = self.publisher.budget.take(LETTERS).ok_or(Refusal::Busy)?;
        Ok((turn, share))
    }

    /// Removes a dead letter from its queue, after its job is published if it is replayed. Returns false if it stays,
    /// because it never was a job.
    async fn remove(
        &self,
        session: &Session,
        letter: Delivery,
        operation: Operation,
        cause: &Cause,
    ) -> Result<bool, LettersError> {
        let (mut id, tag) = (job::id_of(&letter.properties), letter.delivery_tag);
        if operation == Operation::Replay {
            if Fields::read(&letter.data).is_err() {
                return Ok(false);
            }
            let id = *id.get_or_insert_with(|| self.publisher.ids.mint(&Origin::Internal));
            self.jobs.begin_anew(id).await?;
            self.publisher.publish(replayed(id, letter)).await?;
        }
        let entry = NewEntry {
            action: operation.action(),
            subject: id.map(|id| id.to_string()),
            detail: None,
        };
        self.audit.write(cause, &entry).await?;
        session.acknowledge(tag).await?;
        record(operation, id, cause);
        Ok(true)
    }
}

/// Returns the job of a dead letter as if it had never failed: same identifier, same body, same sender, same trace.
fn replayed(id: Uuid, letter: Delivery) -> NewJob {
    let DeadLetter { origin, .. } = DeadLetter::read(&letter.properties, &letter.data);
    NewJob {
        id,
        origin,
        decision: Decision::of_replay(&letter.properties),
        request: job::publication_of(&letter.properties),
        tracestate: job::tracestate_of(&letter.properties),
        body: letter.data.into(),
    }
}

/// Writes the line about a dead letter.
fn record(operation: Operation, id: Option<Uuid>, cause: &Cause) {
    let id = id.map(display);
    macro_rules! line {
        ($event:literal) => {
            tracing::info!(
                event = $event,
                job.id = id,
                auth.client = cause.by,
                reason = cause.reason,
                $event
            )
        };
    }
    match operation {
        Operation::Replay => line!("dead_letter_replayed"),
        Operation::Drop => line!("dead_letter_dropped"),
    }
}
