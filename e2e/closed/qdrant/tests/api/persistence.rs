//! The data that outlives the server.

use qdrant_client::{
    Payload,
    qdrant::{
        Condition, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder, Distance, FieldType,
        Filter, PointStruct, QueryPointsBuilder, ScoredPoint, UpsertPointsBuilder,
        VectorParamsBuilder,
    },
};
use qdrant_stand_in::store::Store;

use crate::setup::{KEY, Running};

async fn fill(running: &Running) -> Vec<ScoredPoint> {
    let client = running.client(Some(KEY));
    let vectors = VectorParamsBuilder::new(4, Distance::Cosine);
    client
        .create_collection(CreateCollectionBuilder::new("docs").vectors_config(vectors))
        .await
        .unwrap();
    let index = CreateFieldIndexCollectionBuilder::new("docs", "category", FieldType::Keyword);
    client.create_field_index(index).await.unwrap();
    for id in 1..=20u64 {
        let payload =
            Payload::try_from(serde_json::json!({"category": format!("c{}", id % 3)})).unwrap();
        let point = PointStruct::new(id, vec![1.0, id as f32, 0.5, -1.0], payload);
        client
            .upsert_points(UpsertPointsBuilder::new("docs", vec![point]))
            .await
            .unwrap();
    }
    ask(running).await
}

async fn ask(running: &Running) -> Vec<ScoredPoint> {
    let filter = Filter::must([Condition::matches("category", "c1".to_owned())]);
    let query = QueryPointsBuilder::new("docs")
        .query(vec![1f32, 2., 3., 4.])
        .filter(filter)
        .with_payload(true);
    running.client(Some(KEY)).query(query).await.unwrap().result
}

#[tokio::test]
async fn a_server_that_was_stopped_answers_as_before() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(&directory).await;
    let before = fill(&running).await;
    assert_eq!(before.len(), 7);
    running.stop().await;
    let running = Running::start(&directory).await;
    assert_eq!(ask(&running).await, before);
    running.stop().await;
}

#[tokio::test]
async fn what_was_answered_is_in_the_files_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(&directory).await;
    let before = fill(&running).await;
    // The first server is not closed, so the second one starts on the files of a killed process.
    let copy = tempfile::tempdir().unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(directory.path().join("collections"))
        .arg(copy.path())
        .status();
    assert!(copied.unwrap().success());
    let second = Running::start(&copy).await;
    assert_eq!(ask(&second).await, before);
}

#[test]
fn what_a_killed_server_had_not_finished_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("unfinished/segments")).unwrap();
    assert!(Store::open(directory.path()).unwrap().names().is_empty());
    assert!(!directory.path().join("unfinished").exists());
}
