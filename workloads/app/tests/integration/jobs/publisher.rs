//! Many jobs in flight at a broker that confirms late, returns jobs, rejects jobs, or is lost.

use std::collections::BTreeSet;

use futures::future::{join, join_all};
use prometheus_client::registry::Registry;
use serde_json::json;
use shortener_app::{
    job_ids::JobIds,
    publisher::{NewJob, Publisher, Refusal, metrics::PublisherMetrics},
};
use shortener_common::{
    budget::Budget,
    memory::Memory,
    queue::{decision::Decision, origin::Origin},
    telemetry::span::Tracer,
};
use shortener_testing::{
    broker::{Broker, until},
    proxy::{Path, Proxy},
};

use super::{JOB, drain};
use crate::support::config;

/// More than are sent before one of them is confirmed, so that some wait.
const JOBS: usize = 700;

/// A publisher without an app, and its broker.
struct World {
    broker: Broker,
    proxy: Proxy,
    publisher: Publisher,
    /// The memory of jobs without a result.
    room: Budget,
}

/// The identifier of a job, and its result.
type Published = (String, Result<(), Refusal>);

impl World {
    /// Starts the publisher, and waits until it is connected.
    async fn new() -> Self {
        let broker = Broker::new().await;
        let proxy = Proxy::before(broker.address()).await;
        let mut config = config("postgres://u:p@db/x");
        config.queue.queue_url = Some(broker.url_at(proxy.address));
        let address = config.queue.broker().unwrap().unwrap();
        let metrics = PublisherMetrics::register(&mut Registry::default());
        let room = Memory::default().jobs;
        let ids = JobIds::default();
        let publisher = Publisher::start(address, ids, room.clone(), metrics, Tracer::default());
        let world = Self {
            broker,
            proxy,
            publisher,
            room,
        };
        let first = world.accepted().await;
        assert_eq!(drain(&world.broker).await, BTreeSet::from([first]));
        world
    }

    async fn publish_one(&self) -> Published {
        let id = self.publisher.ids.mint(&Origin::Internal);
        let job = NewJob {
            id,
            origin: Origin::Internal,
            decision: Decision::default(),
            body: JOB.as_bytes().into(),
            request: None,
            tracestate: None,
        };
        (id.to_string(), self.publisher.publish(job).await)
    }

    /// Publishes jobs until one is accepted.
    async fn accepted(&self) -> String {
        until("a job to be accepted", async || {
            let (id, result) = self.publish_one().await;
            result.map(|()| id).map_err(|refusal| refusal.to_string())
        })
        .await
    }

    /// Publishes jobs while the path to the broker is like this, and continues with `then` once all of them are taken.
    async fn publish(&self, path: Path, then: impl Future<Output = ()>) -> Vec<Published> {
        self.proxy.set(path);
        let published = join_all((0..JOBS).map(|_| self.publish_one()));
        let taken = async {
            until("all jobs to be taken", async || {
                let used = self.room.used();
                let all = JOBS * 2 * JOB.len();
                (used == all).then_some(()).ok_or(used.to_string())
            })
            .await;
            then.await;
        };
        join(published, taken).await.0
    }
}

/// Returns the identifiers of the jobs that were accepted.
fn accepted(published: &[Published]) -> BTreeSet<String> {
    let accepted = published.iter().filter(|(_, result)| result.is_ok());
    accepted.map(|(id, _)| id.clone()).collect()
}

#[tokio::test]
async fn more_jobs_than_are_in_flight_are_accepted_once_the_broker_confirms() {
    let world = World::new().await;
    let open = async { world.proxy.set(Path::Open) };
    let published = world.publish(Path::Held, open).await;
    let accepted = accepted(&published);
    assert_eq!(accepted.len(), JOBS, "{published:?}");
    assert_eq!(drain(&world.broker).await, accepted);
    assert_eq!(world.room.used(), 0);
}

#[tokio::test]
async fn jobs_in_flight_are_refused_as_soon_as_the_connection_is_lost() {
    let world = World::new().await;
    let cut = async { world.proxy.set(Path::Refused) };
    let published = world.publish(Path::Silent, cut).await;
    for (id, result) in published {
        assert_eq!(result, Err(Refusal::NotConnected), "{id}");
    }
    assert_eq!(world.room.used(), 0);
    world.proxy.set(Path::Open);
    let id = world.accepted().await;
    assert!(drain(&world.broker).await.contains(&id));
}

#[tokio::test]
async fn exactly_the_jobs_in_flight_that_no_queue_took_are_unroutable() {
    let world = World::new().await;
    let delete = async {
        world.broker.delete("queues/jobs").await;
        world.proxy.set(Path::Open);
    };
    let published = world.publish(Path::Held, delete).await;
    let mut taken = accepted(&published);
    assert!(taken.len() < JOBS, "no job was returned");
    for (id, result) in published {
        let unroutable = Err(Refusal::Unroutable);
        assert!(result.is_ok() || result == unroutable, "{id}: {result:?}");
    }
    taken.insert(world.accepted().await);
    assert_eq!(drain(&world.broker).await, taken);
}

#[tokio::test]
async fn exactly_the_jobs_in_flight_that_a_full_queue_does_not_take_are_rejected() {
    let world = World::new().await;
    world.broker.policy(json!({"max-length": 1})).await;
    let mut taken = BTreeSet::new();
    let mut is_full = false;
    while !is_full {
        let open = async { world.proxy.set(Path::Open) };
        let published = world.publish(Path::Held, open).await;
        taken.append(&mut accepted(&published));
        for (id, result) in published {
            let is_rejected = result == Err(Refusal::Rejected);
            assert!(result.is_ok() || is_rejected, "{id}: {result:?}");
            is_full |= is_rejected;
        }
    }
    assert_eq!(drain(&world.broker).await, taken);
}
