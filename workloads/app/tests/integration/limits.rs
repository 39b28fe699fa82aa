//! Rate limits by client address.

use shortener_testing::database::TestDatabase;

use crate::{
    client::{Response, get, post, post_bytes, request, send},
    support::App,
};

const LINK: &str = r#"{"url":"https://example.com/"}"#;

#[tokio::test]
async fn creating_links_and_everything_else_have_limits_of_their_own() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.limit_shorten_per_minute = 1;
        config.limit_shorten_burst = 3;
        config.limit_requests_per_second = 1;
        config.limit_requests_burst = 5;
    })
    .await;
    for _ in 0..3 {
        assert_eq!(post(app.public, "/shorten", LINK).await.status, 201);
    }
    let refused = post(app.public, "/shorten", LINK).await;
    refused.problem(429, "rate-limited");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");

    let mut statuses = Vec::new();
    for path in [
        "/health",
        "/none",
        "/metrics",
        "/a/b",
        "/openapi.json",
        "/health",
        "/health",
        "/health",
    ] {
        statuses.push(get(app.public, path).await.status);
    }
    statuses.push(post(app.public, "/jobs", "{}").await.status);
    assert_eq!(statuses[..5], [200, 404, 200, 404, 200]);
    assert!(statuses[5..].contains(&429), "{statuses:?}");
    for _ in 0..20 {
        assert_eq!(
            get(app.internal, "/readyz").await.status,
            200,
            "probes are exempt"
        );
    }
}

#[tokio::test]
async fn a_large_request_costs_more_than_a_small_one() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.limit_requests_per_second = 1;
        config.limit_requests_burst = 20;
    })
    .await;
    // 9 tokens each; that there is no queue is found out afterwards.
    let large = post_bytes("/jobs", "", &[b' '; 64 * 1024]);
    let left = |response: &Response| {
        let left = response.header("ratelimit").unwrap();
        left.split(';').nth(1).unwrap().to_owned()
    };
    for expected in ["r=11", "r=2"] {
        let response = send(app.public, &large).await;
        response.problem(501, "profile-disabled");
        assert_eq!(left(&response), expected);
    }
    let refused = send(app.public, &large).await;
    refused.problem(429, "rate-limited");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((5..=7).contains(&wait), "{wait}");
    assert_eq!(post(app.public, "/jobs", "{}").await.status, 501);
}

#[tokio::test]
async fn a_forged_forwarded_address_neither_escapes_the_limit_nor_spends_another_client_s() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.limit_shorten_per_minute = 1;
        config.limit_shorten_burst = 1;
    })
    .await;
    let create = |forwarded: &'static str| async move {
        send(
            app.public,
            post_bytes(
                "/shorten",
                &format!("x-forwarded-for: {forwarded}\r\n"),
                LINK.as_bytes(),
            ),
        )
        .await
        .status
    };
    assert_eq!(create("203.0.113.1").await, 201);
    for forged in [
        "9.9.9.9, 203.0.113.1",
        "203.0.113.2, 203.0.113.1",
        ", 203.0.113.1",
        "203.0.113.1:4711",
        "9.9.9.9\r\nx-forwarded-for: 203.0.113.1",
        "::ffff:203.0.113.1",
    ] {
        assert_eq!(create(forged).await, 429, "{forged:?}");
    }
    assert_eq!(
        create("203.0.113.1, 203.0.113.2").await,
        201,
        "the other client still has its own"
    );
}

#[tokio::test]
async fn without_trusted_proxies_the_header_counts_for_nothing() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.trusted_hops = 0;
        config.limit_requests_per_second = 1;
        config.limit_requests_burst = 1;
    })
    .await;
    assert_eq!(get(app.public, "/health").await.status, 200);
    assert_eq!(
        request(
            app.public,
            "GET",
            "/health",
            "x-forwarded-for: 203.0.113.7\r\n"
        )
        .await
        .status,
        429
    );
}
