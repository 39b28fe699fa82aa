//! Creating and following links as the specification defines.

use std::{collections::HashSet, time::Duration};

use serde_json::json;
use shortener_app::{code::CodeSpace, store::migrate::migrate};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    client::{Response, exchange, get, post, post_bytes, request, send, shorten},
    support::{App, config, url_of},
};

#[tokio::test]
async fn a_created_link_redirects_to_exactly_the_given_url() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let created = post(
        app.public,
        "/shorten",
        r#"{"url":"https://example.com/a?b=c"}"#,
    )
    .await;
    assert_eq!(created.status, 201);
    let link = created.json();
    let code = link["code"].as_str().unwrap();
    assert_eq!(code.len(), 7);
    assert_eq!(link["url"], "https://example.com/a?b=c");
    assert_eq!(link["short_url"], format!("http://sho.rt:8080/{code}"));
    assert_eq!(created.header("location"), link["short_url"].as_str());
    assert_eq!(created.header("content-type"), Some("application/json"));
    assert!(link["created_at"].as_str().unwrap().ends_with('Z'));
    assert!(link["expires_at"].is_null() && link.as_object().unwrap().contains_key("expires_at"));

    let followed = get(app.public, &format!("/{code}")).await;
    assert_eq!(followed.status, 302);
    assert_eq!(
        followed.header("location"),
        Some("https://example.com/a?b=c")
    );
    assert_eq!(followed.header("cache-control"), Some("no-store"));
    assert_eq!(followed.header("content-length"), Some("0"));
    assert_eq!(get(app.public, &format!("/{code}?utm=x")).await.status, 302);
}

#[tokio::test]
async fn head_answers_like_get_without_a_body_on_every_route() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let code = shorten(app.public, json!({"url": "https://example.com/"})).await;
    for (path, status) in [
        (format!("/{code}"), 302),
        ("/health".into(), 200),
        ("/metrics".into(), 200),
        ("/openapi.json".into(), 200),
        ("/unknown".into(), 404),
    ] {
        let response = request(app.public, "HEAD", &path, "").await;
        assert_eq!(response.status, status, "{path}");
        assert_eq!(
            response.header("location"),
            (status == 302).then_some("https://example.com/")
        );
    }
    for path in ["/livez", "/readyz", "/metrics", "/backends"] {
        assert_eq!(
            request(app.internal, "HEAD", path, "").await.status,
            200,
            "{path}"
        );
    }
}

/// RFC 9110, section 4.2.3.
#[tokio::test]
async fn an_escape_of_an_unreserved_character_is_that_character() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let link = json!({"url": "https://example.com/", "code": "q_b-c"});
    shorten(app.public, link).await;
    for (path, status) in [
        ("/%71_b-c", 302),
        ("/q%5Fb%2dc", 302),
        ("/%71_b-c+", 200),
        ("/%68ealth", 200),
        ("/docs/%31", 501),
        ("/api/%61dmin/links/q_b-c", 401),
        ("/%2571_b-c", 404),
        ("/q_b-c%2B", 404),
        ("/q_b-c%0a", 404),
        ("/%2Fq_b-c", 404),
    ] {
        // The OpenAPI document has the paths without escapes.
        let bytes = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        let response = exchange(app.public, bytes.as_bytes()).await;
        assert_eq!(response.status, status, "{path}: {response:?}");
    }
}

#[tokio::test]
async fn a_chosen_code_is_taken_once_and_for_all() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    assert_eq!(
        shorten(
            app.public,
            json!({"url": "https://example.com/1", "code": "My_code-1"})
        )
        .await,
        "My_code-1"
    );
    for url in ["https://example.com/1", "https://example.com/2"] {
        post(
            app.public,
            "/shorten",
            json!({"url": url, "code": "My_code-1"}).to_string(),
        )
        .await
        .problem(409, "code-taken");
    }
    assert_eq!(
        get(app.public, "/My_code-1").await.header("location"),
        Some("https://example.com/1")
    );
    // Codes are case-sensitive.
    get(app.public, "/my_code-1")
        .await
        .problem(404, "not-found");
    shorten(
        app.public,
        json!({"url": "https://example.com/3", "code": "my_code-1"}),
    )
    .await;
}

