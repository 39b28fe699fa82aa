//! The background task that manages the collection of the vector store and indexes documents that requests left
//! behind.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use shortener_common::{
    backoff::Backoff,
    documents::{IndexError, Version},
    queue::{
        decision::Decision,
        job::{INDEX, REINDEX},
        origin::Origin,
    },
    trace::TraceContext,
    vector::VectorStore,
};
use tokio::time::sleep;
use uuid::Uuid;

use crate::{
    publisher::{NewJob, Publisher, Refusal},
    state::Vector,
};

/// The interval of the task.
const INTERVAL: Duration = Duration::from_secs(5);
/// Backoff while the database or the vector store is down.
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    longest: Duration::from_secs(5),
};
/// The maximum number of documents per batch. With the queue profile it is also the maximum per interval, so that
/// other jobs are not delayed.
const BATCH: usize = 100;
/// The time in seconds that a job has to fill a new collection, before its documents are indexed one by one.
const FILLING_TIME: f64 = 600.0;

/// Manages the collection while it runs.
pub struct Indexer {
    /// The vector store and the documents.
    vector: Vector,
    /// The publisher of indexing jobs; without it, the task indexes documents itself.
    publisher: Option<Publisher>,
    /// True while a collection that may be new still needs the job that fills it.
    fill_pending: bool,
}

impl Indexer {
    /// Creates the task. Without a publisher it indexes documents itself.
    pub fn new(vector: Vector, publisher: Option<Publisher>) -> Self {
        Self {
            vector,
            publisher,
            fill_pending: false,
        }
    }

    /// Runs without end.
    pub async fn run(mut self) {
        let mut failures: u32 = 0;
        let mut last_reason = String::new();
        loop {
            match self.tend().await {
                Ok(()) => {
                    if failures > 0 || last_reason.is_empty() {
                        tracing::info!(event = "vector_up", "vector_up");
                    }
                    failures = 0;
                    "none".clone_into(&mut last_reason);
                    tokio::select! {
                        () = sleep(INTERVAL) => {}
                        () = self.vector.store.down() => {}
                    }
                }
                Err(error) => {
                    let reason = error.to_string();
                    if reason != last_reason {
                        tracing::warn!(
                            event = "vector_unavailable",
                            error.message = reason,
                            "vector_unavailable"
                        );
                        last_reason = reason;
                    }
                    failures = failures.saturating_add(1);
                    sleep(RETRY.random_pause(failures)).await;
                }
            }
        }
    }

    async fn tend(&mut self) -> Result<(), IndexError> {
        let Vector {
            documents, store, ..
        } = &self.vector;
        let Some(publisher) = &self.publisher else {
            documents.prepare(store, 0.0).await?;
            return self.sweep().await;
        };
        if !documents.is_prepared(store).await? {
            // Set before the call, because the store may create the collection and still report an error.
            let was_pending = std::mem::replace(&mut self.fill_pending, true);
            let to_fill = documents.prepare(store, FILLING_TIME).await?;
            self.fill_pending = was_pending || to_fill;
        }
        if self.fill_pending {
            self.fill_pending = !fill(publisher, store).await;
        }
        self.offer(publisher).await
    }

    /// Claims documents that are due, and publishes a job for each.
    async fn offer(&self, publisher: &Publisher) -> Result<(), IndexError> {
        let Vector {
            documents, store, ..
        } = &self.vector;
        let due = documents.claim(BATCH as i64, store.target()).await?;
        let offers = due.iter().map(|version| async move {
            let job = index_job(
                publisher.ids.mint(&Origin::Internal),
                *version,
                &self.vector,
                (None, None),
            );
            publisher.publish(job).await.map(|()| *version)
        });
        for offered in join_all(offers).await {
            match offered {
                Ok(version) => documents.queued(version, store.target()).await?,
                // The remaining documents become due again soon.
                Err(refusal) => {
                    log_refusal(refusal);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Indexes all documents that are due.
    async fn sweep(&self) -> Result<(), IndexError> {
        let Vector {
            documents, store, ..
        } = &self.vector;
        loop {
            let due = documents.claim(BATCH as i64, store.target()).await?;
            let ids = due.iter().map(|version| version.id);
            let report = documents.index(ids, store).await?;
            for (id, unfit) in report.unfit {
                tracing::warn!(
                    event = "document_unfit",
                    document.id = id.get(),
                    error.message = %unfit,
                    "document_unfit"
                );
            }
            if due.len() < BATCH {
                return Ok(());
            }
        }
    }
}

/// Builds the job with this identifier that indexes a document. The service sends it, whoever changed the document.
pub fn index_job(
    id: Uuid,
    version: Version,
    vector: &Vector,
    (request, tracestate): (Option<TraceContext>, Option<String>),
) -> NewJob {
    let body = json!({"task": INDEX, "id": version.id.get()});
    NewJob {
        id,
        origin: Origin::Internal,
        decision: Decision::new(INDEX, Some(vector.store.target())),
        body: body.to_string().into(),
        request,
        tracestate,
    }
}

/// Logs that the queue did not accept a job. The document becomes due again and is indexed later.
pub fn log_refusal(refusal: Refusal) {
    tracing::warn!(event = "document_not_enqueued", error.message = %refusal, "document_not_enqueued");
}

/// Publishes a job that fills a new collection. Returns true if the queue accepted it.
async fn fill(publisher: &Publisher, store: &VectorStore) -> bool {
    let job = NewJob {
        id: publisher.ids.mint(&Origin::Internal),
        origin: Origin::Internal,
        decision: Decision::new(REINDEX, Some(store.target())),
        body: json!({"task": REINDEX}).to_string().into(),
        request: None,
        tracestate: None,
    };
    match publisher.publish(job).await {
        Ok(()) => true,
        Err(refusal) => {
            log_refusal(refusal);
            false
        }
    }
}
