//! Hostile input over real sockets: every request is answered or closed in time, and never with a 500.

use std::time::{Duration, Instant};

use serde_json::json;
use shortener_testing::database::TestDatabase;
use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinSet;

use crate::{
    client::{Connection, get, post, post_bytes, request, send, shorten},
    support::App,
};

const BRIEF: Duration = Duration::from_millis(400);

async fn impatient(database: &PgConnectOptions) -> App {
    App::start_with(database, |config| {
        config.header_timeout = BRIEF;
        config.request_timeout = BRIEF;
    })
    .await
}

/// Checks that the server closes the connection at its deadline, neither much earlier nor much later.
async fn closes_in_time(connection: Connection, opened: Instant) -> Vec<u8> {
    let sent = tokio::time::timeout(Duration::from_secs(10), connection.closed())
        .await
        .expect("the server did not close the connection");
    assert!(
        opened.elapsed() >= BRIEF.mul_f64(0.8),
        "closed after {:?}",
        opened.elapsed()
    );
    sent
}

#[tokio::test]
async fn silent_connections_and_slow_headers_are_closed_at_the_deadline() {
    let database = TestDatabase::new().await;
    let app = impatient(&database).await;
    let opened = Instant::now();
    let silent = Connection::open(app.public).await;
    let mut half = Connection::open(app.public).await;
    half.write(b"GET /health HTTP/1.1\r\nhost: te").await;
    let mut dripping = Connection::open(app.public).await;
    let drip = async {
        // A byte now and then must not extend the deadline.
        dripping.write(b"GET /health HTTP/1.1\r\n").await;
        let mut steps = tokio::time::interval(BRIEF / 8);
        while dripping.write(b"x").await && opened.elapsed() < BRIEF * 20 {
            steps.tick().await;
        }
        dripping.closed().await
    };
    let (silent, half, dripped) = tokio::join!(
        closes_in_time(silent, opened),
        closes_in_time(half, opened),
        drip
    );
    assert!(silent.is_empty() && half.is_empty() && dripped.is_empty());
    assert!(
        opened.elapsed() < BRIEF * 20,
        "a slow client kept its connection"
    );
}

#[tokio::test]
async fn a_second_slow_header_on_an_open_connection_is_closed_too() {
    let database = TestDatabase::new().await;
    let app = impatient(&database).await;
    let mut connection = Connection::open(app.public).await;
    connection
        .write(b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n")
        .await;
    assert_eq!(connection.response(true).await.unwrap().status, 200);
    let opened = Instant::now();
    connection.write(b"GET /hea").await;
    assert!(closes_in_time(connection, opened).await.is_empty());
}

#[tokio::test]
async fn an_idle_connection_outlives_the_header_deadline() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.header_timeout = Duration::from_millis(200)
    })
    .await;
    let mut kept = Connection::open(app.public).await;
    kept.write(b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n")
        .await;
    assert_eq!(kept.response(true).await.unwrap().status, 200);
    // A silent connection opened now is closed at its deadline; the kept one has then been idle for longer.
    assert!(Connection::open(app.public).await.closed().await.is_empty());
    kept.write(b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n")
        .await;
    assert_eq!(
        kept.response(true)
            .await
            .expect("the server closed an idle connection")
            .status,
        200
    );
}

#[tokio::test]
async fn a_slow_body_is_answered_with_a_time_out() {
    let database = TestDatabase::new().await;
    let app = impatient(&database).await;
    let opened = Instant::now();
    let mut connection = Connection::open(app.public).await;
    connection.write(b"POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"url\":").await;
    connection
        .response(true)
        .await
        .unwrap()
        .problem(408, "request-timeout");
    closes_in_time(connection, opened).await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_off() {
    let database = TestDatabase::new().await;
    let app = impatient(&database).await;
    let mut connection = Connection::open(app.public).await;
    let requests = b"GET /openapi.json HTTP/1.1\r\nhost: test\r\n\r\n".repeat(1000);
    // Without a timeout for writes, this would fill the socket buffers and then wait forever.
    let flood = async { while connection.write(&requests).await {} };
    tokio::time::timeout(Duration::from_secs(60), flood)
        .await
        .expect("the server waits for a client that does not read");
    assert_eq!(get(app.public, "/health").await.status, 200);
}

#[tokio::test]
async fn a_body_may_be_sixteen_kibibytes_and_not_a_byte_more() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let padded = |length: usize| {
        let body = r#"{"url":"https://example.com/","pad":""}"#;
        body.replace(r#""""#, &format!("\"{}\"", "x".repeat(length - body.len())))
    };
    assert_eq!(
        post(app.public, "/shorten", padded(16 * 1024)).await.status,
        201
    );
    post(app.public, "/shorten", padded(16 * 1024 + 1))
        .await
        .problem(413, "body-too-large");
    let head = "POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = padded(16 * 1024 + 1);
    send(
        app.public,
        format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
    )
    .await
    .problem(413, "body-too-large");
    let body = padded(1000);
    assert_eq!(
        send(
            app.public,
            format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
        )
        .await
        .status,
        201
    );
}

#[tokio::test]
async fn endless_chunks_are_refused_while_they_come() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    for path in ["/shorten", "/jobs"] {
        let mut connection = Connection::open(app.public).await;
        connection.write(format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").as_bytes()).await;
        let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
        // Ends when the server stops reading, which is the expected behavior.
        let mut sent = 0;
        while sent < 65 {
            connection.write(chunk.as_bytes()).await;
            sent += 1;
        }
        connection
            .response(true)
            .await
            .unwrap()
            .problem(413, "body-too-large");
        assert!(connection.closed().await.is_empty());
    }
}

#[tokio::test]
async fn a_length_that_is_announced_too_large_is_refused_before_the_body() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let head = "POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\nexpect: 100-continue\r\n\r\n";
    send(app.public, head).await.problem(413, "body-too-large");
}

#[tokio::test]
async fn malformed_requests_are_answered_with_400_and_closed() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    for bad in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /a b HTTP/1.1\r\nhost: test\r\n\r\n",
        "GET / HTTP/1.1\r\nno-colon\r\n\r\n",
        "GET / HTTP/1.1\r\nbad name: x\r\n\r\n",
        "POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-length: -1\r\n\r\n",
        "POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        "POST /shorten HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked, identity\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut connection = Connection::open(app.public).await;
        connection.write(bad.as_bytes()).await;
        if let Some(response) = connection.response(true).await {
            assert_eq!(response.status, 400, "{bad:?}");
        }
        assert!(connection.closed().await.is_empty(), "{bad:?}");
    }
    let chunk = "POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
    send(app.public, chunk).await.problem(400, "malformed-json");
}