#[tokio::test]
async fn one_code_asked_for_by_many_at_once_is_given_to_one() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let mut posts = JoinSet::new();
    for number in 0..32 {
        posts.spawn(async move {
            let url = format!("https://example.com/{number}");
            (
                post(
                    app.public,
                    "/shorten",
                    json!({"url": url, "code": "race"}).to_string(),
                )
                .await
                .status,
                url,
            )
        });
    }
    let outcomes = posts.join_all().await;
    let winners: Vec<&String> = outcomes
        .iter()
        .filter(|(status, _)| *status == 201)
        .map(|(_, url)| url)
        .collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    assert!(
        outcomes
            .iter()
            .all(|(status, _)| matches!(status, 201 | 409)),
        "{outcomes:?}"
    );
    assert_eq!(
        get(app.public, "/race").await.header("location"),
        Some(winners[0].as_str())
    );
}

#[tokio::test]
async fn reuse_returns_the_oldest_lasting_link_and_nothing_else() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let ask = |extra: serde_json::Value| {
        let mut body = json!({"url": "https://example.com/same", "reuse": true});
        body.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        async move { post(app.public, "/shorten", body.to_string()).await }
    };
    let expiring = shorten(
        app.public,
        json!({"url": "https://example.com/same", "ttl_seconds": 60}),
    )
    .await;
    let first = ask(json!({})).await;
    assert_eq!(first.status, 201);
    let code = first.json()["code"].as_str().unwrap().to_owned();
    assert_ne!(code, expiring, "a link that expires is not reused");
    shorten(app.public, json!({"url": "https://example.com/same"})).await;

    let again = ask(json!({})).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(
        ask(json!({"code": code})).await.status,
        200,
        "the requested code is that of the existing link"
    );
    let other = ask(json!({"code": "another"})).await;
    assert_eq!(
        (other.status, other.json()["code"].as_str()),
        (201, Some("another"))
    );
    let other_again = ask(json!({"code": "another"})).await;
    assert_eq!(
        (other_again.status, other_again.json()),
        (200, other.json()),
        "there is an older link to the same destination"
    );
    let shorter = ask(json!({"ttl_seconds": 60})).await;
    assert_eq!(
        shorter.status, 201,
        "a link that never expires is not reused for one that expires"
    );
    let different = post(
        app.public,
        "/shorten",
        r#"{"url":"https://example.com/same/","reuse":true}"#,
    )
    .await;
    assert_eq!(different.status, 201);
}

#[tokio::test]
async fn reuse_asked_for_by_many_at_once_makes_one_link() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let mut posts = JoinSet::new();
    for _ in 0..32 {
        posts.spawn(async move {
            post(
                app.public,
                "/shorten",
                r#"{"url":"https://example.com/one","reuse":true}"#,
            )
            .await
        });
    }
    let outcomes = posts.join_all().await;
    assert_eq!(
        outcomes
            .iter()
            .filter(|response| response.status == 201)
            .count(),
        1
    );
    let codes: HashSet<String> = outcomes
        .iter()
        .map(|response| response.json()["code"].to_string())
        .collect();
    assert_eq!(codes.len(), 1);
}

#[tokio::test]
async fn new_links_lead_only_where_the_rules_of_the_stack_allow() {
    let database = TestDatabase::new().await;
    let open = App::start(&database).await;
    let earlier = json!({"url": "https://www.bad.example/", "code": "earlier"});
    shorten(open.public, earlier).await;
    let app = App::start_with(&database, |config| {
        let rules = &mut config.destinations;
        rules.gateway_hosts = vec!["links.example.com".to_owned()];
        rules.links_deny_hosts = vec!["*.bad.example".parse().unwrap()];
        rules.links_deny_private_addresses = true;
    })
    .await;
    for (url, rule) in [
        ("https://www.bad.example/x", "denies it"),
        ("http://[::ffff:127.0.0.1]/", "private address"),
        ("https://links.example.com/x", "this service itself"),
        ("http://sho.rt:8080/x", "this service itself"),
    ] {
        let refused = post(app.public, "/shorten", json!({"url": url}).to_string()).await;
        let problem = refused.problem(400, "invalid-fields");
        assert_eq!(problem["errors"][0]["field"], "url");
        let reason = problem["errors"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(rule), "{url}: {reason}");
    }
    shorten(app.public, json!({"url": "https://bad.example/"})).await;
    for (host, base) in [
        ("links.example.com", "http://links.example.com:8080"),
        ("sho.rt", "http://sho.rt:8080"),
    ] {
        let body = json!({"url": "https://example.com/", "host": host});
        let created = post(app.public, "/shorten", body.to_string()).await.json();
        let expected = format!("{base}/{}", created["code"].as_str().unwrap());
        assert_eq!(created["short_url"], expected);
    }
    for host in [
        json!("other.example.com"),
        json!("links.example.com:8080"),
        json!(1),
    ] {
        let body = json!({"url": "https://example.com/", "host": host});
        let refused = post(app.public, "/shorten", body.to_string()).await;
        let problem = refused.problem(400, "invalid-fields");
        assert_eq!(problem["errors"][0]["field"], "host", "{host}");
    }
    let followed = get(app.public, "/earlier").await;
    assert_eq!(followed.status, 302, "links that exist are not touched");
}

