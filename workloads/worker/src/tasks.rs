//! What jobs can ask for: one file per task, and the registry that finds them by name.

mod purge_expired;
mod record;
mod wait;

use std::collections::HashMap;

use futures::future::BoxFuture;
use shortener_common::{
    database::{Database, StoreError},
    queue::job::Job,
};
use sqlx::PgConnection;

/// A kind of job. It must be idempotent, because every job may be delivered more than once.
pub trait Task: Send + Sync {
    /// Does the job, or finds that it cannot be done.
    ///
    /// # Errors
    /// When something that the task needs is away. The job is then kept and done later, and counts as not tried.
    fn handle<'a>(
        &'a self,
        job: &'a Job,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>>;
}

/// What tasks work with.
#[derive(Clone, Debug)]
pub struct Context {
    /// The database.
    pub database: Database,
}

/// A change of the database that belongs to a job. It is made in the very transaction that marks the job as done, so
/// that it happens once however often the job is delivered.
pub type Effect =
    Box<dyn for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<(), sqlx::Error>> + Send>;

/// What became of one attempt at a job.
pub enum Outcome {
    /// All that remains is this effect.
    Done(Effect),
    /// It failed for this reason and may succeed another time.
    Retry(String),
    /// It can never succeed, for this reason.
    Reject(String),
}

impl Outcome {
    /// Done, and nothing in the database belongs to it but the ledger.
    #[must_use]
    pub fn done() -> Self {
        Self::Done(Box::new(|_| Box::pin(async move { Ok(()) })))
    }
}

/// The tasks by their names.
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
        .with("purge_expired", purge_expired::PurgeExpired)
        .with("wait", wait::Wait)
    }
}

impl Registry {
    /// Adds a task, or puts another one into its place.
    #[must_use]
    pub fn with(mut self, name: &'static str, task: impl Task + 'static) -> Self {
        self.tasks.insert(name, Box::new(task));
        self
    }

    /// The task of this name; every other name has the default task.
    #[must_use]
    pub fn get(&self, name: &str) -> &dyn Task {
        self.tasks.get(name).unwrap_or(&self.default).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use shortener_common::{queue::job, trace::TraceContext};
    use sqlx::postgres::PgConnectOptions;
    use uuid::Uuid;

    use super::*;

    struct Says(&'static str);

    impl Task for Says {
        fn handle<'a>(
            &'a self,
            _: &'a Job,
            _: &'a Context,
        ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
            Box::pin(async move { Ok(Outcome::Reject(self.0.to_owned())) })
        }
    }

    async fn said_by(registry: &Registry, name: &str) -> String {
        let properties = job::properties(Uuid::now_v7(), TraceContext::continuing(None), None);
        let job = Job::parse(&properties, b"{}".to_vec()).unwrap();
        let nowhere = PgConnectOptions::new().host("127.0.0.1").port(1);
        let context = Context {
            database: Database::connect("test", nowhere, 1, Default::default()),
        };
        match registry.get(name).handle(&job, &context).await {
            Ok(Outcome::Reject(said)) => said,
            _ => panic!("another task answered to {name}"),
        }
    }

    #[tokio::test]
    async fn a_task_is_found_by_its_exact_name_and_every_other_name_has_the_default_task() {
        let registry = Registry {
            tasks: HashMap::new(),
            default: Box::new(Says("default")),
        }
        .with("index", Says("index"));
        assert_eq!(said_by(&registry, "index").await, "index");
        for name in ["", "email", "Index", "index "] {
            assert_eq!(said_by(&registry, name).await, "default", "{name}");
        }
    }

    #[test]
    fn the_tasks_of_the_release_are_registered() {
        let mut names: Vec<_> = Registry::default().tasks.into_keys().collect();
        names.sort_unstable();
        assert_eq!(names, ["purge_expired", "wait"]);
    }
}
