//! Redirects and new jobs past the router and through it: the responses, the metrics and the log are the same.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::pending,
    io::{self, Write},
    net::SocketAddr,
    sync::LazyLock,
    time::Duration,
};

use serde_json::{Value, json};
use shortener_app::{
    code::CodeSpace,
    config::ServeArgs,
    metrics::Metrics,
    router,
    run::Server,
    shortcut::Shortcut,
    state::{AppState, Observed},
    unescaped::Unescaped,
};
use shortener_common::{
    exposition::Format,
    logging::JsonLines,
    server::{self, Handler, ServerSettings, listen},
    telemetry::span::Tracer,
};
use shortener_testing::{broker::Broker, database::TestDatabase};
use sqlx::postgres::PgConnectOptions;
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::timeout,
};
use tracing::Level;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    client::{Connection, Response, send, shorten},
    management::{Keys, manage},
    pages::{BROWSER, expire_one},
    support::{App, Blocker, config, url_of},
};

/// The caller, so that both responses name the same trace.
const CALLER: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
/// A job of a task that is public.
const JOB: &str = r#"{"task":"email","id":1}"#;
const JSON: &str = "content-type: application/json\r\n";
/// More time than a busy machine needs.
const SOON: Duration = Duration::from_secs(10);

/// The target of the lines of requests.
const REQUESTS: &str = "shortener_app::observe::facts";

thread_local! {
    /// The reader of the lines of this thread.
    static READER: RefCell<Option<UnboundedSender<Vec<u8>>>> = const { RefCell::new(None) };
}

/// The log of all tests, with the lines of requests alone. A log of one thread would not hear an event that occurred on
/// another thread first.
static LOG: LazyLock<()> = LazyLock::new(|| {
    let lines = JsonLines::new("replica-7", || Pipe);
    // A filter of the layer alone keeps what it decided for the next event of the thread, and so loses lines now and then.
    let filter = Targets::new().with_target(REQUESTS, Level::INFO);
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    tracing::callsite::rebuild_interest_cache();
});

/// Passes on lines to the reader of this thread.
struct Pipe;

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        READER.with_borrow(|reader| reader.as_ref().map(|reader| reader.send(bytes.to_owned())));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Two servers with one state: the first one answers redirects and jobs past the router, the second one through it.
struct Ways {
    ways: [SocketAddr; 2],
    state: AppState,
    _app: Server,
    _servers: JoinSet<bool>,
}

/// The visible traces of a request: its response, its metrics and its log line.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
    /// Its line in the log, without what is never the same.
    line: Value,
    /// The counters that it has increased.
    counted: BTreeMap<String, u64>,
}

fn serve(servers: &mut JoinSet<bool>, handler: impl Handler) -> SocketAddr {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let settings = ServerSettings::internal(SOON, SOON);
    servers.spawn(server::serve(listener, handler, settings, pending()));
    address
}

impl Ways {
    async fn start(database: &PgConnectOptions, change: impl FnOnce(&mut ServeArgs)) -> Self {
        let mut config = config(&url_of(database));
        change(&mut config);
        LazyLock::force(&LOG);
        let memory = config.divide_memory().unwrap();
        let observed = Observed {
            metrics: Metrics::default(),
            tracer: Tracer::default(),
            memory,
        };
        let app = Server::bind(config, observed, CodeSpace::default())
            .await
            .unwrap();
        let state = app.state().clone();
        let router = router::public(state.clone());
        let mut servers = JoinSet::new();
        let shortcut = Shortcut::new(state.clone(), router.clone());
        let past = serve(&mut servers, Unescaped(shortcut));
        let through = serve(&mut servers, Unescaped(router));
        Self {
            ways: [past, through],
            state,
            _app: app,
            _servers: servers,
        }
    }

