//! The purge and its schedule.

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use shortener_app::{
    job_ids::JobIds,
    metrics::Metrics,
    publisher::{Publisher, metrics::PublisherMetrics},
    scheduler::Scheduler,
    store::migrate::migrate,
};
use shortener_common::{
    database::Database, exposition::Format, memory::Memory, purge::Purge, telemetry::span::Tracer,
};
use shortener_testing::{
    broker::{Broker, until},
    client::get,
    database::TestDatabase,
    metrics,
};
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};

use crate::support::{App, config, url_of};

/// A time of no schedule, and the time of one a day later.
const BEFORE: &str = "2026-11-23T12:00:00Z";
const DUE: &str = "2026-11-24T03:17:30Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// A replica that starts the purge at 3:17, with its metrics.
struct Replica {
    scheduler: Scheduler,
    metrics: Metrics,
}

impl Replica {
    async fn new(database: &TestDatabase, queue_url: Option<&str>) -> Self {
        let options = PgConnectOptions::clone(database);
        let access = Database::connect("test", options, 2, Default::default(), &Default::default());
        access.up().await;
        let publisher = queue_url.map(|url| {
            let mut config = config(&url_of(database));
            config.queue.queue_url = Some(url.to_owned());
            let broker = config.queue.broker().unwrap().unwrap();
            let metrics = PublisherMetrics::register(&mut Registry::default());
            let room = Memory::default().jobs;
            Publisher::start(broker, JobIds::default(), room, metrics, Tracer::default())
        });
        let mut metrics = Metrics::default();
        let (purge, schedule) = metrics.with_purge();
        let scheduler = Scheduler {
            schedule: "17 3 * * *".parse().unwrap(),
            database: access,
            publisher,
            purge: Purge {
                keep_days: 30,
                metrics: purge,
            },
            metrics: schedule,
        };
        Self { scheduler, metrics }
    }

    async fn look(&self, time: &str) {
        self.scheduler.look(at(time)).await.unwrap();
    }

    fn shows(&self, line: &str) -> bool {
        let text = Format::Classic.encode(self.metrics.registry()).unwrap();
        text.lines().any(|found| found == line)
    }
}

async fn schema(database: &TestDatabase) -> PgConnection {
    let options = PgConnectOptions::clone(database);
    migrate(options, std::time::Duration::from_secs(30))
        .await
        .unwrap();
    let mut connection = database.connect().await.unwrap();
    let expired = "INSERT INTO links (code, url, expires_at) VALUES ('old', 'https://example.com', now() - interval '1 h')";
    connection.execute(expired).await.unwrap();
    connection
}

async fn purged(connection: &mut PgConnection) -> bool {
    let purged = sqlx::query_scalar("SELECT url IS NULL FROM links WHERE code = 'old'");
    purged.fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn one_replica_purges_at_each_time_and_a_new_stack_waits_for_the_first() {
    let database = TestDatabase::new().await;
    let mut connection = schema(&database).await;
    let replicas = [
        Replica::new(&database, None).await,
        Replica::new(&database, None).await,
    ];
    for replica in &replicas {
        replica.look(BEFORE).await;
    }
    assert!(!purged(&mut connection).await);
    let [one, two] = &replicas;
    tokio::join!(one.look(DUE), two.look(DUE));
    assert!(purged(&mut connection).await);
    one.look(DUE).await;
    let done = "purge_runs_total{result=\"done\"} 1";
    let runs = replicas.iter().filter(|replica| replica.shows(done));
    assert_eq!(runs.count(), 1, "one of them, and once");
}

#[tokio::test]
async fn with_a_queue_a_time_is_one_job_even_if_it_had_to_be_tried_again() {
    let database = TestDatabase::new().await;
    let mut connection = schema(&database).await;
    let broker = Broker::new().await;
    // Nothing listens at the first address.
    let away = Replica::new(&database, Some("amqp://127.0.0.1:1/%2f")).await;
    away.look(BEFORE).await;
    away.look(DUE).await;
    let replica = Replica::new(&database, Some(&broker.url())).await;
    until("the queue", async || {
        let exists = broker.has("jobs").await;
        exists.then_some(()).ok_or("there is no queue".to_owned())
    })
    .await;
    until("the job", async || {
        replica.look(DUE).await;
        let jobs = broker.counts("jobs").await.0;
        (jobs == 1).then_some(()).ok_or(format!("{jobs} jobs"))
    })
    .await;
    for replica in [&away, &replica] {
        replica.look(DUE).await;
    }
    broker.wait_for("jobs", (1, 0)).await;
    let job = broker.get("jobs").await.unwrap();
    assert_eq!(job.data, br#"{"task":"purge_expired"}"#);
    assert!(!purged(&mut connection).await, "that is up to a worker");
}

#[tokio::test]
async fn times_without_a_success_are_counted() {
    let database = TestDatabase::new().await;
    let mut connection = schema(&database).await;
    let away = Replica::new(&database, Some("amqp://127.0.0.1:1/%2f")).await;
    away.look(BEFORE).await;
    let success = "UPDATE schedules SET ran_at = '2026-11-23 12:00Z' WHERE name = 'purge_done'";
    connection.execute(success).await.unwrap();
    for (time, missed) in [
        (BEFORE, 0),
        (DUE, 1),
        ("2026-11-26T04:00:00Z", 3),
        ("2036-11-26T04:00:00Z", 100),
    ] {
        away.look(time).await;
        assert!(away.shows(&format!("purge_missed {missed}")), "{time}");
    }
    let success = at("2026-11-23T12:00:00Z").as_second();
    assert!(away.shows(&format!("purge_last_success_timestamp_seconds {success}")));
}

#[tokio::test]
async fn an_app_with_a_schedule_follows_it() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.purge.purge_schedule = Some("17 3 * * *".parse().unwrap());
    })
    .await;
    until("the first look", async || {
        let seconds = metrics::value(app.internal, "purge_last_success_timestamp_seconds").await;
        (seconds > 0).then_some(()).ok_or(seconds.to_string())
    })
    .await;
    let other = TestDatabase::new().await;
    let without = App::start(&other).await;
    let exposition = get(without.internal, "/metrics").await.text();
    assert!(!exposition.contains("purge_"), "{exposition}");
}
