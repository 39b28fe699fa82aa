//! The gRPC API through Qdrant's own client.

use qdrant_client::{
    Payload, Qdrant, QdrantError,
    qdrant::{
        Condition, CountPointsBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder,
        DeletePointsBuilder, Distance, FieldType, Filter, GetPointsBuilder, PayloadSchemaType,
        PointStruct, PrefetchQueryBuilder, Query, QueryPointsBuilder, ScrollPointsBuilder,
        SearchPointsBuilder, SetPayloadPointsBuilder, UpsertPointsBuilder, VectorParamsBuilder,
        point_id::PointIdOptions, vectors_config::Config,
    },
};
use serde_json::json;
use tempfile::TempDir;
use tonic::Code;

use crate::setup::{KEY, Running};

struct Setup {
    client: Qdrant,
    running: Running,
    _directory: TempDir,
}

async fn setup() -> Setup {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(&directory).await;
    Setup {
        client: running.client(Some(KEY)),
        running,
        _directory: directory,
    }
}

async fn create(client: &Qdrant, distance: Distance) -> Result<(), QdrantError> {
    let vectors = VectorParamsBuilder::new(4, distance);
    client
        .create_collection(CreateCollectionBuilder::new("docs").vectors_config(vectors))
        .await
        .map(drop)
}

fn point(id: u64, vector: [f32; 4], category: &str) -> PointStruct {
    let payload =
        json!({"category": category, "rank": id, "tags": ["a", null], "nested": {"deep": 1.5}});
    PointStruct::new(id, vector.to_vec(), Payload::try_from(payload).unwrap())
}

async fn with_points(distance: Distance) -> Setup {
    let setup = setup().await;
    create(&setup.client, distance).await.unwrap();
    let points = vec![
        point(1, [1., 0., 0., 0.], "x"),
        point(2, [3., 4., 0., 0.], "y"),
        point(3, [0., 0., 2., 0.], "x"),
    ];
    setup
        .client
        .upsert_points(UpsertPointsBuilder::new("docs", points).wait(true))
        .await
        .unwrap();
    setup
}

fn code<T: std::fmt::Debug>(result: Result<T, QdrantError>) -> (Code, String) {
    match result {
        Err(QdrantError::ResponseError { status }) => (status.code(), status.message().to_owned()),
        other => panic!("{other:?}"),
    }
}

fn scores(points: &[qdrant_client::qdrant::ScoredPoint]) -> Vec<(u64, f32)> {
    points
        .iter()
        .map(|point| (number(point.id.as_ref()), point.score))
        .collect()
}