    /// Returns the counters of requests.
    fn counters(&self) -> BTreeMap<String, u64> {
        let text = Format::Classic
            .encode(&self.state.metrics.registry)
            .unwrap();
        let counters = text.lines().filter(|line| {
            line.starts_with("http_requests_total{")
                || line.starts_with("http_server_request_duration_seconds_count{")
        });
        let series = counters.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        series.collect()
    }

    /// Returns the counters that have increased, and by how much.
    fn counted_since(&self, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut counted = self.counters();
        for (series, value) in &mut counted {
            *value -= before.get(series).copied().unwrap_or_default();
        }
        counted.retain(|_, value| *value > 0);
        counted
    }

    /// Sends a request along one way, and returns what is seen of it.
    async fn see(&self, way: SocketAddr, request: &str) -> Seen {
        let before = self.counters();
        // The servers are on this thread.
        let (reader, mut lines) = unbounded_channel();
        READER.set(Some(reader));
        let response = send(way, request).await;
        let line = constant(&timeout(SOON, lines.recv()).await.unwrap().unwrap());
        let counted = self.counted_since(&before);
        let Response {
            status,
            headers,
            body,
        } = response;
        let fields = headers
            .into_iter()
            .filter(|(name, _)| name != "date")
            .map(|(name, value)| (name, String::from_utf8(value).unwrap()));
        let mut fields: Vec<_> = fields.collect();
        // The order of fields with different names means nothing (RFC 9110, section 5.3).
        fields.sort();
        Seen {
            status,
            fields,
            body: String::from_utf8(body).unwrap(),
            line,
            counted,
        }
    }

    /// Checks that the same is seen of a request along both ways, and returns it.
    async fn same(&self, request: &str) -> Seen {
        let [past, through] = self.ways;
        let past = self.see(past, request).await;
        let through = self.see(through, request).await;
        assert_eq!(past, through, "{request}");
        assert!(past.counted.values().eq(&[1, 1]), "{past:?}");
        past
    }
}

/// Returns a line of the log without what is never the same.
fn constant(line: &[u8]) -> Value {
    let mut line: Value = serde_json::from_slice(line).unwrap();
    let members = line.as_object_mut().unwrap();
    for varies in ["timestamp", "span_id", "duration"] {
        assert!(members.remove(varies).is_some(), "{varies} is missing");
    }
    line
}

/// Returns a request with these further header lines.
fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nhost: test\r\n{CALLER}{fields}\r\n")
}

/// Returns a request that posts a job with this body.
fn job(fields: &str, body: &str) -> String {
    let length = body.len();
    let head = request(
        "POST",
        "/jobs",
        &format!("{fields}content-length: {length}\r\n"),
    );
    format!("{head}{body}")
}

/// Makes the links `to`, `ended` and `legal`.
async fn make_links(database: &TestDatabase) {
    let keys = Keys::new();
    let app = App::start_with(database, |config| keys.configure(config)).await;
    expire_one(database, &app).await;
    for code in ["to", "legal"] {
        let url = "https://example.com/a?b=c#d";
        shorten(app.public, json!({"url": url, "code": code})).await;
    }
    let takedown = json!({"reason": "order 7", "legal": true});
    let disabled = manage(&app, "POST", "/legal/disable", Some(takedown)).await;
    assert_eq!(disabled.status, 200, "{disabled:?}");
}

