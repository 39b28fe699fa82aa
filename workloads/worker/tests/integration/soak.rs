//! Workers that are repeatedly killed in the middle of their jobs: every job is done, and none is done twice.
//!
//! `make test` runs the short form, `make soak` the long one (`SOAK_JOBS`, `SOAK_KILLS`).

use std::time::Instant;

use shortener_testing::{broker::Broker, broker::until, database::TestDatabase, process::Process};
use sqlx::{Executor, PgPool};

use crate::{
    process::start,
    support::{prepare, publish},
};

const WORKERS: usize = 3;
/// Long enough for a worker to die in the middle of a job and not between two.
const JOB: &str = r#"{"task":"wait","ms":100}"#;

/// Counts how often each job became done, independently of the job records.
const COUNT_ENDS: &str = "CREATE TABLE ends (message_id uuid NOT NULL); \
    CREATE FUNCTION count_end() RETURNS trigger LANGUAGE plpgsql AS \
    'BEGIN INSERT INTO ends VALUES (NEW.message_id); RETURN NEW; END'; \
    CREATE TRIGGER count_ends AFTER UPDATE ON jobs FOR EACH ROW \
    WHEN (NEW.state = 'done' AND OLD.state <> 'done') EXECUTE FUNCTION count_end()";

#[tokio::test]
async fn workers_that_are_killed_over_and_over_leave_every_job_done_once() {
    let database = TestDatabase::new().await;
    let (jobs, kills): (i64, i64) = (setting("SOAK_JOBS", 100), setting("SOAK_KILLS", 6));
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    pool.execute(COUNT_ENDS).await.unwrap();
    let mut workers = start_all(&database, &broker).await;
    for _ in 0..jobs {
        publish(&broker, JOB).await;
    }
    let begin = Instant::now();
    for kill in 0..kills {
        // Spread over all jobs, and not all of them during the first ones.
        let due = jobs * (kill + 1) / (kills + 1);
        let so_far = until("its turn", async || {
            let done = done(&pool).await;
            (done >= due).then_some(done).ok_or(format!("{done} done"))
        })
        .await;
        let victim: &mut Process = &mut workers[kill as usize % WORKERS];
        in_the_middle(victim, &pool).await;
        // Dropping the old process kills it with SIGKILL.
        *victim = start(&database, &broker);
        if kill % 10 == 9 {
            let seconds = begin.elapsed().as_secs();
            println!(
                "{seconds} s: {} kills, {so_far} of {jobs} jobs done",
                kill + 1
            );
        }
    }
    let left = jobs - done(&pool).await;
    until("every job to be done", async || {
        let done = done(&pool).await;
        (done == jobs).then_some(()).ok_or(format!("{done} done"))
    })
    .await;
    let (ends, ended): (i64, i64) =
        sqlx::query_as("SELECT count(*), count(DISTINCT message_id) FROM ends")
            .fetch_one(&pool)
            .await
            .unwrap();
    let attempts: i64 = sqlx::query_scalar("SELECT sum(attempts) FROM jobs")
        .fetch_one(&pool)
        .await
        .unwrap();
    println!(
        "{kills} kills while {jobs} jobs ran, {left} jobs left at the last one: {ended} jobs done, {} of them twice, \
         in {attempts} attempts and {} s",
        ends - ended,
        begin.elapsed().as_secs()
    );
    assert_eq!(
        (ends, ended),
        (jobs, jobs),
        "a job was done twice or not at all"
    );
    assert!(left > 0, "all jobs were done before the last kill");
    assert!(attempts > jobs, "no worker was killed during a job");
    broker.wait_for("jobs", (0, 3)).await;
    assert_eq!(broker.counts("jobs.dlq").await.0, 0, "dead letters");
}

/// Starts the workers and waits until each takes jobs.
async fn start_all(database: &TestDatabase, broker: &Broker) -> Vec<Process> {
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let mut worker = start(database, broker);
        worker.event("queue_up").await;
        workers.push(worker);
    }
    workers
}

/// Waits until this worker has started a job that is still running according to its record.
async fn in_the_middle(worker: &mut Process, pool: &PgPool) {
    let mut state = String::new();
    while state != "running" {
        let started = worker.event("job_start").await;
        let id = started["job.id"].as_str().unwrap();
        state = until("the ledger to have the job", async || {
            sqlx::query_scalar("SELECT state FROM jobs WHERE message_id = $1::uuid")
                .bind(id)
                .fetch_optional(pool)
                .await
                .unwrap()
                .ok_or(id.to_owned())
        })
        .await;
    }
}

async fn done(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM jobs WHERE state = 'done'")
        .fetch_one(pool)
        .await
        .unwrap()
}

fn setting<T: std::str::FromStr<Err: std::fmt::Debug>>(name: &str, default: T) -> T {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}
