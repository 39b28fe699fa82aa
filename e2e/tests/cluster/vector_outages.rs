//! A vector store that is down, or whose collection is missing or has another size: `/docs` reports it, all else
//! works, and the service recovers by itself (A8).
//!
//! Specification: 4.4.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{
    Answer, Broker, GatewayClient, Hit, Job, Qdrant, SharedStack, await_condition,
    redirects_are_right_and_quick, with_vector, with_vector_and_queue,
};

/// The longest time of an answer, beside that of some requests that need no store: the app waits 3 s for the store.
const DEADLINE: Duration = Duration::from_secs(5);
const REQUESTS: u32 = 4;
/// Queries while packets are dropped.
const TRIED: usize = 5;
/// Number of documents, enough for a query to have a choice.
const COUNT: u64 = 30;

fn documents() -> Vec<(Vec<f64>, Value)> {
    let document = |number: u64| {
        let vector = (1..=4).map(|axis| ((number * axis) as f64).sin()).collect();
        (
            vector,
            json!({"title": number.to_string(), "category": format!("c{}", number % 3)}),
        )
    };
    (1..=COUNT).map(document).collect()
}

/// Returns queries that must have the same answers before and after an outage.
fn questions() -> [Value; 3] {
    [
        json!({"vector": [1, 0, 0, 0], "limit": 30, "with_payload": true}),
        json!({"vector": [0.3, -0.2, 0.9, 0.1], "limit": 5}),
        json!({"vector": [1, 1, 1, 1], "limit": 10, "filter": {"category": "c1"}, "with_payload": true}),
    ]
}

#[tokio::test]
async fn without_the_store_only_documents_are_refused() -> Result<()> {
    with_vector(async |shared| {
        let gateway = &shared.gateway;
        gateway.only_documents(&documents(), 201).await?;
        let before = answers(shared).await?;
        away(shared).await?;

        queries_are_refused(gateway).await?;
        gateway
            .put_document(1, &[1., 0., 0., 0.], json!({}))
            .await?
            .check_unavailable()?;
        gateway.delete_document(1).await?.check_unavailable()?;
        all_else_goes_on(shared).await?;
        shared.stack.until("VectorReady", "False").await?;

        shared.stack.resume().await?;
        come_to_be(shared, &before).await
    })
    .await
}

#[tokio::test]
async fn while_packets_to_the_store_are_dropped_documents_are_refused_and_nobody_else_waits()
-> Result<()> {
    with_vector(async |shared| {
        let gateway = &shared.gateway;
        gateway.only_documents(&documents(), 201).await?;
        let before = answers(shared).await?;
        shared.stack.pause().await?;
        shared.stack.isolate("qdrant").await?;
        let mut slowest = Duration::ZERO;
        let mut others = Vec::with_capacity(TRIED);
        for _ in 0..TRIED {
            let begin = Instant::now();
            queries_are_refused(gateway).await?;
            slowest = slowest.max(begin.elapsed());
            let begin = Instant::now();
            let health = gateway.get("/health").await?;
            others.push(begin.elapsed());
            ensure!(health.status == 200, "/health: {health:?}");
        }
        others.sort();
        let limit = DEADLINE + REQUESTS * others[TRIED / 2];
        println!("refused after {slowest:?} at most");
        ensure!(
            slowest < limit,
            "a refusal took {slowest:?} (limit {limit:?})"
        );
        redirects_are_right_and_quick(gateway).await?;
        all_else_goes_on(shared).await?;
        shared.stack.resume().await?;
        come_to_be(shared, &before).await
    })
    .await
}