/// Creates a link under an idempotency key.
async fn once(app: &App, key: &str, body: &str) -> Response {
    let headers = format!("idempotency-key: {key}\r\n");
    let bytes = post_bytes("/shorten", &headers, body.as_bytes());
    send(app.public, bytes).await
}

#[tokio::test]
async fn requests_with_one_idempotency_key_create_one_link() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let body = r#"{"url":"https://example.com/once","code":"mine","ttl_seconds":60}"#;
    let first = once(&app, "k-1", body).await;
    assert_eq!(first.status, 201, "{first:?}");
    // Also with quotes, as the draft of the header has it.
    for key in ["k-1", "\"k-1\""] {
        let again = once(&app, key, body).await;
        assert_eq!((again.status, again.json()), (201, first.json()));
        assert_eq!(again.header("location"), first.header("location"));
    }
    let other = r#"{"url":"https://example.com/other"}"#;
    let refused = once(&app, "k-1", other).await;
    refused.problem(422, "idempotency-key-reused");
    let taken = once(&app, "k-2", body).await;
    taken.problem(409, "code-taken");
    let free = once(&app, "k-2", other).await;
    assert_eq!(
        free.status, 201,
        "a request that failed leaves its key free"
    );
    let bad = once(&app, "a b", other).await;
    bad.problem(400, "invalid-fields");

    let mut connection = database.connect().await.unwrap();
    connection
        .execute("UPDATE link_keys SET created_at = now() - interval '25 hours'")
        .await
        .unwrap();
    let next_day = once(&app, "k-1", other).await;
    assert_eq!(next_day.status, 201, "{next_day:?}");
}

#[tokio::test]
async fn a_repeated_request_gets_its_response_although_it_is_not_valid_any_more() {
    let database = TestDatabase::new().await;
    let open = App::start_with(&database, |config| {
        config.destinations.gateway_hosts = vec!["links.example.com".to_owned()];
    })
    .await;
    let end = jiff::Timestamp::now() + Duration::from_secs(61);
    let soon = json!({"url": "https://example.com/", "expires_at": end, "code": "soon"});
    let denied = json!({"url": "https://bad.example/", "host": "links.example.com", "reuse": true});
    let soon = (once(&open, "k-1", &soon.to_string()).await, soon);
    let denied = (once(&open, "k-2", &denied.to_string()).await, denied);
    assert_eq!((soon.0.status, denied.0.status), (201, 201));

    let strict = App::start_with(&database, |config| {
        config.destinations.links_deny_hosts = vec!["bad.example".parse().unwrap()];
    })
    .await;
    sleep(Duration::from_secs(2)).await;
    for (key, (first, body), status) in [("k-1", &soon, 201), ("k-2", &denied, 200)] {
        let again = once(&strict, key, &body.to_string()).await;
        assert_eq!(
            (again.status, again.json()),
            (status, first.json()),
            "{key}"
        );
        assert_eq!(again.header("location"), first.header("location"));
    }
    let (_, body) = soon;
    once(&strict, "k-3", &body.to_string())
        .await
        .problem(400, "invalid-fields");
    let other = r#"{"url":"https://bad.example/","host":"a b"}"#;
    once(&strict, "k-2", other)
        .await
        .problem(422, "idempotency-key-reused");
    let mut connection = database.connect().await.unwrap();
    connection
        .execute("UPDATE link_keys SET created_at = now() - interval '25 hours'")
        .await
        .unwrap();
    once(&strict, "k-1", &body.to_string())
        .await
        .problem(400, "invalid-fields");
}

