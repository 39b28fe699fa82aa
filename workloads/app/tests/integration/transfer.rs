//! The export and the import of links.

use jiff::Timestamp;
use serde_json::{Value, json};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, postgres::PgConnectOptions};

use crate::{
    cache::{assert_redirects, cache_is_up},
    cache_server::Redis,
    client::{Response, get, shorten},
    management::{Keys, administer, import, manage, managed},
    support::App,
};

const URL: &str = "https://example.com/a?b=c";

/// Links of every kind, in the order of their codes: live with all that a link can carry, with an expiry, expired before
/// and after the purge, disabled in both ways, disabled and purged, deleted, with arguments, and one with nothing but
/// its destination.
const LINKS: [&str; 5] = [
    "INSERT INTO links (code, url, host, created_at, expires_at, created_by) VALUES \
    ('-', 'http://b.example', 'b.example', '2020-01-01T00:00:00.000001Z', NULL, NULL), \
    ('Live', 'https://Bücher.example./x?y=\"z\"', 'xn--bcher-kva.example', '2026-01-31T12:00:00.123456Z', NULL, 'shop'), \
    ('Live2', 'https://example.com/', 'example.com', '2026-01-31T12:00:00Z', '2030-01-01T00:00:00Z', 'shop'), \
    ('expired', 'https://example.com/', 'example.com', '2024-01-31T12:00:00Z', '2025-01-01T00:00:00Z', NULL), \
    ('purged', NULL, 'example.com', '2024-01-31T12:00:00Z', '2025-01-01T00:00:00Z', NULL)",
    "INSERT INTO links (code, url, disabled_url, host, created_at, expires_at, disabled_at, disabled_as, disabled_by, reason, notice) VALUES \
    ('gone', NULL, 'https://example.com/g', 'example.com', '2024-01-31T12:00:00Z', NULL, '2025-01-01T00:00:00Z', 'gone', 'desk', 'phishing', NULL), \
    ('legal', NULL, 'https://example.com/l', 'example.com', '2024-01-31T12:00:00Z', NULL, '2025-01-01T00:00:00Z', 'legal', 'desk', 'order 9', 'By order'), \
    ('legal_purged', NULL, NULL, 'example.com', '2024-01-31T12:00:00Z', '2025-01-01T00:00:00Z', '2024-06-01T00:00:00Z', 'legal', NULL, NULL, NULL), \
    ('removed', NULL, NULL, NULL, '2024-01-31T12:00:00Z', NULL, '2025-01-01T00:00:00.5Z', 'deleted', 'desk', 'ticket 7', NULL)",
    "INSERT INTO links (code, url, host, created_at, is_template) VALUES \
    ('template', 'https://example.com/{1}', 'example.com', '2024-01-31T12:00:00Z', true)",
    "WITH labels AS (INSERT INTO link_labels (code, title, note) VALUES ('Live', 'Größe & more', E'two\\nlines'), \
    ('Live2', NULL, 'only a note')) INSERT INTO link_tags (tag, created_at, code) SELECT tag, created_at, code FROM links, \
    unnest(ARRAY['b', 'a', 'größe']) tag WHERE code = 'Live'",
    "INSERT INTO clicks (code, day, people, bots) VALUES ('Live', '2026-02-02', 7, 0), ('Live', '2026-02-01', 3, 9000000000), \
    ('Live2', '2026-02-01', 0, 1), ('gone', '2024-12-31', 5, 5), ('nobody', '2024-12-31', 5, 5)",
];

async fn execute(database: &PgConnectOptions, statement: &'static str) {
    let mut connection = database.connect().await.unwrap();
    connection.execute(statement).await.unwrap();
}

async fn page(app: &App, query: &str) -> Response {
    let path = format!("/api/admin/export/links{query}");
    let page = administer(app, "GET", &path, None).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(page.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    page
}

/// Returns the query of the next page.
fn next(page: &Response) -> Option<String> {
    let link = page.header("link")?;
    let target = link.strip_prefix("</api/admin/export/links");
    let query = target.and_then(|rest| rest.strip_suffix(">; rel=\"next\""));
    Some(query.unwrap_or_else(|| panic!("{link}")).to_owned())
}

/// Returns the pages of an export.
async fn pages(app: &App, limit: usize) -> Vec<String> {
    let mut query = Some(format!("?limit={limit}"));
    let mut pages = Vec::new();
    while let Some(at) = query {
        let page = page(app, &at).await;
        query = next(&page);
        pages.push(page.text());
    }
    pages
}

/// Imports lines, and returns the response.
async fn imported(app: &App, query: &str, lines: &str) -> Value {
    let response = import(app, query, lines).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("cache-control"), Some("no-store"));
    response.json()
}

