//! Dead letters: jobs that were given up. They are listed, put back into the queue of jobs, or dropped.
//!
//! Each message is received without an acknowledgement, so that the next one can be received while it is kept from other
//! clients. Those that stay return to their queue at the end, or by themselves if the connection is lost. A job is
//! published before its dead letter is acknowledged. An interruption therefore leaves it twice at worst, which the
//! workers' ledger detects, and never loses one.

mod session;

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use lapin::message::Delivery;
use serde::Serialize;
use shortener_common::{
    budget::Share,
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

use self::session::Session;
use super::{NewJob, Publisher, Refusal};

/// The default time limit of one request. It leaves time for the response within that of every request.
const LIMIT: Duration = Duration::from_secs(5);
/// The memory for one dead letter, in bytes: the largest job, and the frames in which it arrives.
const LETTER: usize = 2 * 64 * 1024;

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

/// The result of working on dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Number of dead letters that were replayed or deleted.
    pub done: usize,
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
}

/// A handle to the dead letters; cheap to clone.
#[derive(Clone)]
pub struct DeadLetters {
    /// The time limit for receiving dead letters. One is always received.
    pub limit: Duration,
    broker: Arc<Broker>,
    publisher: Publisher,
    /// Locked while a request works on the dead letters: another one would not see those that it has received.
    turn: Arc<Mutex<()>>,
}

impl DeadLetters {
    /// Returns the dead letters at this broker, with the publisher for jobs that are replayed. Connects only when asked.
    #[must_use]
    pub fn new(broker: Broker, publisher: Publisher) -> Self {
        Self {
            limit: LIMIT,
            broker: Arc::new(broker),
            publisher,
            turn: Arc::default(),
        }
    }

    /// Returns up to `limit` dead letters from the head of the queue, the oldest first, and the number of all.
    ///
    /// # Errors
    /// Fails if another request works on them, or if the broker fails.
    pub async fn list(&self, limit: usize) -> Result<(Vec<DeadLetter>, usize), LettersError> {
        let _turn = self.turn()?;
        let mut session = Session::open(&self.broker, self.limit).await?;
        let mut letters = Vec::new();
        while letters.len() < limit
            && let Some(letter) = session.receive().await?
        {
            letters.push(DeadLetter::read(&letter.properties, &letter.data));
        }
        let total = letters.len() + session.left();
        session.close().await?;
        // Those that returned to the queue may have changed places.
        letters.sort_by_key(|letter| letter.died_at);
        Ok((letters, total))
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
            && let Some(mut letter) = session.receive().await?
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

    /// Replays or deletes the chosen dead letters in the name of this client; `None` for someone with access to the pods of
    /// the app. It should run to its end: an interruption may leave a job twice.
    ///
    /// # Errors
    /// Fails if another request works on them, or if the broker fails. Some may be done then; the log names them.
    pub async fn sweep(
        &self,
        choice: Choice,
        operation: Operation,
        by: Option<&str>,
    ) -> Result<Swept, LettersError> {
        let _turn = self.turn()?;
        let mut session = Session::open(&self.broker, self.limit).await?;
        let mut wanted = match choice {
            Choice::All => None,
            Choice::Ids(ids) => Some(ids),
        };
        let mut done = 0;
        while wanted.as_ref().is_none_or(|ids| !ids.is_empty())
            && let Some(letter) = session.receive().await?
        {
            let chosen = match (&mut wanted, job::id_of(&letter.properties)) {
                (None, _) => true,
                (Some(ids), Some(id)) => ids.remove(&id),
                (Some(_), None) => false,
            };
            if chosen && self.remove(&session, letter, operation, by).await? {
                done += 1;
            }
        }
        let found_all = wanted.as_ref().is_some_and(BTreeSet::is_empty);
        let complete = found_all || session.is_at_the_end();
        session.close().await?;
        Ok(Swept {
            done,
            missing: wanted.unwrap_or_default(),
            complete,
        })
    }

    /// Takes the turn of this replica, and memory for one dead letter.
    fn turn(&self) -> Result<(MutexGuard<'_, ()>, Share), LettersError> {
        let turn = self.turn.try_lock().map_err(|_| LettersError::Busy)?;
        let share = self.publisher.budget.take(LETTER).ok_or(Refusal::Busy)?;
        Ok((turn, share))
    }

    /// Removes a dead letter from its queue, after its job is published if it is replayed. Returns false if it stays,
    /// because it never was a job.
    async fn remove(
        &self,
        session: &Session,
        letter: Delivery,
        operation: Operation,
        by: Option<&str>,
    ) -> Result<bool, LettersError> {
        let (mut id, tag) = (job::id_of(&letter.properties), letter.delivery_tag);
        if operation == Operation::Replay {
            if Fields::read(&letter.data).is_err() {
                return Ok(false);
            }
            let id = *id.get_or_insert_with(|| self.publisher.ids.mint(&Origin::Internal));
            self.publisher.publish(replayed(id, letter)).await?;
        }
        session.acknowledge(tag).await?;
        record(operation, id, by);
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

/// Writes the line about a dead letter. The lines of all replicas are the audit log.
fn record(operation: Operation, id: Option<Uuid>, by: Option<&str>) {
    let id = id.map(display);
    macro_rules! line {
        ($event:literal) => {
            tracing::info!(event = $event, job.id = id, auth.client = by, $event)
        };
    }
    match operation {
        Operation::Replay => line!("dead_letter_replayed"),
        Operation::Drop => line!("dead_letter_dropped"),
    }
}