#[tokio::test]
async fn strangers_do_not_meet_each_other_s_idempotency_keys() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let create = async |address: &str, url: &str| {
        let headers = format!("x-forwarded-for: {address}\r\nidempotency-key: order-1\r\n");
        let body = json!({"url": url}).to_string();
        let bytes = post_bytes("/shorten", &headers, body.as_bytes());
        send(app.public, bytes).await
    };
    let first = create("203.0.113.9", "https://example.com/1").await;
    let other = create("203.0.113.10", "https://example.com/2").await;
    let network = create("2001:db8::1", "https://example.com/3").await;
    for created in [&first, &other, &network] {
        assert_eq!(created.status, 201, "{created:?}");
    }
    let again = create("203.0.113.9", "https://example.com/1").await;
    assert_eq!(again.json(), first.json());
    let neighbour = create("2001:db8::2", "https://example.com/3").await;
    assert_eq!(neighbour.json(), network.json());
    let reused = create("203.0.113.10", "https://example.com/1").await;
    reused.problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn an_idempotency_key_and_reuse_go_together() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let code = shorten(app.public, json!({"url": "https://example.com/same"})).await;
    let body = r#"{"url":"https://example.com/same","reuse":true}"#;
    for _ in 0..2 {
        let reused = once(&app, "k-1", body).await;
        assert_eq!((reused.status, &reused.json()["code"]), (200, &json!(code)));
    }
}