#[tokio::test]
async fn huge_urls_and_headers_are_refused() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    get(app.public, &format!("/{}", "x".repeat(10_000)))
        .await
        .problem(414, "uri-too-long");
    get(app.public, &format!("/x?{}", "x".repeat(10_000)))
        .await
        .problem(414, "uri-too-long");
    request(
        app.public,
        "GET",
        "/health",
        &format!("x-big: {}\r\n", "x".repeat(20_000)),
    )
    .await
    .problem(431, "headers-too-large");
    // Beyond the size that is read at all, the response has no problem body.
    assert_eq!(
        request(
            app.public,
            "GET",
            "/health",
            &format!("x-big: {}\r\n", "x".repeat(100_000))
        )
        .await
        .status,
        431
    );
    assert_eq!(
        request(app.public, "GET", "/health", &"x: y\r\n".repeat(500))
            .await
            .status,
        431
    );
    assert_eq!(
        request(
            app.public,
            "GET",
            "/health",
            &format!("x: {}\r\n", "y".repeat(8000))
        )
        .await
        .status,
        200
    );
}

#[tokio::test]
async fn bodies_that_are_not_a_json_object_are_malformed() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let deep = "[".repeat(10_000);
    let nested = format!(
        "{{\"url\":\"https://example.com/\",\"x\":{}{}}}",
        "[".repeat(8000),
        "]".repeat(8000)
    );
    let objects = "{\"a\":".repeat(3000);
    for bad in [
        "",
        "{",
        "[]",
        "null",
        "\"https://example.com\"",
        "{\"url\":\"\\ud800\"}",
        "{\"url\":\"\\x\"}",
        "{'url':'x'}",
        "{}{}",
        deep.as_str(),
        nested.as_str(),
        objects.as_str(),
    ] {
        post(app.public, "/shorten", bad)
            .await
            .problem(400, "malformed-json");
    }
    post(
        app.public,
        "/shorten",
        b"{\"url\":\"https://example.com/\xff\"}",
    )
    .await
    .problem(400, "malformed-json");
}

#[tokio::test]
async fn wrong_types_and_nul_characters_are_invalid_fields() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    for bad in [
        json!({}),
        json!({"url": null}),
        json!({"url": ["https://example.com"]}),
        json!({"url": "https://example.com/\0"}),
        json!({"url": "https://example.com/", "code": "a\0b"}),
        json!({"url": "https://example.com/", "code": {"a": 1}}),
        json!({"url": "https://example.com/", "ttl_seconds": i64::MIN}),
        json!({"url": "https://example.com/", "expires_at": "9999-99-99T00:00:00Z"}),
        json!({"url": "https://example.com/", "expires_at": "-009999-01-01T00:00:00Z"}),
    ] {
        post(app.public, "/shorten", bad.to_string())
            .await
            .problem(400, "invalid-fields");
    }
    let infinite = r#"{"url":"https://example.com/","ttl_seconds":1e400}"#;
    post(app.public, "/shorten", infinite)
        .await
        .problem(400, "malformed-json");
}