/// Returns the counts of an import: created, unchanged, conflict and invalid.
fn counts(response: &Value) -> [u64; 4] {
    ["created", "unchanged", "conflict", "invalid"].map(|name| response[name].as_u64().unwrap())
}

/// Returns the results of an import.
fn words(response: &Value) -> Vec<&str> {
    let results = response["results"].as_array().unwrap().iter();
    results
        .map(|result| result["result"].as_str().unwrap())
        .collect()
}

fn line(code: &str, url: &str) -> String {
    json!({"code": code, "url": url, "created_at": "2026-01-31T12:00:00Z"}).to_string()
}

#[tokio::test]
async fn an_export_of_links_of_every_kind_is_equal_after_its_import_elsewhere() {
    let (database, elsewhere) = (TestDatabase::new().await, TestDatabase::new().await);
    let (app, _keys) = managed(&database).await;
    for links in LINKS {
        execute(&database, links).await;
    }
    let text = pages(&app, 1000).await.concat();
    assert_eq!(text.lines().count(), 10);
    let live: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    let expected = json!({
        "code": "Live", "url": "https://Bücher.example./x?y=\"z\"", "host": "xn--bcher-kva.example",
        "created_by": "shop", "created_at": "2026-01-31T12:00:00.123456Z", "expires_at": null, "disabled": null,
        "title": "Größe & more", "tags": ["a", "b", "größe"], "note": "two\nlines",
        "clicks": [{"day": "2026-02-01", "people": 3, "bots": 9_000_000_000_u64}, {"day": "2026-02-02", "people": 7, "bots": 0}],
    });
    assert_eq!(live, expected);

    let (other, _keys) = managed(&elsewhere).await;
    let result = imported(&other, "", &text).await;
    assert_eq!(counts(&result), [10, 0, 0, 0], "{result}");
    assert_eq!(pages(&other, 1000).await.concat(), text);
    // Lists and the search read these.
    let mut connection = elsewhere.connect().await.unwrap();
    let words = "SELECT word FROM link_title_words WHERE code = 'Live' AND created_at = '2026-01-31T12:00:00.123456Z' ORDER BY word";
    let words: Vec<String> = sqlx::query_scalar(words)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(words, ["größe", "more"]);
    for (code, status) in [
        ("Live2", 302),
        ("expired", 410),
        ("purged", 410),
        ("gone", 410),
        ("legal", 451),
        ("removed", 410),
    ] {
        assert_eq!(
            get(other.public, &format!("/{code}")).await.status,
            status,
            "{code}"
        );
    }
    assert_eq!(
        manage(&other, "POST", "/gone/enable", None).await.status,
        200
    );
    assert_redirects(&get(other.public, "/gone").await, "https://example.com/g");

    let again = imported(&other, "", &text).await;
    assert_eq!(
        counts(&again),
        [0, 10, 0, 0],
        "a change since makes no difference: {again}"
    );
}

#[tokio::test]
async fn a_page_ends_at_its_limit_and_the_pages_have_every_link_once() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    assert_eq!(pages(&app, 1000).await, [""]);
    for links in LINKS {
        execute(&database, links).await;
    }
    let whole = page(&app, "").await;
    assert_eq!(next(&whole), None);
    for (limit, count) in [(1, 11), (2, 6), (4, 3), (9, 2), (11, 1)] {
        let parts = pages(&app, limit).await;
        assert_eq!(parts.len(), count, "{limit}");
        assert_eq!(parts.concat(), whole.text());
    }
    let behind = page(&app, "?after=legal").await.text();
    assert_eq!(behind.lines().count(), 4, "{behind}");
    for query in [
        "?limit=0",
        "?limit=1001",
        "?after=",
        "?after=a%2Fb",
        "?skip=1",
        "?limit=1&limit=1",
    ] {
        let path = format!("/api/admin/export/links{query}");
        let refused = administer(&app, "GET", &path, None).await;
        refused.problem(400, "invalid-fields");
    }
}

