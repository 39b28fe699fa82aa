//! What people write about links: a title, tags and a note.

use serde_json::{Value, json};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};

use crate::{
    client::{post, post_bytes, send, shorten},
    management::{administer, manage, managed},
    support::{App, Blocker},
};

const URL: &str = "https://example.com/a?b=c";

fn labels_of(link: &Value) -> Value {
    json!({"title": link["title"], "tags": link["tags"], "note": link["note"]})
}

/// Returns the labels that management shows of a link.
async fn labels(app: &App, code: &str) -> Value {
    let shown = manage(app, "GET", &format!("/{code}"), None).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    labels_of(&shown.json())
}

/// Changes a link, and returns its new labels.
async fn patch(app: &App, body: Value) -> Value {
    let changed = manage(app, "PATCH", "/sale", Some(body)).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    labels_of(&changed.json())
}

/// Returns the numbers of rows with labels, with tags and with words.
async fn rows(database: &PgConnectOptions) -> [i64; 3] {
    let mut connection: PgConnection = database.connect().await.unwrap();
    let mut counts = [0; 3];
    for (count, statement) in counts.iter_mut().zip([
        "SELECT count(*) FROM link_labels",
        "SELECT count(*) FROM link_tags",
        "SELECT count(*) FROM link_title_words",
    ]) {
        *count = sqlx::query_scalar(statement)
            .fetch_one(&mut connection)
            .await
            .unwrap();
    }
    counts
}

#[tokio::test]
async fn a_link_is_created_with_labels_which_its_creator_does_not_get_back() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let body = json!({
        "url": URL, "code": "sale", "title": "Spring sale: 20 % off",
        "tags": ["Shop", " spring ", "SHOP"], "note": "Ordered by the shop.\nUntil May.",
    });
    let created = post(app.public, "/shorten", body.to_string()).await;
    assert_eq!(created.status, 201, "{created:?}");
    let created = created.json();
    let fields: Vec<&String> = created.as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        ["code", "created_at", "expires_at", "short_url", "url"]
    );
    let expected = json!({
        "title": "Spring sale: 20 % off", "tags": ["shop", "spring"], "note": "Ordered by the shop.\nUntil May.",
    });
    assert_eq!(labels(&app, "sale").await, expected);
    assert_eq!(rows(&database).await, [1, 2, 4]);
    let listed = manage(&app, "GET", "?tag=shop", None).await.json();
    assert_eq!(labels_of(&listed["links"][0]), expected);

    let taken = post(app.public, "/shorten", body.to_string()).await;
    taken.problem(409, "code-taken");
    let only_tags = shorten(app.public, json!({"url": URL, "tags": ["a"]})).await;
    assert_eq!(
        labels(&app, &only_tags).await,
        json!({"title": null, "tags": ["a"], "note": null})
    );
    assert_eq!(rows(&database).await, [1, 3, 4]);
    let bare = json!({"url": URL, "title": "", "tags": ["a,b"], "note": "\t"});
    let refused = post(app.public, "/shorten", bare.to_string()).await;
    let problem = refused.problem(400, "invalid-fields");
    let fields = problem["errors"].as_array().unwrap();
    let fields: Vec<&Value> = fields.iter().map(|fault| &fault["field"]).collect();
    assert_eq!(fields, ["title", "tags", "note"]);
}

#[tokio::test]
async fn a_link_that_is_reused_or_repeated_keeps_its_labels() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let with = |title: &str| json!({"url": URL, "reuse": true, "title": title});
    let code = shorten(app.public, with("first")).await;
    let reused = post(app.public, "/shorten", with("second").to_string()).await;
    assert_eq!((reused.status, &reused.json()["code"]), (200, &json!(code)));
    assert_eq!(labels(&app, &code).await["title"], "first");
    let once = async |body: &Value| {
        let text = body.to_string();
        let bytes = post_bytes("/shorten", "idempotency-key: 1\r\n", text.as_bytes());
        send(app.public, bytes).await
    };
    let body = json!({"url": "https://example.com/2", "tags": ["a"]});
    let created = once(&body).await;
    assert_eq!(created.status, 201);
    assert_eq!(once(&body).await.json(), created.json());
    let other = json!({"url": "https://example.com/2", "tags": ["b"]});
    once(&other).await.problem(422, "idempotency-key-reused");
    let code = created.json()["code"].as_str().unwrap().to_owned();
    assert_eq!(labels(&app, &code).await["tags"], json!(["a"]));
}

#[tokio::test]
async fn many_links_are_created_with_labels() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let links = json!([
        {"url": URL, "code": "one", "title": "One"},
        {"url": URL, "code": "two", "tags": 7},
        {"url": URL, "code": "three", "tags": ["x"]},
    ]);
    let response = manage(&app, "POST", "", Some(json!({"links": links}))).await;
    let results = response.json();
    let results = results["results"].as_array().unwrap();
    let statuses = results
        .iter()
        .map(|result| result["status"].as_u64().unwrap());
    assert!(statuses.eq([201, 400, 201]), "{results:?}");
    assert_eq!(labels(&app, "one").await["title"], "One");
    assert_eq!(labels(&app, "three").await["tags"], json!(["x"]));
}