#[tokio::test]
async fn a_store_whose_pod_is_replaced_answers_as_before() -> Result<()> {
    with_vector(async |shared| {
        shared.gateway.only_documents(&documents(), 201).await?;
        let before = answers(shared).await?;
        let (killed, went_on) = tokio::join!(shared.stack.kill("qdrant"), all_else_goes_on(shared));
        killed?;
        went_on?;
        shared.stack.ready().await?;
        come_to_be(shared, &before).await?;
        assert_eq!(
            Qdrant::open(&shared.stack).await?.count("docs").await?,
            COUNT
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_missing_collection_is_made_and_filled_again() -> Result<()> {
    with_vector(async |shared| {
        shared.gateway.only_documents(&documents(), 201).await?;
        let before = answers(shared).await?;
        let store = Qdrant::open(&shared.stack).await?;
        store.drop("docs").await?;
        all_else_goes_on(shared).await?;
        come_to_be(shared, &before).await?;
        assert_eq!(store.count("docs").await?, COUNT);
        let schema = &store.collection("docs").await?["payload_schema"];
        assert_eq!(schema["category"]["data_type"], "keyword", "{schema}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_collection_of_another_size_is_not_used_and_not_touched() -> Result<()> {
    with_vector(async |shared| {
        let gateway = &shared.gateway;
        gateway.only_documents(&documents(), 201).await?;
        let before = answers(shared).await?;
        let store = Qdrant::open(&shared.stack).await?;
        await_condition("a collection of another size exists", async || {
            // The app may be faster and create its own collection.
            store.drop("docs").await?;
            store.create("docs", 3, "Cosine").await
        })
        .await?;
        await_condition("searches are refused", async || {
            queries_are_refused(gateway).await
        })
        .await?;
        all_else_goes_on(shared).await?;
        let size = store.collection("docs").await?["config"]["params"]["vectors"]["size"].take();
        assert_eq!(
            size,
            json!(3),
            "the app changed a collection of another size"
        );

        store.drop("docs").await?;
        come_to_be(shared, &before).await
    })
    .await
}

#[tokio::test]
async fn with_the_queue_documents_are_accepted_while_the_store_is_away() -> Result<()> {
    with_vector_and_queue(async |shared| {
        let gateway = &shared.gateway;
        gateway.no_documents().await?;
        away(shared).await?;
        let mut jobs = Vec::new();
        for (id, (vector, payload)) in (1..=5).zip(documents()) {
            let answer = gateway.put_document(id, &vector, payload).await?;
            jobs.push(enqueued(&answer)?);
        }
        queries_are_refused(gateway).await?;
        all_else_goes_on(shared).await?;
        shared.stack.resume().await?;
        for job in &jobs {
            gateway.wait_for_job_status(job, "done").await?;
        }
        await_condition("all five documents are found", async || {
            let found = gateway.find_documents(&questions()[0]).await?;
            ensure!(found.len() == 5, "{found:?}");
            Ok(())
        })
        .await?;
        // An outage does not count as a delivery.
        let letter = Broker::open(&shared.stack).await?.first("jobs.dlq").await?;
        assert_eq!(letter, None);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn after_the_collection_was_dropped_reindexing_gives_equal_counts_and_answers() -> Result<()>
{
    with_vector_and_queue(async |shared| {
        let gateway = &shared.gateway;
        gateway.only_documents(&documents(), 202).await?;
        let store = Qdrant::open(&shared.stack).await?;
        await_condition("all documents are indexed", async || {
            let count = store.count("docs").await?;
            ensure!(count == COUNT, "expected {COUNT} points, counted {count}");
            Ok(())
        })
        .await?;
        let before = answers(shared).await?;
        store.drop("docs").await?;
        let answer = gateway
            .post("/api/jobs", &json!({"task": "reindex"}))
            .await?;
        let job = Job::accepted(&answer)?;
        gateway.wait_for_job_status(&job.id, "done").await?;
        assert_eq!(store.count("docs").await?, COUNT);
        come_to_be(shared, &before).await
    })
    .await
}

#[tokio::test]
async fn with_the_queue_a_worker_indexes_what_was_accepted() -> Result<()> {
    with_vector_and_queue(async |shared| {
        let gateway = &shared.gateway;
        gateway.no_documents().await?;
        let put = gateway
            .put_document(7, &[3., 4., 0., 0.], json!({"category": "x"}))
            .await?;
        gateway
            .wait_for_job_status(&enqueued(&put)?, "done")
            .await?;
        let query = json!({"vector": [2, 0, 0, 0], "filter": {"category": "x"}});
        Hit::are(&gateway.find_documents(&query).await?, &[(7, 0.6)])?;
        let deleted = gateway.delete_document(7).await?;
        gateway
            .wait_for_job_status(&enqueued(&deleted)?, "done")
            .await?;
        Hit::are(&gateway.find_documents(&query).await?, &[])
    })
    .await
}

/// Stops the store until the stack is resumed.
async fn away(shared: &SharedStack) -> Result<()> {
    shared.stack.pause().await?;
    shared.stack.scale_to_zero("qdrant").await
}

/// Checks that links and the documents in the database are not affected.
async fn all_else_goes_on(shared: &SharedStack) -> Result<()> {
    let gateway = &shared.gateway;
    let url = "https://example.com/without-the-vector-store";
    let code = gateway.shorten(url).await?;
    for _ in 0..10 {
        gateway.assert_redirects(&code, url).await?;
    }
    for path in ["/api/health", "/api/metrics", "/api/docs/1"] {
        let answer = gateway.get(path).await?;
        ensure!(
            answer.status == 200,
            "{path}: expected status 200, got {answer:?}"
        );
    }
    Ok(())
}

async fn queries_are_refused(gateway: &GatewayClient) -> Result<()> {
    let answer = gateway.post("/api/docs/query", &questions()[1]).await?;
    answer.check_unavailable()
}

/// Returns the job id of an accepted document.
fn enqueued(answer: &Answer) -> Result<String> {
    let body = answer.json()?;
    let accepted = answer.status == 202 && body["status"] == "enqueued";
    let job = body["job_id"].as_str().filter(|_| accepted);
    job.map(str::to_owned)
        .ok_or_else(|| anyhow::anyhow!("{answer:?}"))
}

/// Returns the answers to the queries.
async fn answers(shared: &SharedStack) -> Result<Vec<String>> {
    let mut answers = Vec::new();
    for question in questions() {
        let answer = shared.gateway.post("/api/docs/query", &question).await?;
        ensure!(answer.status == 200, "expected status 200, got {answer:?}");
        answers.push(answer.body);
    }
    Ok(answers)
}

async fn come_to_be(shared: &SharedStack, before: &[String]) -> Result<()> {
    await_condition("searches are answered as before", async || {
        let after = answers(shared).await?;
        ensure!(after == before, "expected {before:?}, found {after:?}");
        Ok(())
    })
    .await
}