#[tokio::test]
async fn one_idempotency_key_at_once_is_one_link() {
    let database = TestDatabase::new().await;
    let app = std::sync::Arc::new(App::start(&database).await);
    let mut posts = JoinSet::new();
    for _ in 0..16 {
        let app = std::sync::Arc::clone(&app);
        posts.spawn(async move {
            let response = once(&app, "k-1", r#"{"url":"https://example.com/"}"#).await;
            assert_eq!(response.status, 201, "{response:?}");
            response.json()["code"].as_str().unwrap().to_owned()
        });
    }
    let codes: HashSet<String> = posts.join_all().await.into_iter().collect();
    assert_eq!(codes.len(), 1);
}

#[tokio::test]
async fn an_expired_link_is_gone_even_after_it_was_purged_and_its_code_is_never_given_out_again() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let created = post(
        app.public,
        "/shorten",
        r#"{"url":"https://example.com/","code":"brief","ttl_seconds":60}"#,
    )
    .await;
    let link = created.json();
    let time = |field: &str| {
        link[field]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    assert_eq!(
        time("expires_at")
            .duration_since(time("created_at"))
            .as_secs(),
        60
    );
    assert_eq!(get(app.public, "/brief").await.status, 302);

    let mut connection = database.connect().await.unwrap();
    for step in [
        "UPDATE links SET created_at = now() - interval '2 minutes', expires_at = now()",
        "UPDATE links SET url = NULL",
    ] {
        connection.execute(step).await.unwrap();
        get(app.public, "/brief").await.problem(410, "link-expired");
        post(
            app.public,
            "/shorten",
            r#"{"url":"https://example.com/","code":"brief"}"#,
        )
        .await
        .problem(409, "code-taken");
    }
}

#[tokio::test]
async fn an_end_given_as_a_time_is_kept_to_the_microsecond() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let end = jiff::Timestamp::now() + std::time::Duration::from_secs(3600);
    let created = post(
        app.public,
        "/shorten",
        json!({"url": "https://example.com/", "expires_at": end.to_string()}).to_string(),
    )
    .await;
    assert_eq!(created.status, 201, "{created:?}");
    let kept: jiff::Timestamp = created.json()["expires_at"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(kept.as_microsecond(), end.as_microsecond());
}

#[tokio::test]
async fn in_a_crowded_code_space_codes_grow_and_nothing_is_overwritten() {
    let database = TestDatabase::new().await;
    // 62 characters and a length of two, which is a small code space; then far more links than fit into it.
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    migrate(database.clone(), std::time::Duration::from_secs(30))
        .await
        .unwrap();
    let fill = "INSERT INTO links (code, url) SELECT a || b, 'https://example.com/kept' \
        FROM regexp_split_to_table('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789', '') a, \
             regexp_split_to_table('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789', '') b \
        WHERE a || b <> 'A7'";
    let mut connection = database.connect().await.unwrap();
    connection.execute(fill).await.unwrap();
    let app = App::serve(
        config(&url_of(&database)),
        CodeSpace {
            alphabet: ALPHABET,
            length: 2,
        },
    )
    .await;
    let mut codes = HashSet::new();
    for number in 0..50 {
        let url = format!("https://example.com/{number}");
        let code = shorten(app.public, json!({"url": url})).await;
        assert!(code.len() == 3 || code == "A7", "{code}");
        assert_eq!(
            get(app.public, &format!("/{code}"))
                .await
                .header("location"),
            Some(url.as_str())
        );
        assert!(codes.insert(code));
    }
    let (kept,): (i64,) =
        sqlx::query_as("SELECT count(*) FROM links WHERE url = 'https://example.com/kept'")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    assert_eq!(kept, 62 * 62 - 1);
}

#[tokio::test]
async fn a_full_code_space_ends_in_an_error_after_bounded_tries() {
    let database = TestDatabase::new().await;
    migrate(database.clone(), std::time::Duration::from_secs(30))
        .await
        .unwrap();
    let app = App::serve(
        config(&url_of(&database)),
        CodeSpace {
            alphabet: b"x",
            length: 1,
        },
    )
    .await;
    for length in 1..=5 {
        assert_eq!(
            shorten(app.public, json!({"url": "https://example.com/"})).await,
            "x".repeat(length)
        );
    }
    post(app.public, "/shorten", r#"{"url":"https://example.com/"}"#)
        .await
        .problem(500, "internal");
}

#[tokio::test]
async fn refused_requests_name_every_field_at_fault() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let problem = post(
        app.public,
        "/shorten",
        r#"{"url":"ftp://x","code":"Admin","ttl_seconds":5}"#,
    )
    .await
    .problem(400, "invalid-fields");
    assert_eq!(problem["instance"], "/shorten");
    assert_eq!(problem["trace_id"].as_str().unwrap().len(), 32);
    let fields: Vec<&str> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["url", "code", "ttl_seconds"]);
    let own = post(
        app.public,
        "/shorten",
        r#"{"url":"http://sho.rt:8080/abc"}"#,
    )
    .await
    .problem(400, "invalid-fields");
    assert_eq!(own["errors"][0]["field"], "url");
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    for path in ["/", "/a/b", "/api/shorten", "//x", "/x/", "/health/"] {
        get(app.public, path).await.problem(404, "not-found");
    }
    for (method, path, allowed) in [
        ("DELETE", "/abc", "GET,HEAD"),
        ("GET", "/shorten", "POST"),
        ("GET", "/jobs", "POST"),
        ("POST", "/health", "GET,HEAD"),
        ("BREW", "/abc", "GET,HEAD"),
        ("OPTIONS", "/shorten", "POST"),
    ] {
        let response = request(app.public, method, path, "").await;
        response.problem(405, "method-not-allowed");
        assert_eq!(response.header("allow"), Some(allowed), "{method} {path}");
    }
    get(app.internal, "/shorten")
        .await
        .problem(404, "not-found");
    request(app.internal, "POST", "/livez", "")
        .await
        .problem(405, "method-not-allowed");
}

#[tokio::test]
async fn jobs_need_the_queue_profile() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    post(app.public, "/jobs", r#"{"task":"email","id":1}"#)
        .await
        .problem(501, "profile-disabled");
    post(app.public, "/jobs", vec![b'x'; 64 * 1024 + 1])
        .await
        .problem(413, "body-too-large");
    let without_body = send(app.public, "POST /jobs HTTP/1.1\r\nhost: test\r\n\r\n").await;
    without_body.problem(501, "profile-disabled");
    let job = "/jobs/0190163d-8694-739b-aea5-966c26f8ad91";
    get(app.public, job).await.problem(501, "profile-disabled");
}

#[tokio::test]
async fn migrations_may_run_again_at_the_same_time_and_under_a_newer_schema() {
    let database = TestDatabase::new().await;
    let limit = std::time::Duration::from_secs(30);
    let (first, second) = tokio::join!(
        migrate(database.clone(), limit),
        migrate(database.clone(), limit)
    );
    first.and(second).unwrap();
    let mut connection = database.connect().await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'newer', true, '', 0)";
    connection.execute(newer).await.unwrap();
    migrate(database.clone(), limit).await.unwrap();
}