#[tokio::test]
async fn a_page_of_long_links_or_many_days_is_bounded_and_fits_a_request() {
    let (database, elsewhere) = (TestDatabase::new().await, TestDatabase::new().await);
    let (app, _keys) = managed(&database).await;
    execute(&database, "INSERT INTO links (code, url, host, created_at) SELECT 'long' || n, \
        'https://example.com/' || repeat('x', 2000), 'example.com', '2026-01-31T12:00:00Z' FROM generate_series(1, 300) n").await;
    execute(
        &database,
        "INSERT INTO clicks SELECT 'long' || n, '2025-01-01'::date + day, day, n \
        FROM generate_series(1, 20) n, generate_series(1, 400) day",
    )
    .await;
    let parts = pages(&app, 1000).await;
    assert!(parts.len() > 6, "{}", parts.len());
    let sizes: Vec<usize> = parts.iter().map(String::len).collect();
    assert!(sizes.iter().all(|size| *size <= 128 * 1024), "{sizes:?}");
    let (other, _keys) = managed(&elsewhere).await;
    for page in parts.iter().filter(|page| !page.is_empty()) {
        let result = imported(&other, "", page).await;
        assert_eq!(counts(&result)[1..], [0, 0, 0], "{result}");
    }
    assert_eq!(pages(&other, 1000).await, parts);
}

#[tokio::test]
async fn a_code_of_another_link_is_a_conflict_and_stays_as_it_is() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    for code in ["taken", "deleted"] {
        shorten(app.public, json!({"url": URL, "code": code})).await;
    }
    manage(&app, "DELETE", "/deleted", None).await;
    let template = "https://example.com/{1}";
    shorten(app.public, json!({"url": template, "code": "plain"})).await;
    let with_arguments = json!({"code": "plain", "url": template, "template": true}).to_string();
    let untimed = json!({"code": "taken", "url": URL, "title": "new"}).to_string();
    let lines = [
        untimed,
        line("taken", URL),
        line("taken", "https://example.com/other"),
        line("deleted", URL),
        line("new", URL),
        line("new", URL),
        String::new(),
        line("new", "https://example.com/other"),
        with_arguments,
    ];
    let result = imported(&app, "", &lines.join("\n")).await;
    assert_eq!(
        words(&result),
        [
            "unchanged",
            "conflict",
            "conflict",
            "conflict",
            "created",
            "unchanged",
            "conflict",
            "conflict"
        ]
    );
    assert_eq!(counts(&result), [1, 2, 5, 0]);
    let results = result["results"].as_array().unwrap();
    let of = |index: usize, name: &str| results[index][name].as_str().unwrap();
    for (index, reason) in [
        (1, "the link of this code was created at another time"),
        (2, "the code has another destination"),
        (3, "the link of this code was deleted"),
        (6, "the code has another destination"),
        (7, "the code has another destination"),
    ] {
        assert_eq!(of(index, "reason"), reason);
    }
    assert_eq!(results[6]["line"], 8, "blank lines count");
    assert_redirects(&get(app.public, "/taken").await, URL);
    let exported = page(&app, "?after=new").await.text();
    assert!(exported.contains("\"title\":null"), "{exported}");
    let audit = administer(&app, "GET", "/api/admin/audit?action=links_imported", None).await;
    let entries = audit.json()["entries"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 1);
    assert_eq!(entries[0]["by"], "desk");
    let detail = json!({"created": 1, "unchanged": 2, "conflict": 5, "invalid": 0});
    assert_eq!(entries[0]["detail"], detail);
}

/// Returns the line of a link with this value in a field.
fn with(field: &str, value: Value) -> String {
    let mut link = json!({"code": "a", "url": URL});
    link[field] = value;
    link.to_string()
}