#[tokio::test]
async fn only_plain_json_is_taken() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let body = r#"{"url":"https://example.com/"}"#;
    let with = async |headers: &str| {
        let head = format!(
            "POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n",
            body.len()
        );
        send(app.public, format!("{head}{headers}\r\n{body}")).await
    };
    for good in ["application/json; charset=utf-8", "Application/Json"] {
        assert_eq!(with(&format!("content-type: {good}\r\n")).await.status, 201);
    }
    for bad in [
        "",
        "content-type: text/plain\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: application/json\r\ncontent-encoding: gzip\r\n",
    ] {
        with(bad).await.problem(415, "unsupported-media-type");
    }
}

#[tokio::test]
async fn hostile_urls_are_refused_or_come_back_as_one_uri_and_never_as_another_header() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let mut followed = 0;
    for url in [
        "https://example.com/\r\nset-cookie: a=b",
        "https://example.com/\nlocation: https://evil.example",
        "https://example.com/\u{85}x",
        "https://example.com/\u{2028}x",
        "https://example.com/\u{202e}gpj.exe",
        "https://example.com/\t",
        "javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "https://user:password@example.com/",
        "https://example.com\\@evil.example/",
        "https:///example.com",
        "https://example.com/%0d%0aset-cookie:%20a=b",
        "https://bücher.example/straße?q=ü#ß",
        "https://xn--bcher-kva.example/",
        "https://example.com/\u{1f980}\u{fe0f}",
        "https://example.com/'\"<>`{}|^",
        "https://EXAMPLE.com:443/./a/../b",
        "http://[::1]/",
        "http://0x7f.1/",
    ] {
        let created = post(app.public, "/shorten", json!({"url": url}).to_string()).await;
        if created.status == 400 {
            created.problem(400, "invalid-fields");
            continue;
        }
        let path = format!("/{}", created.json()["code"].as_str().unwrap());
        let redirect = get(app.public, &path).await;
        assert_eq!(redirect.status, 302, "{url:?}");
        let location = redirect.header("location").unwrap();
        assert_eq!(location, shortener_app::location::ascii(url));
        assert!(location.is_ascii(), "{location:?}");
        let mut names: Vec<&str> = redirect
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "cache-control",
                "connection",
                "content-length",
                "date",
                "location"
            ],
            "{url:?}"
        );
        followed += 1;
    }
    assert_eq!(followed, 8);
}

#[tokio::test]
async fn hostile_codes_are_not_found_without_asking_the_database() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |_| {}).await;
    shorten(
        app.public,
        json!({"url": "https://example.com/", "code": "abc"}),
    )
    .await;
    for path in [
        "/../abc",
        "/./abc",
        "/..",
        "/%2561bc",
        "/%61bc%2F",
        "/abc%00",
        "/%2e%2e",
        "/a.c",
        "/abc;x",
        "/abc%20",
        "/%D0%B0bc",
        "/\u{430}bc",
        "/API",
        "/Health",
        "/sHORTEN",
        "/livez",
        "/readyz",
        "/.well-known",
        "/robots.txt",
        "/favicon.ico",
        "/gateway-health",
        "/docs",
        "/api",
    ] {
        let response = get(app.public, path).await;
        assert!(matches!(response.status, 400 | 404), "{path}: {response:?}");
    }
    get(app.public, &format!("/{}", "a".repeat(65)))
        .await
        .problem(404, "not-found");
    for code in [
        "../abc",
        "api",
        "HEALTH",
        "shorten",
        "%61bc",
        "\u{430}bc",
        "",
        "a b",
        "a/b",
    ] {
        post(
            app.public,
            "/shorten",
            json!({"url": "https://example.com/", "code": code}).to_string(),
        )
        .await
        .problem(400, "invalid-fields");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let mut connection = Connection::open(app.public).await;
    let health = "GET /health HTTP/1.1\r\nhost: test\r\n\r\n";
    connection
        .write(format!("{health}GET /none HTTP/1.1\r\nhost: test\r\n\r\n{health}").as_bytes())
        .await;
    for status in [200, 404, 200] {
        assert_eq!(connection.response(true).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_the_service_as_it_was() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| config.max_connections = 50).await;
    let mut clients = JoinSet::new();
    for _ in 0..100 {
        clients.spawn(async move {
            let mut connection = Connection::open(app.public).await;
            connection
                .write(&post_bytes(
                    "/shorten",
                    "",
                    br#"{"url":"https://example.com/"}"#,
                ))
                .await;
        });
    }
    clients.join_all().await;
    assert_eq!(
        post(app.public, "/shorten", r#"{"url":"https://example.com/"}"#)
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn a_large_body_that_nothing_reads_ends_its_connection_and_the_response_says_so() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    for (path, length, ends) in [
        ("/shorten", 9_000, false),
        ("/no/route", 100, false),
        ("/no/route", 9_000, true),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut connection = Connection::open(app.public).await;
        let body = vec![b' '; length];
        connection.write(&[head.as_bytes(), &body].concat()).await;
        let response = connection.response(true).await.unwrap();
        let ended = response.header("connection") == Some("close");
        assert_eq!(ended, ends, "{path}, {length} bytes: {response:?}");
        if !ends {
            connection
                .write(b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n")
                .await;
            assert_eq!(connection.response(true).await.unwrap().status, 200);
        }
    }
}