fn number(id: Option<&qdrant_client::qdrant::PointId>) -> u64 {
    match id.and_then(|id| id.point_id_options.as_ref()) {
        Some(PointIdOptions::Num(number)) => *number,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_the_key_only_health_is_answered() {
    let setup = setup().await;
    let stranger = setup.running.client(Some("other"));
    assert_eq!(
        stranger.health_check().await.unwrap().version,
        qdrant_stand_in::VERSION
    );
    assert_eq!(
        code(stranger.list_collections().await),
        (Code::Unauthenticated, "Invalid API key or JWT".to_owned())
    );
    let nobody = setup.running.client(None);
    assert_eq!(
        code(nobody.query(QueryPointsBuilder::new("docs")).await).0,
        Code::Unauthenticated
    );
}

#[tokio::test]
async fn a_collection_is_made_described_and_deleted() {
    let setup = setup().await;
    let client = &setup.client;
    assert!(!client.collection_exists("docs").await.unwrap());
    create(client, Distance::Euclid).await.unwrap();
    assert!(client.collection_exists("docs").await.unwrap());
    assert_eq!(
        code(create(client, Distance::Euclid).await),
        (
            Code::AlreadyExists,
            "Wrong input: Collection `docs` already exists!".to_owned()
        )
    );
    let index =
        CreateFieldIndexCollectionBuilder::new("docs", "category", FieldType::Keyword).wait(true);
    client.create_field_index(index.clone()).await.unwrap();
    client.create_field_index(index).await.unwrap();

    let info = client
        .collection_info("docs")
        .await
        .unwrap()
        .result
        .unwrap();
    let vectors = info
        .config
        .unwrap()
        .params
        .unwrap()
        .vectors_config
        .unwrap()
        .config
        .unwrap();
    let Config::Params(vectors) = vectors else {
        panic!("{vectors:?}")
    };
    assert_eq!((vectors.size, vectors.distance()), (4, Distance::Euclid));
    assert_eq!(
        info.payload_schema["category"].data_type(),
        PayloadSchemaType::Keyword
    );
    assert_eq!(info.points_count, Some(0));

    assert!(client.delete_collection("docs").await.unwrap().result);
    assert!(!client.delete_collection("docs").await.unwrap().result);
    assert_eq!(code(client.collection_info("docs").await).0, Code::NotFound);
    assert!(
        client
            .list_collections()
            .await
            .unwrap()
            .collections
            .is_empty()
    );
}

#[tokio::test]
async fn the_nearest_come_first_with_their_payloads() {
    let setup = with_points(Distance::Cosine).await;
    let query = QueryPointsBuilder::new("docs")
        .query(vec![2., 0., 0., 0.])
        .limit(2)
        .with_payload(true);
    let found = setup.client.query(query).await.unwrap().result;
    assert_eq!(scores(&found), [(1, 1.0), (2, 0.6)]);
    let payload = serde_json::Value::from(Payload::from(found[1].payload.clone()));
    assert_eq!(
        payload,
        json!({"category": "y", "rank": 2, "tags": ["a", null], "nested": {"deep": 1.5}})
    );
}

#[tokio::test]
async fn distances_ascend() {
    let setup = with_points(Distance::Euclid).await;
    let search = SearchPointsBuilder::new("docs", vec![2., 0., 0., 0.], 3);
    let found = setup.client.search_points(search).await.unwrap().result;
    assert_eq!(
        scores(&found),
        [(1, 1.0), (3, 8f32.sqrt()), (2, 17f32.sqrt())]
    );
}

#[tokio::test]
async fn filters_decide_who_may_be_found() {
    let setup = with_points(Distance::Dot).await;
    for (filter, wanted) in [
        (
            Filter::must([Condition::matches("category", "x".to_owned())]),
            vec![1, 3],
        ),
        (
            Filter::must_not([Condition::matches("category", "x".to_owned())]),
            vec![2],
        ),
        (
            Filter::should([Condition::matches("rank", 3), Condition::has_id([2])]),
            vec![2, 3],
        ),
        (
            Filter::must([Condition::matches(
                "category",
                vec!["y".to_owned(), "z".to_owned()],
            )]),
            vec![2],
        ),
        (
            Filter::must([Condition::range(
                "rank",
                qdrant_client::qdrant::Range {
                    gte: Some(2.0),
                    ..Default::default()
                },
            )]),
            vec![2, 3],
        ),
        (Filter::must([Condition::is_empty("title")]), vec![1, 2, 3]),
    ] {
        let query = QueryPointsBuilder::new("docs")
            .query(vec![2., 0., 0., 0.])
            .filter(filter.clone());
        let mut found: Vec<_> = scores(&setup.client.query(query).await.unwrap().result)
            .iter()
            .map(|hit| hit.0)
            .collect();
        found.sort_unstable();
        assert_eq!(found, wanted, "{filter:?}");
        let count = CountPointsBuilder::new("docs")
            .filter(filter.clone())
            .exact(true);
        assert_eq!(
            setup
                .client
                .count(count)
                .await
                .unwrap()
                .result
                .unwrap()
                .count,
            wanted.len() as u64,
            "{filter:?}"
        );
    }
}

#[tokio::test]
async fn points_are_fetched_scrolled_through_and_deleted() {
    let setup = with_points(Distance::Dot).await;
    let client = &setup.client;
    let get = GetPointsBuilder::new("docs", vec![2.into(), 9.into()]).with_vectors(true);
    let found = client.get_points(get).await.unwrap().result;
    assert_eq!(found.len(), 1);
    let vector = found[0].vectors.clone().unwrap().get_vector().unwrap();
    assert_eq!(
        format!("{vector:?}"),
        "Dense(DenseVector { data: [3.0, 4.0, 0.0, 0.0] })"
    );

    let page = client
        .scroll(ScrollPointsBuilder::new("docs").limit(2))
        .await
        .unwrap();
    assert_eq!(
        page.result
            .iter()
            .map(|point| number(point.id.as_ref()))
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(number(page.next_page_offset.as_ref()), 3);

    client
        .delete_points(
            DeletePointsBuilder::new("docs")
                .points([1u64, 9])
                .wait(true),
        )
        .await
        .unwrap();
    let x = Filter::must([Condition::matches("category", "x".to_owned())]);
    client
        .delete_points(DeletePointsBuilder::new("docs").points(x).wait(true))
        .await
        .unwrap();
    let left = client
        .scroll(ScrollPointsBuilder::new("docs"))
        .await
        .unwrap();
    assert_eq!(
        left.result
            .iter()
            .map(|point| number(point.id.as_ref()))
            .collect::<Vec<_>>(),
        [2]
    );
}

#[tokio::test]
async fn requests_that_do_not_fit_are_refused() {
    let setup = with_points(Distance::Cosine).await;
    let client = &setup.client;
    let short = PointStruct::new(9, vec![1f32, 0., 0.], Payload::new());
    let wrong = "Wrong input: Vector dimension error: expected dim: 4, got 3".to_owned();
    assert_eq!(
        code(
            client
                .upsert_points(UpsertPointsBuilder::new("docs", vec![short]))
                .await
        ),
        (Code::InvalidArgument, wrong.clone())
    );
    let query = QueryPointsBuilder::new("docs").query(vec![1f32, 0., 0.]);
    assert_eq!(
        code(client.query(query).await),
        (Code::InvalidArgument, wrong)
    );
    let query = QueryPointsBuilder::new("docs")
        .query(vec![1f32, 0., 0., 0.])
        .limit(0);
    assert_eq!(code(client.query(query).await).0, Code::InvalidArgument);
    assert_eq!(
        code(client.count(CountPointsBuilder::new("other")).await),
        (
            Code::NotFound,
            "Not found: Collection `other` doesn't exist!".to_owned()
        )
    );
}

#[tokio::test]
async fn what_is_not_known_is_refused_aloud() {
    let setup = with_points(Distance::Cosine).await;
    let client = &setup.client;
    let prefetch = PrefetchQueryBuilder::default().query(vec![1f32, 0., 0., 0.]);
    let query = QueryPointsBuilder::new("docs")
        .query(vec![1f32, 0., 0., 0.])
        .add_prefetch(prefetch);
    assert_eq!(code(client.query(query).await).0, Code::Unimplemented);
    let query = QueryPointsBuilder::new("docs").query(Query::new_nearest(1));
    assert_eq!(code(client.query(query).await).0, Code::Unimplemented);
    let set = SetPayloadPointsBuilder::new("docs", Payload::new());
    assert_eq!(
        code(client.set_payload(set).await),
        (
            Code::Unimplemented,
            "the stand-in for Qdrant does not know the method set_payload".to_owned()
        )
    );
    let sharded = CreateCollectionBuilder::new("other")
        .vectors_config(VectorParamsBuilder::new(4, Distance::Dot))
        .shard_number(2);
    assert_eq!(
        code(client.create_collection(sharded).await).0,
        Code::Unimplemented
    );
}