/// Returns lines with values that the database could not hold, each with their field.
fn lines_that_no_stack_can_hold() -> Vec<(String, &'static str)> {
    let deleted = |field: &str, value: Value| {
        let gone = json!({"at": "2025-01-01T00:00:00Z", "as": "deleted"});
        json!({"code": "a", "disabled": gone, field: value}).to_string()
    };
    let clicks = json!([{"day": "2025-01-01", "people": i64::MAX, "bots": 0}]);
    vec![
        (
            with("expires_at", json!("-009000-01-01T00:00:00Z")),
            "expires_at",
        ),
        (deleted("title", json!("a")), "title"),
        (deleted("note", json!("a")), "note"),
        (deleted("tags", json!(["a"])), "tags"),
        (with("clicks", clicks), "clicks"),
    ]
}

/// Returns lines that are no links, each with the field that is invalid.
fn lines_with_faults() -> Vec<(String, &'static str)> {
    let later = (Timestamp::now() + jiff::SignedDuration::from_mins(10)).to_string();
    let at = "2025-01-01T00:00:00Z";
    let day = |day: &str, people: i64| json!({"day": day, "people": people, "bots": 0});
    vec![
        ("not json".to_owned(), "line"),
        ("{\"code\":\"a\"}}".to_owned(), "line"),
        ("[\"a\"]".to_owned(), "line"),
        (json!({"url": URL}).to_string(), "code"),
        (with("code", json!("a/b")), "code"),
        (with("code", json!("x".repeat(65))), "code"),
        (with("code", json!("Health")), "code"),
        (with("code", json!(7)), "code"),
        (with("url", json!(null)), "url"),
        (with("url", json!("ftp://example.com/")), "url"),
        (with("url", json!("http://sho.rt:8080/x")), "url"),
        (
            json!({"code": "a", "url": "https://example.com/{10}", "template": true}).to_string(),
            "url",
        ),
        (with("host", json!("other.example")), "host"),
        (with("created_by", json!("a\u{0}")), "created_by"),
        (with("created_at", json!(later)), "created_at"),
        (with("created_at", json!("yesterday")), "created_at"),
        (
            with("expires_at", json!("2099-01-01T00:00:00Z")),
            "expires_at",
        ),
        (with("disabled", json!({"at": at})), "disabled"),
        (
            with("disabled", json!({"at": at, "as": "hidden"})),
            "disabled",
        ),
        (
            with("disabled", json!({"at": at, "as": "gone", "notice": "a"})),
            "disabled",
        ),
        (with("disabled", json!({"at": at, "as": "deleted"})), "url"),
        (with("title", json!("")), "title"),
        (with("title", json!("x".repeat(201))), "title"),
        (with("tags", json!(["a,b"])), "tags"),
        (with("tags", json!(vec!["a"; 11])), "tags"),
        (with("tags", json!("a")), "tags"),
        (with("note", json!("a\u{0}")), "note"),
        (
            with(
                "clicks",
                json!([day("2025-01-02", 1), day("2025-01-01", 1)]),
            ),
            "clicks",
        ),
        (with("clicks", json!([day("2025-01-01", -1)])), "clicks"),
        (
            with(
                "clicks",
                json!([{"day": "2025-13-01", "people": 1, "bots": 1}]),
            ),
            "clicks",
        ),
    ]
}

