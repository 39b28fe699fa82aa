//! The kinds of jobs: one file per task, and the registry that finds tasks by name.

mod index;
mod purge_expired;
mod record;
mod reindex;
mod wait;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use shortener_common::{
    backoff::Backoff,
    config::PurgeArgs,
    database::{Database, StoreError},
    documents::{Documents, IndexError},
    queue::{decision, job::Job},
    vector::{VectorError, VectorStore},
};
use sqlx::PgConnection;
use tokio::time::sleep;

/// An attempt at a job.
pub type Attempt<'a> = BoxFuture<'a, Result<Outcome, StoreError>>;

/// A kind of job. It must be idempotent, because every job may be delivered more than once.
pub trait Task: Send + Sync {
    /// Processes the job, or finds that this is impossible.
    ///
    /// # Errors
    /// Fails if a backend that the task needs is down. The job then waits for it, without using up a delivery.
    fn handle<'a>(&'a self, job: &'a Job, context: &'a Context) -> Attempt<'a>;

    /// Returns the extent of the time limit. By default it bounds the whole attempt.
    fn limit(&self) -> Limit {
        Limit::Attempt
    }
}

/// The extent of the time limit of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The whole attempt.
    Attempt,
    /// Each step, of which the next attempt repeats only the last one. The task applies the limit itself.
    Step,
}

/// The backends for tasks.
#[derive(Debug)]
pub struct Context {
    pub database: Database,
    /// The documents; `None` if the vector profile is off.
    pub vector: Option<Vector>,
    /// The extent of the removal of expired data.
    pub purge: PurgeArgs,
    /// Time limit of an attempt or of a step, see [`Task::limit`].
    pub time_limit: Duration,
}

impl Context {
    /// Waits until all backends that jobs may need are up.
    pub async fn up(&self) {
        self.database.up().await;
        if let Some(vector) = &self.vector {
            vector.up().await;
        }
    }

    /// Returns the documents and the store of the job.
    ///
    /// # Errors
    /// Returns [`Outcome::Elsewhere`] if this worker has no store, or another one than the job.
    fn vector_of(&self, job: &Job) -> Result<&Vector, Outcome> {
        let vector = self.vector.as_ref().ok_or(Outcome::Elsewhere(OFF))?;
        match &job.decision.target {
            Some(target) if target != vector.store.target() => Err(Outcome::Elsewhere(OTHER_STORE)),
            _ => Ok(vector),
        }
    }
}

/// The reasons of [`Outcome::Elsewhere`], which every client can read.
const OFF: &str = "the vector profile is not enabled";
const OTHER_STORE: &str = "the vector store has changed since the job was accepted: send it again";
const NO_TASK: &str = "this release does not have the task";

/// The backends for tasks on documents.
#[derive(Clone, Debug)]
pub struct Vector {
    documents: Documents,
    pub(crate) store: Arc<VectorStore>,
}

/// Backoff between checks of a store that is down.
const LOOK: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(5),
};

/// The time in seconds that a task has to fill a collection that it created, before other tasks help.
const FILLING_TIME: f64 = 600.0;

impl Vector {
    /// Returns the documents of this database, indexed in this store.
    pub fn new(database: &Database, store: VectorStore) -> Self {
        Self {
            documents: Documents::new(database.clone()),
            store: Arc::new(store),
        }
    }

    /// Waits until the store answers, with or without the collection.
    async fn up(&self) {
        let mut failures = 0;
        while let Err(VectorError::Unavailable { .. }) = self.store.open().await {
            failures += 1;
            sleep(LOOK.random_pause(failures)).await;
        }
    }

    /// Creates the collection if it does not exist. Returns true if there are documents to fill it with.
    async fn prepare(&self) -> Result<bool, IndexError> {
        self.documents.prepare(&self.store, FILLING_TIME).await
    }
}

/// Converts the result of indexing into the outcome of the job. A store that is down is waited for, like the
/// database.
fn outcome_of(result: Result<Outcome, IndexError>) -> Result<Outcome, StoreError> {
    match result {
        Ok(outcome) => Ok(outcome),
        Err(IndexError::Database(error)) => Err(error),
        Err(stalled @ IndexError::Stalled(_)) => Ok(Outcome::Retry(stalled.to_string())),
        Err(IndexError::Vector(error @ VectorError::Unavailable { .. })) => {
            Err(StoreError::Unavailable(error.to_string()))
        }
        Err(IndexError::Vector(error @ VectorError::OtherCollection { .. })) => {
            Ok(Outcome::Reject(error.to_string()))
        }
        Err(IndexError::Vector(error @ VectorError::Refused(_))) => {
            Ok(Outcome::Fault(error.to_string()))
        }
    }
}

/// A change of the database that belongs to a job. It runs in the transaction that marks the job as done, so it
/// happens once, however often the job is delivered.
pub type Effect =
    Box<dyn for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<(), sqlx::Error>> + Send>;

