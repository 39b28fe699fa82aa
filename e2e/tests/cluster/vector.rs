//! The profile `vector`: the collection, its points and queries as in the specification (2.6 and 4.4), directly on
//! the store and through the app's documents.
//!
//! Specification: 2.6, 4.4.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use shortener_e2e::{Answer, Hit, Qdrant, Stack, children_of, hits, kubectl, with_vector};

/// Returns three points. For the query `[2, 0, 0, 0]` their cosines are 1, 0.6 and 0, their dot products 2, 6 and
/// 0, and their distances 1, the root of 17 and the root of 8.
fn points() -> Value {
    json!([
        {"id": 1, "vector": [1, 0, 0, 0], "payload": {"title": "one", "category": "x"}},
        {"id": 2, "vector": [3, 4, 0, 0], "payload": {"title": "two", "category": "y"}},
        {"id": 3, "vector": [0, 0, 2, 0], "payload": {"title": "three", "category": "x"}},
    ])
}

fn documents() -> Vec<(Vec<f64>, Value)> {
    vec![
        (
            vec![1., 0., 0., 0.],
            json!({"title": "one", "category": "x"}),
        ),
        (
            vec![3., 4., 0., 0.],
            json!({"title": "two", "category": "y"}),
        ),
        (
            vec![0., 0., 2., 0.],
            json!({"title": "three", "category": "x"}),
        ),
    ]
}