#[tokio::test]
async fn a_line_that_is_no_link_names_its_fields_and_stops_no_other() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let cases = [lines_with_faults(), lines_that_no_stack_can_hold()].concat();
    let mut lines: Vec<String> = cases.iter().map(|(line, _)| line.clone()).collect();
    lines.push(line("good", URL));
    let result = imported(&app, "", &lines.join("\r\n")).await;
    assert_eq!(counts(&result), [1, 0, 0, cases.len() as u64], "{result}");
    for (index, (line, field)) in cases.iter().enumerate() {
        let refused = &result["results"][index];
        assert_eq!(refused["line"], index + 1);
        assert_eq!(refused["result"], "invalid", "{line}");
        let errors = refused["errors"].as_array().unwrap();
        assert!(
            errors.iter().any(|error| error["field"] == *field),
            "{line}: {errors:?}"
        );
        assert!(errors.len() == 1, "{line}: {errors:?}");
    }
    let all = json!({"code": "a b", "title": "", "note": ""}).to_string();
    let result = imported(&app, "", &all).await;
    assert_eq!(result["results"][0]["errors"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_request_has_a_media_type_a_size_and_a_number_of_lines() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let refused = import(&app, "", " \n\n").await;
    refused.problem(400, "invalid-fields");
    let many = "{}\n".repeat(1001);
    import(&app, "", &many).await.problem(400, "invalid-fields");
    assert_eq!(
        counts(&imported(&app, "", &many[3..]).await),
        [0, 0, 0, 1000]
    );
    let large = "x".repeat(128 * 1024 + 1);
    import(&app, "", &large)
        .await
        .problem(413, "body-too-large");
    import(&app, "?dry_run=1", "{}")
        .await
        .problem(400, "invalid-fields");
    let path = "/api/admin/import/links";
    let refused = administer(&app, "POST", path, Some(json!({"code": "a"}))).await;
    let problem = refused.problem(415, "unsupported-media-type");
    assert!(
        problem["detail"]
            .to_string()
            .contains("application/x-ndjson")
    );
}

#[tokio::test]
async fn a_dry_run_stores_nothing_and_has_the_same_results() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let lines = [
        line("a", URL),
        line("a", URL),
        line("b", "x"),
        line("c", URL),
    ]
    .join("\n");
    let dry = imported(&app, "?dry_run=true", &lines).await;
    assert_eq!(page(&app, "").await.text(), "");
    let audit = administer(&app, "GET", "/api/admin/audit", None)
        .await
        .json();
    assert_eq!(audit["entries"], json!([]));
    assert_eq!(imported(&app, "?dry_run=false", &lines).await, dry);
    assert_eq!(counts(&dry), [2, 1, 0, 1]);
}

#[tokio::test]
async fn of_two_imports_at_once_one_creates_each_link_and_the_other_finds_it() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let there: Vec<String> = (0..400).map(|n| line(&format!("c{n}"), URL)).collect();
    let back: Vec<String> = there.iter().rev().cloned().collect();
    let (there, back) = (there.join("\n"), back.join("\n"));
    let (one, other) = tokio::join!(imported(&app, "", &there), imported(&app, "", &back));
    let (one, other) = (counts(&one), counts(&other));
    assert_eq!(one[0] + other[0], 400, "{one:?} {other:?}");
    assert_eq!(one[1] + other[1], 400, "{one:?} {other:?}");
    let lines = pages(&app, 1000).await.concat();
    assert_eq!(lines.lines().count(), 400);
}

#[tokio::test]
async fn an_imported_link_is_visible_at_once_although_the_cache_denied_its_code() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let keys = Keys::new();
    let app = App::start_with(&database, |config| {
        keys.configure(config);
        cache.configure(config);
    })
    .await;
    cache_is_up(&app).await;
    let lines = [
        line("live", URL),
        json!({"code": "over", "url": URL, "expires_at": "2025-01-01T00:00:00Z"}).to_string(),
        json!({"code": "down", "url": URL, "disabled": {"at": "2025-01-01T00:00:00Z", "as": "legal", "notice": "By order"}}).to_string(),
    ];
    let denied = || async {
        for code in ["live", "over", "down"] {
            cache
                .ask::<()>(&["SET", &format!("{{link:{code}}}:none"), "1"])
                .await;
        }
    };
    denied().await;
    get(app.public, "/live").await.problem(404, "not-found");
    let result = imported(&app, "", &lines.join("\n")).await;
    assert_eq!(counts(&result), [3, 0, 0, 0], "{result}");
    assert_eq!(
        cache.link("live").await.as_deref(),
        Some(URL),
        "as after a create"
    );
    let visible = || async {
        assert_redirects(&get(app.public, "/live").await, URL);
        get(app.public, "/over").await.problem(410, "link-expired");
        let legal = get(app.public, "/down")
            .await
            .problem(451, "unavailable-for-legal-reasons");
        assert_eq!(legal["detail"], "By order");
    };
    visible().await;
    // The first request may have ended before it wrote to the cache.
    denied().await;
    let again = imported(&app, "", &lines.join("\n")).await;
    assert_eq!(counts(&again), [0, 3, 0, 0], "{again}");
    visible().await;
}