#[tokio::test]
async fn a_request_is_answered_counted_and_logged_alike_along_both_ways() {
    let database = TestDatabase::new().await;
    make_links(&database).await;
    let targets = |config: &mut ServeArgs| {
        config.links.links_unknown_target = Some("https://example.com/unknown".parse().unwrap());
        config.links.links_expired_target = Some("https://example.com/expired".parse().unwrap());
        config.links.links_forward_query = true;
    };
    // So many that a bucket is full again before the next request.
    let limits = |config: &mut ServeArgs| {
        config.limit_requests_per_second = 1_000_000;
        config.limit_requests_burst = 1_000_000;
        config.cors_allow_origins = vec!["https://app.example.com".parse().unwrap()];
        config.trust_incoming_trace = true;
    };
    let changes: [&dyn Fn(&mut ServeArgs); 3] = [&|_| {}, &targets, &limits];
    for change in changes {
        let ways = Ways::start(&database, change).await;
        for (target, status) in [
            ("/to", 302),
            ("/to?x=1", 302),
            ("/%74%6f", 302),
            ("http://elsewhere/to", 302),
            ("/none", 404),
            ("/ended", 410),
            ("/legal", 451),
        ] {
            for method in ["GET", "HEAD"] {
                for fields in [
                    "",
                    BROWSER,
                    "x-forwarded-for: 6.6.6.6, 2001:db8::1\r\n",
                    "origin: https://app.example.com\r\nx-api-key: unknown\r\n",
                    "connection: close\r\n",
                ] {
                    let seen = ways.same(&request(method, target, fields)).await;
                    let is_target = seen.status == 302 && (status == 404 || status == 410);
                    assert!(seen.status == status || is_target, "{target}: {seen:?}");
                    assert_eq!(seen.line["http.route"], "/{code}", "{target}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_request_whose_client_left_is_counted_and_logged_alike_along_both_ways() {
    let database = TestDatabase::new().await;
    make_links(&database).await;
    let ways = Ways::start(&database, |_| {}).await;
    let mut blocker = Blocker::hold(&database).await;
    let mut seen = Vec::new();
    for (number, way) in (1..).zip(ways.ways) {
        let before = ways.counters();
        let (reader, mut lines) = unbounded_channel();
        READER.set(Some(reader));
        let mut leaving = Connection::open(way).await;
        let path = format!("/unknown-{number}");
        leaving.write(request("GET", &path, "").as_bytes()).await;
        blocker.wait_for_blocked(number).await;
        leaving.close_sending().await;
        let mut line = constant(&timeout(SOON, lines.recv()).await.unwrap().unwrap());
        assert_eq!(line["url.path"].take(), path.as_str());
        assert_eq!(line["http.response.status_code"], 499, "{line}");
        assert_eq!(line["error.type"], "cancelled", "{line}");
        let counted = ways.counted_since(&before);
        assert!(counted.values().eq(&[1, 1]), "{counted:?}");
        assert!(leaving.response(true).await.is_none());
        seen.push((line, counted));
    }
    assert_eq!(seen[0], seen[1]);
    blocker.release().await;
}

#[tokio::test]
async fn what_is_no_redirect_is_the_same_as_well() {
    let database = TestDatabase::new().await;
    make_links(&database).await;
    let ways = Ways::start(&database, |_| {}).await;
    let long = format!("/{}", "x".repeat(10_000));
    let long_query = format!("/to?{}", "x".repeat(10_000));
    for (method, target, status) in [
        ("GET", "/to+", 200),
        ("HEAD", "/to+", 200),
        ("GET", "/", 404),
        ("GET", "/docs/a/b", 404),
        ("GET", "/%74o%2B", 404),
        ("GET", "/%2574o", 404),
        ("GET", "/to%0a", 404),
        ("POST", "/%74o", 405),
        ("GET", "/docs", 404),
        ("GET", "/Health", 404),
        ("HEAD", "/health", 200),
        ("POST", "/to", 405),
        ("DELETE", "/none", 405),
        ("BREW", "/to", 405),
        ("GET", "/shorten", 405),
        ("GET", &long, 414),
        ("GET", &long_query, 414),
    ] {
        let seen = ways.same(&request(method, target, BROWSER)).await;
        assert_eq!(seen.status, status, "{method} {target}: {seen:?}");
    }
    let large = format!("x-large: {}\r\n", "x".repeat(20_000));
    let seen = ways.same(&request("GET", "/to", &large)).await;
    assert_eq!(seen.status, 431, "{seen:?}");
    // A body that no handler reads.
    let body = format!("{}body", request("GET", "/to", "content-length: 4\r\n"));
    assert_eq!(ways.same(&body).await.status, 302);
    let old = format!("GET /to HTTP/1.0\r\n{CALLER}\r\n");
    assert_eq!(ways.same(&old).await.status, 302);
}

#[tokio::test]
async fn refusals_and_failures_are_the_same() {
    let database = TestDatabase::new().await;
    make_links(&database).await;
    let down = Ways::start(&database, |config| {
        config.database.database_url = Some("postgres://u:p@127.0.0.1:1/none".to_owned());
    })
    .await;
    let draining = Ways::start(&database, |_| {}).await;
    draining.state.start_draining();
    let limited = Ways::start(&database, |config| {
        config.limit_requests_per_second = 1;
        config.limit_requests_burst = 1;
    })
    .await;
    for method in ["GET", "HEAD"] {
        for fields in ["", BROWSER] {
            let seen = down.same(&request(method, "/to", fields)).await;
            assert_eq!(seen.status, 503, "{seen:?}");
            let seen = draining.same(&request(method, "/to", fields)).await;
            let close = ("connection".to_owned(), "close".to_owned());
            assert!(seen.fields.contains(&close), "{seen:?}");
            let mut refused = Vec::new();
            for way in limited.ways {
                let request = request(method, "/to", fields);
                let mut seen = limited.see(way, &request).await;
                // The first request passes, and so may a later one on a slow machine.
                while seen.status != 429 {
                    seen = limited.see(way, &request).await;
                }
                refused.push(seen);
            }
            assert_eq!(refused[0], refused[1]);
        }
    }
}

#[tokio::test]
async fn what_is_no_job_or_cannot_be_accepted_is_the_same() {
    let database = TestDatabase::new().await;
    let off = Ways::start(&database, |_| {}).await;
    assert_eq!(off.same(&job(JSON, JOB)).await.status, 501);
    let down = Ways::start(&database, |config| {
        config.queue.queue_url = Some("amqp://u:p@127.0.0.1:1/none".to_owned());
    })
    .await;
    let key = format!("{JSON}idempotency-key: a b\r\n");
    let long = "x".repeat(70_000);
    for (fields, body, status) in [
        (JSON, JOB, 503),
        ("", JOB, 415),
        (JSON, "[]", 400),
        (JSON, "{", 400),
        (JSON, "", 400),
        (JSON, r#"{"task":"wait"}"#, 403),
        (JSON, &long, 413),
        (&key, JOB, 400),
    ] {
        let seen = down.same(&job(fields, body)).await;
        assert_eq!(seen.status, status, "{fields}{body}: {seen:?}");
        assert_eq!(seen.line["http.route"], "/jobs");
    }
}

#[tokio::test]
async fn a_job_is_accepted_counted_and_logged_alike_along_both_ways() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let ways = Ways::start(&database, |config| {
        config.queue.queue_url = Some(broker.url());
    })
    .await;
    let mut accepted = Vec::new();
    for way in ways.ways {
        let mut seen = ways.see(way, &job(JSON, JOB)).await;
        // Until the publisher is connected.
        while seen.status == 503 {
            seen = ways.see(way, &job(JSON, JOB)).await;
        }
        assert_eq!(seen.status, 202, "{seen:?}");
        let mut body: Value = serde_json::from_str(&seen.body).unwrap();
        let id = body.as_object_mut().unwrap().remove("id").unwrap();
        let message = broker.get("jobs").await.unwrap();
        let sent = message.properties.message_id().clone().unwrap();
        assert_eq!(id, sent.as_str());
        assert_eq!(message.data, JOB.as_bytes());
        message.ack(Default::default()).await.unwrap();
        accepted.push(Seen {
            body: body.to_string(),
            ..seen
        });
    }
    assert_eq!(accepted[0], accepted[1]);
}