#[tokio::test]
async fn labels_change_one_by_one_and_the_audit_log_names_the_fields_only() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    shorten(app.public, json!({"url": URL, "code": "sale"})).await;
    let mut expected = json!({"title": "A", "tags": [], "note": null});
    assert_eq!(patch(&app, json!({"title": "A"})).await, expected);
    expected["tags"] = json!(["x", "y"]);
    let tags = json!({"tags": ["y", "X"], "reason": "ticket 7"});
    assert_eq!(patch(&app, tags.clone()).await, expected);
    // Nothing changes.
    assert_eq!(patch(&app, tags).await, expected);
    expected["note"] = json!("secret");
    let note = json!({"note": "secret", "title": "A", "ttl_seconds": 60});
    assert_eq!(patch(&app, note).await, expected);
    let nothing = json!({"title": null, "tags": null, "note": null});
    assert_eq!(patch(&app, nothing.clone()).await, nothing_left());
    assert_eq!(rows(&database).await, [0, 0, 0]);

    let log = administer(&app, "GET", "/api/admin/audit?subject=sale", None).await;
    assert!(!log.text().contains("secret"));
    let log = log.json();
    let entries = log["entries"].as_array().unwrap();
    let fields = |entry: &Value| entry["detail"]["fields"].clone();
    let found: Vec<(&Value, Value)> = entries
        .iter()
        .map(|entry| (&entry["action"], fields(entry)))
        .collect();
    let (labels, expiry) = (json!("link_labels_changed"), json!("link_expiry_changed"));
    assert_eq!(
        found,
        [
            (&labels, json!(["title", "tags", "note"])),
            (&labels, json!(["note"])),
            (&expiry, Value::Null),
            (&labels, json!(["tags"])),
            (&labels, json!(["title"])),
        ]
    );
    assert_eq!(entries[3]["reason"], "ticket 7");
}

fn nothing_left() -> Value {
    json!({"title": null, "tags": [], "note": null})
}

#[tokio::test]
async fn a_change_of_labels_needs_no_removal_from_the_cache() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    shorten(app.public, json!({"url": URL, "code": "sale"})).await;
    let changed = manage(&app, "PATCH", "/sale", Some(json!({"title": "A"}))).await;
    assert_eq!(changed.json().get("purged"), None);
    let mut connection = database.connect().await.unwrap();
    let due = "SELECT count(*) FROM links WHERE purge_due_at IS NOT NULL";
    let due = sqlx::query_scalar::<_, i64>(due).fetch_one(&mut connection);
    assert_eq!(due.await.unwrap(), 0);
    let both = json!({"title": "B", "expires_at": null});
    let changed = manage(&app, "PATCH", "/sale", Some(both)).await;
    assert_eq!(changed.json()["purged"], true);
}

#[tokio::test]
async fn labels_last_as_long_as_the_destination() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let full = json!({"url": URL, "code": "sale", "title": "A", "tags": ["a"], "note": "b", "ttl_seconds": 60});
    shorten(app.public, full).await;
    let mut connection = database.connect().await.unwrap();
    let expire = "UPDATE links SET expires_at = now() - interval '1 second'";
    connection.execute(expire).await.unwrap();
    assert_eq!(patch(&app, json!({"title": "B"})).await["title"], "B");
    let both = json!({"title": "C", "expires_at": null});
    let refused = manage(&app, "PATCH", "/sale", Some(both)).await;
    refused.problem(409, "link-gone");
    assert_eq!(
        labels(&app, "sale").await["title"],
        "B",
        "nothing of it was made"
    );

    manage(&app, "DELETE", "/sale", None).await;
    assert_eq!(labels(&app, "sale").await, nothing_left());
    assert_eq!(rows(&database).await, [0, 0, 0]);
    let refused = manage(&app, "PATCH", "/sale", Some(json!({"title": "D"}))).await;
    refused.problem(409, "link-gone");
    let missing = manage(&app, "PATCH", "/none", Some(json!({"title": "D"}))).await;
    missing.problem(404, "not-found");
}

#[tokio::test]
async fn a_tombstone_takes_no_labels_because_no_purge_would_remove_them() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let mut connection = database.connect().await.unwrap();
    let tombstone = "INSERT INTO links (code, expires_at) VALUES ('sale', now())";
    connection.execute(tombstone).await.unwrap();
    let refused = manage(&app, "PATCH", "/sale", Some(json!({"title": "A"}))).await;
    refused.problem(409, "link-gone");
}

#[tokio::test]
async fn a_change_that_waits_for_another_one_sees_its_labels() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    shorten(
        app.public,
        json!({"url": URL, "code": "sale", "title": "A"}),
    )
    .await;
    let mut other = database.connect().await.unwrap();
    let change = "BEGIN; SELECT FROM links WHERE code = 'sale' FOR UPDATE; UPDATE link_labels SET title = 'B'";
    other.execute(change).await.unwrap();
    let mut blocker = Blocker::of_nothing(&database).await;
    let release = async {
        blocker.wait_until_blocked().await;
        other.execute("COMMIT").await.unwrap();
    };
    let (changed, ()) = tokio::join!(patch(&app, json!({"title": "A"})), release);
    assert_eq!(changed["title"], "A");
    assert_eq!(labels(&app, "sale").await["title"], "A");
}
