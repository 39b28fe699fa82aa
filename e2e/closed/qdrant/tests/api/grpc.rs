//! The gRPC API through Qdrant's own client.

use qdrant_client::{
    Payload, Qdrant, QdrantError,
    qdrant::{
        Condition, CountPointsBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder,
        DeleteFieldIndexCollectionBuilder, DeletePointsBuilder, Distance, FieldType, Filter,
        GetPointsBuilder, PayloadSchemaType, PointId, PointStruct, PrefetchQueryBuilder, Query,
        QueryPointsBuilder, Range, RetrievedPoint, ScoredPoint, ScrollPointsBuilder,
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
    let payload = json!({
        "category": category,
        "rank": id,
        "even": id.is_multiple_of(2),
        "tags": ["a", null],
        "nested": {"deep": 1.5},
    });
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

fn scores(points: &[ScoredPoint]) -> Vec<(u64, f32)> {
    points
        .iter()
        .map(|point| (number(point.id.as_ref()), point.score))
        .collect()
}

fn ids(points: &[RetrievedPoint]) -> Vec<u64> {
    points
        .iter()
        .map(|point| number(point.id.as_ref()))
        .collect()
}

fn number(id: Option<&PointId>) -> u64 {
    match id.and_then(|id| id.point_id_options.as_ref()) {
        Some(PointIdOptions::Num(number)) => *number,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_the_key_nothing_is_answered() {
    let setup = setup().await;
    let stranger = setup.running.client(Some("other"));
    assert_eq!(
        code(stranger.collection_info("docs").await),
        (Code::Unauthenticated, "Invalid API key or JWT".to_owned())
    );
    let nobody = setup.running.client(None);
    assert_eq!(
        code(nobody.query(QueryPointsBuilder::new("docs")).await).0,
        Code::Unauthenticated
    );
}

#[tokio::test]
async fn a_collection_is_made_and_described() {
    let setup = setup().await;
    let client = &setup.client;
    assert_eq!(code(client.collection_info("docs").await).0, Code::NotFound);
    create(client, Distance::Euclid).await.unwrap();
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
        json!({
            "category": "y", "rank": 2, "even": true, "tags": ["a", null], "nested": {"deep": 1.5},
        })
    );
}

#[tokio::test]
async fn distances_ascend() {
    let setup = with_points(Distance::Euclid).await;
    let query = QueryPointsBuilder::new("docs").query(vec![2f32, 0., 0., 0.]);
    let found = setup.client.query(query).await.unwrap().result;
    assert_eq!(
        scores(&found),
        [(1, 1.0), (3, 8f32.sqrt()), (2, 17f32.sqrt())]
    );
}

async fn found_with(client: &Qdrant, conditions: Vec<Condition>) -> Vec<u64> {
    let query = QueryPointsBuilder::new("docs")
        .query(vec![2f32, 0., 0., 0.])
        .filter(Filter::must(conditions));
    let found = client.query(query).await.unwrap().result;
    let mut found: Vec<_> = scores(&found).iter().map(|hit| hit.0).collect();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn filters_decide_who_may_be_found() {
    let setup = with_points(Distance::Dot).await;
    let category = || Condition::matches("category", "x".to_owned());
    for (conditions, wanted) in [
        (vec![category()], vec![1, 3]),
        (vec![Condition::matches("rank", 2i64)], vec![2]),
        (vec![Condition::matches("even", false)], vec![1, 3]),
        (vec![category(), Condition::matches("rank", 3i64)], vec![3]),
    ] {
        let found = found_with(&setup.client, conditions.clone()).await;
        assert_eq!(found, wanted, "{conditions:?}");
    }
}

#[tokio::test]
async fn an_index_on_a_field_changes_no_answer() {
    let setup = with_points(Distance::Dot).await;
    let conditions = vec![Condition::matches("category", "x".to_owned())];
    let index =
        CreateFieldIndexCollectionBuilder::new("docs", "category", FieldType::Keyword).wait(true);
    setup.client.create_field_index(index).await.unwrap();
    assert_eq!(found_with(&setup.client, conditions).await, [1, 3]);
}

#[tokio::test]
async fn points_are_scrolled_through_and_deleted() {
    let setup = with_points(Distance::Dot).await;
    let client = &setup.client;
    let scroll = ScrollPointsBuilder::new("docs")
        .limit(2)
        .with_payload(false)
        .with_vectors(false);
    let page = client.scroll(scroll.clone()).await.unwrap();
    assert_eq!(ids(&page.result), [1, 2]);
    let next = scroll.clone().offset(page.next_page_offset.unwrap());
    let page = client.scroll(next).await.unwrap();
    assert_eq!(ids(&page.result), [3]);
    assert_eq!(page.next_page_offset, None);

    let delete = DeletePointsBuilder::new("docs").points([1u64, 9]);
    client.delete_points(delete.wait(true)).await.unwrap();
    assert_eq!(ids(&client.scroll(scroll).await.unwrap().result), [2, 3]);
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
        code(
            client
                .delete_points(DeletePointsBuilder::new("other").points([1u64]))
                .await
        ),
        (
            Code::NotFound,
            "Not found: Collection `other` doesn't exist!".to_owned()
        )
    );
}

#[tokio::test]
async fn a_method_that_nobody_calls_is_refused_aloud() {
    let setup = with_points(Distance::Cosine).await;
    let client = &setup.client;
    let refused = |method: &str| {
        let message = format!("the stand-in for Qdrant does not know the method {method}");
        (Code::Unimplemented, message)
    };
    let list = client.list_collections().await;
    assert_eq!(code(list), refused("list"));
    let exists = client.collection_exists("docs").await;
    assert_eq!(code(exists), refused("collection_exists"));
    let delete = client.delete_collection("docs").await;
    assert_eq!(code(delete), refused("delete"));
    let index = DeleteFieldIndexCollectionBuilder::new("docs", "category");
    let index = client.delete_field_index(index).await;
    assert_eq!(code(index), refused("delete_field_index"));
    let count = client.count(CountPointsBuilder::new("docs")).await;
    assert_eq!(code(count), refused("count"));
    let get = GetPointsBuilder::new("docs", vec![1.into()]);
    assert_eq!(code(client.get_points(get).await), refused("get"));
    let search = SearchPointsBuilder::new("docs", vec![1f32, 0., 0., 0.], 1);
    let search = client.search_points(search).await;
    assert_eq!(code(search), refused("search"));
    let set = SetPayloadPointsBuilder::new("docs", Payload::new());
    let set = client.set_payload(set).await;
    assert_eq!(code(set), refused("set_payload"));
    let health = client.health_check().await;
    assert_eq!(code(health).0, Code::Unimplemented);
}

#[tokio::test]
async fn a_query_in_another_form_is_refused_aloud() {
    let setup = with_points(Distance::Cosine).await;
    let empty = || QueryPointsBuilder::new("docs");
    let query = || empty().query(vec![1f32, 0., 0., 0.]);
    let category = || Condition::matches("category", "x".to_owned());
    let any = Condition::matches("category", vec!["x".to_owned(), "y".to_owned()]);
    let range = Condition::range("rank", Range::default());
    for query in [
        empty(),
        empty().query(Query::new_nearest(1)),
        query().add_prefetch(PrefetchQueryBuilder::default().query(vec![1f32, 0., 0., 0.])),
        query().score_threshold(0.5f32),
        query().offset(1),
        query().with_vectors(true),
        query().filter(Filter::must_not([category()])),
        query().filter(Filter::should([category()])),
        query().filter(Filter::must([any])),
        query().filter(Filter::must([range])),
        query().filter(Filter::must([Condition::is_empty("title")])),
    ] {
        let query = query.build();
        assert_eq!(
            code(setup.client.query(query.clone()).await).0,
            Code::Unimplemented,
            "{query:?}"
        );
    }
}

#[tokio::test]
async fn any_other_request_in_another_form_is_refused_aloud() {
    let setup = with_points(Distance::Cosine).await;
    let client = &setup.client;
    let sharded = CreateCollectionBuilder::new("other")
        .vectors_config(VectorParamsBuilder::new(4, Distance::Dot))
        .shard_number(2);
    let created = client.create_collection(sharded).await;
    assert_eq!(code(created).0, Code::Unimplemented);
    let number = CreateFieldIndexCollectionBuilder::new("docs", "rank", FieldType::Integer);
    let indexed = client.create_field_index(number).await;
    assert_eq!(code(indexed).0, Code::Unimplemented);
    let filter = Filter::must([Condition::matches("category", "x".to_owned())]);
    let delete = DeletePointsBuilder::new("docs").points(filter.clone());
    let deleted = client.delete_points(delete).await;
    assert_eq!(code(deleted).0, Code::Unimplemented);
    for scroll in [
        ScrollPointsBuilder::new("docs").filter(filter),
        ScrollPointsBuilder::new("docs").with_vectors(true),
    ] {
        let page = client.scroll(scroll).await;
        assert_eq!(code(page).0, Code::Unimplemented);
    }
}