/// Specification: 4.5, 2.6, 4.4.
#[tokio::test]
async fn points_of_a_collection_are_found_by_descending_cosine_with_their_payloads() -> Result<()> {
    in_a_collection("Cosine", async |store, name| {
        let search = json!({"vector": [2, 0, 0, 0], "limit": 2, "with_payload": true});
        let path = format!("/collections/{name}/points/search");
        let found = hits(&store.ask(Method::POST, &path, search).await?)?;
        Hit::are(&found, &[(1, 1.0), (2, 0.6)])?;
        assert_eq!(found[0].payload, json!({"title": "one", "category": "x"}));

        let query = json!({"query": [2, 0, 0, 0], "limit": 3});
        let path = format!("/collections/{name}/points/query");
        let found = hits(&store.ask(Method::POST, &path, query).await?["points"])?;
        Hit::are(&found, &[(1, 1.0), (2, 0.6), (3, 0.0)])?;
        assert_eq!(
            found[0].payload,
            Value::Null,
            "the query did not request the payload"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn only_points_that_match_the_filter_are_eligible() -> Result<()> {
    in_a_collection("Cosine", async |store, name| {
        let filter = json!({"must": [{"key": "category", "match": {"value": "y"}}]});
        let search = json!({"vector": [2, 0, 0, 0], "limit": 2, "filter": filter});
        let path = format!("/collections/{name}/points/search");
        let found = hits(&store.ask(Method::POST, &path, search).await?)?;
        Hit::are(&found, &[(2, 0.6)])
    })
    .await
}

#[tokio::test]
async fn the_other_distances_are_the_dot_product_and_euclid() -> Result<()> {
    let search = json!({"vector": [2, 0, 0, 0], "limit": 3});
    for (distance, expected) in [
        ("Dot", [(2, 6.0), (1, 2.0), (3, 0.0)]),
        ("Euclid", [(1, 1.0), (3, 8f64.sqrt()), (2, 17f64.sqrt())]),
    ] {
        in_a_collection(distance, async |store, name| {
            let path = format!("/collections/{name}/points/search");
            let found = store.ask(Method::POST, &path, search.clone()).await?;
            Hit::are(&hits(&found)?, &expected)
        })
        .await?;
    }
    Ok(())
}

/// Specification: 8, 2.6, 4.4.
#[tokio::test]
async fn all_vectors_of_a_collection_have_its_length() -> Result<()> {
    in_a_collection("Cosine", async |store, name| {
        let refused = async |method: Method, path: &str, body: Value| {
            let path = format!("/collections/{name}/{path}");
            let answer = store.send(method, &path, Some(&body)).await?;
            ensure!(
                answer.status == 400,
                "{path}: expected status 400, got {answer:?}"
            );
            Ok(())
        };
        let point = json!({"points": [{"id": 4, "vector": [1, 0, 0]}]});
        refused(Method::PUT, "points?wait=true", point).await?;
        let search = json!({"vector": [1, 0, 0, 0, 0], "limit": 1});
        refused(Method::POST, "points/search", search).await?;
        let query = json!({"query": [1, 0, 0], "limit": 1});
        refused(Method::POST, "points/query", query).await?;
        assert_eq!(store.count(name).await?, 3);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_stack_makes_its_collection_and_an_index_on_the_category() -> Result<()> {
    with_vector(async |shared| {
        let store = Qdrant::open(&shared.stack).await?;
        let info = store.collection("docs").await?;
        let vectors = &info["config"]["params"]["vectors"];
        assert_eq!(
            (&vectors["size"], &vectors["distance"]),
            (&json!(4), &json!("Cosine"))
        );
        assert_eq!(
            info["payload_schema"]["category"]["data_type"], "keyword",
            "{info}"
        );
        Ok(())
    })
    .await
}

/// Specification: 5.
#[tokio::test]
async fn the_store_wants_the_key_of_the_secret_and_no_gateway_leads_to_it() -> Result<()> {
    with_vector(async |shared| {
        let store = Qdrant::open(&shared.stack).await?;
        for path in ["/healthz", "/livez", "/readyz", "/"] {
            assert_eq!(store.http.get(path).await?.status, 200, "{path}");
        }
        assert_eq!(store.http.get("/collections/docs").await?.status, 401);
        let request = store.http.request(Method::GET, "/collections/docs");
        let wrong = store.http.send(request.header("api-key", "wrong")).await?;
        assert_eq!(wrong.status, 401, "{wrong:?}");
        for path in [
            "/collections",
            "/collections/docs",
            "/api/collections",
            "/qdrant",
        ] {
            let answer = shared.gateway.get(path).await?;
            assert_eq!(answer.status, 404, "{path}: {answer:?}");
        }
        for child in children_of(&shared.stack).await? {
            let routed = child.kind.kind == "Ingress"
                && serde_json::to_string(&child.seen)?.contains("qdrant");
            ensure!(
                !routed,
                "{} routes requests to the vector store",
                child.title()
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_document_is_stored_read_found_replaced_and_deleted() -> Result<()> {
    with_vector(async |shared| {
        let gateway = &shared.gateway;
        gateway.no_documents().await?;
        let payload = json!({"title": "one", "category": "x", "pages": 7});
        let put = gateway
            .put_document(1, &[3., 4., 0., 0.], payload.clone())
            .await?;
        says(&put, 201, "indexed")?;
        let document = gateway.get("/api/docs/1").await?.json()?;
        assert_eq!(
            document["vector"],
            json!([3.0, 4.0, 0.0, 0.0]),
            "{document}"
        );
        assert_eq!(document["payload"], payload, "{document}");
        ensure!(document["indexed_at"].is_string(), "{document}");

        let query = json!({"vector": [2, 0, 0, 0], "limit": 5, "with_payload": true});
        let found = gateway.find_documents(&query).await?;
        Hit::are(&found, &[(1, 0.6)])?;
        assert_eq!(found[0].payload, payload);

        says(
            &gateway
                .put_document(1, &[1., 0., 0., 0.], json!({}))
                .await?,
            200,
            "indexed",
        )?;
        let found = gateway.find_documents(&query).await?;
        Hit::are(&found, &[(1, 1.0)])?;
        assert_eq!(found[0].payload, json!({}));

        assert_eq!(gateway.delete_document(1).await?.status, 204);
        Hit::are(&gateway.find_documents(&query).await?, &[])?;
        assert_eq!(gateway.get("/api/docs/1").await?.status, 404);
        assert_eq!(gateway.delete_document(1).await?.status, 404);
        assert_eq!(Qdrant::open(&shared.stack).await?.count("docs").await?, 0);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn documents_are_found_by_descending_cosine_and_by_filter() -> Result<()> {
    with_vector(async |shared| {
        let gateway = &shared.gateway;
        gateway.only_documents(&documents(), 201).await?;
        let mut query = json!({"vector": [2, 0, 0, 0]});
        Hit::are(
            &gateway.find_documents(&query).await?,
            &[(1, 1.0), (2, 0.6), (3, 0.0)],
        )?;
        query["limit"] = json!(1);
        Hit::are(&gateway.find_documents(&query).await?, &[(1, 1.0)])?;
        query["filter"] = json!({"category": "y"});
        Hit::are(&gateway.find_documents(&query).await?, &[(2, 0.6)])?;
        query["filter"] = json!({"category": "x", "title": "three"});
        Hit::are(&gateway.find_documents(&query).await?, &[(3, 0.0)])?;
        query["filter"] = json!({"category": "z"});
        Hit::are(&gateway.find_documents(&query).await?, &[])
    })
    .await
}

#[tokio::test]
async fn a_document_or_query_of_another_length_is_refused() -> Result<()> {
    with_vector(async |shared| {
        let gateway = &shared.gateway;
        gateway.no_documents().await?;
        for vector in [vec![], vec![1., 0., 0.], vec![1., 0., 0., 0., 0.]] {
            names_the_vector(&gateway.put_document(1, &vector, json!({})).await?)?;
            let query = json!({"vector": vector, "limit": 1});
            names_the_vector(&gateway.post("/api/docs/query", &query).await?)?;
        }
        assert_eq!(gateway.get("/api/docs/1").await?.status, 404);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn collection_size_and_distance_cannot_change_while_the_profile_is_on() -> Result<()> {
    with_vector(async |shared| {
        for (field, value) in [
            ("collection", json!("other")),
            ("size", json!(8)),
            ("distance", json!("Dot")),
        ] {
            let refused = shared.stack.edit(json!({"vector": {field: value}})).await;
            let message = refused.err().map(|error| format!("{error:#}"));
            let message = message.unwrap_or_default();
            let expected = format!("vector.{field} cannot change while the profile is on");
            ensure!(message.contains(&expected), "{field}: {message:?}");
        }
        Ok(())
    })
    .await
}

/// Specification: 5.
#[tokio::test]
async fn the_key_is_in_no_argument_and_no_log_of_the_store() -> Result<()> {
    with_vector(async |shared| {
        let stack = &shared.stack;
        let key = stack.credential("acme-qdrant", "api-key").await?;
        ensure!(key.len() >= 16, "the key has fewer than 16 characters");
        for child in children_of(stack).await? {
            let shown = serde_json::to_string(&child.seen)?;
            let told = child.kind.kind != "Secret" && shown.contains(&key);
            ensure!(!told, "{} contains the key", child.title());
        }
        logs_nothing_of(stack, "statefulset/acme-qdrant", &key).await?;
        logs_nothing_of(stack, "deployment/acme-app", &key).await
    })
    .await
}

async fn logs_nothing_of(stack: &Stack, workload: &str, key: &str) -> Result<()> {
    let log = kubectl(stack, &["logs", workload, "--all-containers"]).await?;
    ensure!(!log.contains(key), "the key is in the log of {workload}");
    Ok(())
}

/// Runs a test on a new collection that holds the three points.
async fn in_a_collection(
    distance: &str,
    test: impl AsyncFnOnce(&Qdrant, &str) -> Result<()>,
) -> Result<()> {
    with_vector(async |shared| {
        let store = Qdrant::open(&shared.stack).await?;
        let name = format!("lab-{}", distance.to_lowercase());
        // An earlier run may have failed and left the collection.
        store
            .send(Method::DELETE, &format!("/collections/{name}"), None)
            .await?;
        store.create(&name, 4, distance).await?;
        store.upsert(&name, points()).await?;
        test(&store, &name).await?;
        store.drop(&name).await
    })
    .await
}

fn says(answer: &Answer, status: u16, word: &str) -> Result<()> {
    ensure!(
        answer.status == status,
        "expected status {status}, got {answer:?}"
    );
    ensure!(answer.json()?["status"] == word, "{answer:?}");
    Ok(())
}

/// Checks that a refusal names the length of the vector.
fn names_the_vector(answer: &Answer) -> Result<()> {
    ensure!(answer.status == 400, "expected status 400, got {answer:?}");
    ensure!(
        answer.json()?["errors"][0]["field"] == "vector",
        "{answer:?}"
    );
    Ok(())
}