/// The outcome of one attempt at a job.
pub enum Outcome {
    /// The job succeeds once this effect is applied.
    Done(Effect),
    /// The attempt failed for this reason; another one may succeed.
    Retry(String),
    /// The job can never succeed, for this reason.
    Reject(String),
    /// This worker lacks the task or the vector store for which the app accepted the job. Another worker may have it.
    Elsewhere(&'static str),
    /// A backend rejects the job. Its reason is for the log, and clients never see it.
    Fault(String),
}

impl Outcome {
    /// Returns a success without an effect.
    pub fn done() -> Self {
        Self::Done(Box::new(|_| Box::pin(async move { Ok(()) })))
    }
}

/// The tasks by name.
pub struct Registry {
    tasks: HashMap<&'static str, Box<dyn Task>>,
    default: Box<dyn Task>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            tasks: HashMap::new(),
            default: Box::new(record::Record),
        }
        .with("index", index::Index)
        .with("purge_expired", purge_expired::PurgeExpired)
        .with("reindex", reindex::Reindex)
        .with("wait", wait::Wait)
    }
}

impl Registry {
    /// Adds or replaces a task.
    #[must_use]
    pub fn with(mut self, name: &'static str, task: impl Task + 'static) -> Self {
        self.tasks.insert(name, Box::new(task));
        self
    }

    /// Returns the task that handles the job. Without a decision of the app, the name of the job's own task decides.
    ///
    /// # Errors
    /// Returns [`Outcome::Elsewhere`] if this release lacks the task.
    pub fn get(&self, job: &Job) -> Result<&dyn Task, Outcome> {
        let task = match job.decision.handler.as_deref() {
            None => self.tasks.get(job.fields.task.as_str()),
            Some(decision::DEFAULT) => None,
            Some(handler) => {
                let task = self.tasks.get(handler);
                Some(task.ok_or(Outcome::Elsewhere(NO_TASK))?)
            }
        };
        Ok(task.unwrap_or(&self.default).as_ref())
    }
}

#[cfg(test)]
mod tests {
    use shortener_common::{
        queue::{
            decision::Decision,
            job::{self, BUILT_IN},
            origin::Origin,
            public_tasks::RESERVED,
        },
        trace::TraceContext,
    };
    use sqlx::postgres::PgConnectOptions;
    use uuid::Uuid;

    use super::*;

    struct Says(&'static str);

    impl Task for Says {
        fn handle<'a>(&'a self, _: &'a Job, _: &'a Context) -> Attempt<'a> {
            Box::pin(async move { Ok(Outcome::Reject(self.0.to_owned())) })
        }
    }

    /// Returns what the task says that handles the job with this name; `None` if the worker lacks it.
    async fn said_by(registry: &Registry, name: &str, decision: &Decision) -> Option<String> {
        let (id, trace) = (Uuid::now_v7(), TraceContext::continuing(None));
        let properties = job::properties(id, &Origin::Internal, decision, trace, None);
        let body = serde_json::json!({ "task": name }).to_string();
        let job = Job::parse(&properties, body.into_bytes()).unwrap();
        let nowhere = PgConnectOptions::new().host("127.0.0.1").port(1);
        let context = Context {
            database: Database::connect(
                "test",
                nowhere,
                1,
                Default::default(),
                &Default::default(),
            ),
            vector: None,
            purge: PurgeArgs {
                purge_retention_days: 30,
                purge_audit_days: 400,
                purge_click_days: 400,
                purge_document_days: None,
            },
            time_limit: Duration::from_secs(1),
        };
        match registry.get(&job).ok()?.handle(&job, &context).await {
            Ok(Outcome::Reject(said)) => Some(said),
            _ => panic!("{name} was handled by another task"),
        }
    }

    fn registry() -> Registry {
        Registry {
            tasks: HashMap::new(),
            default: Box::new(Says("default")),
        }
        .with("index", Says("index"))
    }

    #[tokio::test]
    async fn a_task_is_found_by_its_exact_name_and_every_other_name_has_the_default_task() {
        let registry = registry();
        for decided in [false, true] {
            let said = async |name| {
                let decision = decided.then(|| Decision::new(name, None));
                let decision = decision.unwrap_or_default();
                said_by(&registry, name, &decision).await.unwrap()
            };
            assert_eq!(said("index").await, "index");
            for name in ["", "email", "Index", "index "] {
                assert_eq!(said(name).await, "default", "{name}");
            }
        }
    }

    #[tokio::test]
    async fn the_release_that_accepted_a_job_decides_on_its_task() {
        let registry = registry().with("email", Says("email"));
        let accepted = Decision::new("email", None);
        let said = said_by(&registry, "email", &accepted).await;
        assert_eq!(said.as_deref(), Some("default"), "it had no such task");
        let later = Decision {
            handler: Some("later".into()),
            ..Decision::default()
        };
        assert_eq!(said_by(&registry, "later", &later).await, None);
    }

    #[test]
    fn the_tasks_of_the_release_are_registered() {
        let mut names: Vec<_> = Registry::default().tasks.into_keys().collect();
        names.sort_unstable();
        assert_eq!(names, BUILT_IN);
    }

    #[test]
    fn a_wildcard_covers_no_task_of_ours_but_one_that_is_cheap() {
        let names = Registry::default().tasks.into_keys();
        let mut covered: Vec<_> = names.filter(|name| !RESERVED.contains(name)).collect();
        covered.sort_unstable();
        assert_eq!(covered, ["index"]);
    }
}
