//! Look-ups of codes that wait for the database at the same time.

use std::{sync::Arc, time::Duration};

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use shortener_app::{
    code::{Code, CodeSpace},
    store::{Resolved, Takedown, cached::CachedLinks, migrate::migrate, postgres::Links},
};
use shortener_common::{
    database::{AdmissionMetrics, Database, StoreError},
    exposition::Format,
};
use shortener_testing::{database::TestDatabase, metrics, otlp::Sink, proxy::Path};
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};
use tokio::task::{JoinHandle, JoinSet, yield_now};

use crate::{
    cache_server::until,
    client::{get, request},
    support::{Blocker, proxy_before},
    telemetry::{assert_call, exporting, trace},
};

/// The number of connections of an app, and of those that look-ups take.
const CONNECTIONS: u32 = 10;
const FOR_LOOK_UPS: usize = 5;
/// The number of codes in one statement.
const MOST: usize = 32;
const PATIENT: Duration = Duration::from_secs(10);

/// Fifty links of each kind, and one that cannot be read.
const LINKS: &str = "\
    INSERT INTO links (code, url) \
        SELECT 'live' || n, 'https://example.com/' || n FROM generate_series(0, 49) n; \
    INSERT INTO links (code, url, expires_at) \
        SELECT 'ended' || n, 'https://example.com/', now() - interval '1 minute' FROM generate_series(0, 49) n; \
    INSERT INTO links (code, disabled_url, disabled_at, disabled_as, notice) \
        SELECT 'legal' || n, 'https://example.com/', now(), 'legal', 'order ' || n FROM generate_series(0, 49) n; \
    INSERT INTO links (code, url, expires_at) VALUES ('unreadable', 'https://example.com/', 'infinity')";

type Answer = Result<Resolved, StoreError>;

/// Returns a database with [`LINKS`].
async fn with_links() -> TestDatabase {
    let database = TestDatabase::new().await;
    migrate(database.clone(), PATIENT).await.unwrap();
    let mut connection = database.connect().await.unwrap();
    connection.execute(LINKS).await.unwrap();
    database
}

/// Returns the answer that the database has for a code of [`LINKS`].
fn expected(code: &str) -> Resolved {
    let number = code.trim_start_matches(|sign: char| sign.is_ascii_lowercase());
    match &code[..code.len() - number.len()] {
        "live" => Resolved::To(format!("https://example.com/{number}").into()),
        "ended" => Resolved::Gone,
        "legal" => {
            let notice = Some(format!("order {number}"));
            Resolved::Down(Takedown::Legal { notice })
        }
        _ => Resolved::Nothing,
    }
}

/// The links of a database that is asked over a bounded number of connections.
struct Bounded {
    links: Arc<CachedLinks>,
    metrics: Registry,
}

impl Bounded {
    async fn new(options: &PgConnectOptions, connections: u32) -> Self {
        let mut metrics = Registry::default();
        let admission = AdmissionMetrics::register(&mut metrics);
        let up = Gauge::default();
        let database = Database::connect("test", options.clone(), connections, up, &admission);
        database.wait_until_up(PATIENT).await;
        let links = Links::new(database, CodeSpace::default());
        Self {
            links: Arc::new(CachedLinks::new(links, None, None)),
            metrics,
        }
    }

    fn look_up(&self, code: &str) -> JoinHandle<Answer> {
        let (links, code) = (Arc::clone(&self.links), code.to_owned());
        tokio::spawn(async move { links.find(Code::parse(&code).unwrap()).await })
    }

    /// Returns the value of a metric.
    fn metric(&self, series: &str) -> usize {
        let text = Format::Classic.encode(&self.metrics).unwrap();
        let of = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
        text.lines().find_map(of).unwrap()
    }

    async fn until_waiting(&self, number: usize) {
        until(number, || async { self.metric("database_waiting ") }).await;
    }

    /// Looks up codes one by one until every connection for look-ups is used, and then others, which wait.
    async fn look_up_each(
        &self,
        codes: &[String],
        connections: usize,
        blocker: &mut Blocker,
    ) -> Vec<JoinHandle<Answer>> {
        let mut asked = Vec::new();
        for (blocked, code) in (1..).zip(&codes[..connections]) {
            asked.push(self.look_up(code));
            blocker.wait_for_blocked(blocked).await;
        }
        let waiting = &codes[connections..];
        asked.extend(waiting.iter().map(|code| self.look_up(code)));
        self.until_waiting(waiting.len()).await;
        asked
    }
}

/// Counts the statements that read links: each advances a sequence once, whatever it finds.
struct Statements(PgConnection);

impl Statements {
    async fn count(database: &PgConnectOptions) -> Self {
        let mut connection = database.connect().await.unwrap();
        let swap = "CREATE SEQUENCE statements MINVALUE 0; ALTER TABLE links RENAME TO rows; \
            CREATE VIEW links AS SELECT * FROM rows WHERE (SELECT nextval('statements') >= 0)";
        connection.execute(swap).await.unwrap();
        Self(connection)
    }

    async fn so_far(&mut self) -> i64 {
        let drawn = "SELECT CASE WHEN is_called THEN last_value + 1 ELSE 0 END FROM statements";
        let drawn = sqlx::query_scalar(drawn).fetch_one(&mut self.0);
        drawn.await.unwrap()
    }
}

#[tokio::test]
async fn look_ups_that_wait_are_a_few_statements_and_each_has_its_answer() {
    const WAITING: usize = 6 * MOST;
    let database = with_links().await;
    let mut statements = Statements::count(&database).await;
    let bounded = Bounded::new(&database, CONNECTIONS).await;
    let mut blocker = Blocker::hold(&database).await;
    let kinds = ["live", "ended", "legal", "none"];
    let codes = (0..).flat_map(|number| kinds.map(|kind| format!("{kind}{number}")));
    let codes: Vec<String> = codes.take(FOR_LOOK_UPS + WAITING).collect();
    let asked = bounded
        .look_up_each(&codes, FOR_LOOK_UPS, &mut blocker)
        .await;
    blocker.release().await;
    for (asked, code) in asked.into_iter().zip(codes) {
        assert_eq!(asked.await.unwrap().unwrap(), expected(&code), "{code}");
    }
    assert_eq!(statements.so_far().await, FOR_LOOK_UPS as i64 + 6);
    assert_eq!(bounded.metric("database_waiting "), 0);
    let refused = "database_refused_total{pool=\"look_up\"} ";
    assert_eq!(bounded.metric(refused), 0);
}

#[tokio::test]
async fn a_request_that_leaves_takes_nothing_from_the_others() {
    let database = with_links().await;
    let bounded = Bounded::new(&database, 1).await;
    // The statement is prepared before it meets the lock, so it takes the lock only once.
    assert_eq!(
        bounded.look_up("live0").await.unwrap().unwrap(),
        expected("live0")
    );
    let mut blocker = Blocker::hold(&database).await;
    let first = bounded.look_up("live1");
    blocker.wait_for_blocked(1).await;
    // Gets the lock after the first look-up and before the next ones.
    let options = PgConnectOptions::clone(&database);
    let next = tokio::spawn(async move { Blocker::hold(&options).await });
    blocker.wait_for_blocked(2).await;
    let codes = ["live2", "live3", "ended4", "none5"].map(str::to_owned);
    let waiting = bounded.look_up_each(&codes, 0, &mut blocker).await;
    waiting[0].abort();
    blocker.release().await;
    assert_eq!(first.await.unwrap().unwrap(), expected("live1"));
    let mut blocker = next.await.unwrap();
    blocker.wait_for_blocked(1).await;
    bounded.until_waiting(0).await;
    // The one whose code comes first in the statement.
    waiting[1].abort();
    while !waiting[1].is_finished() {
        yield_now().await;
    }
    blocker.release().await;
    for (asked, code) in waiting.into_iter().zip(codes).skip(2) {
        assert_eq!(asked.await.unwrap().unwrap(), expected(&code), "{code}");
    }
}

#[tokio::test]
async fn a_database_that_is_lost_is_told_to_each() {
    let database = with_links().await;
    let (proxy, options) = proxy_before(&database).await;
    let bounded = Bounded::new(&options, CONNECTIONS).await;
    let mut blocker = Blocker::hold(&database).await;
    let codes: Vec<String> = (0..40).map(|number| format!("live{number}")).collect();
    let asked = bounded
        .look_up_each(&codes, FOR_LOOK_UPS, &mut blocker)
        .await;
    proxy.set(Path::Refused);
    for asked in asked {
        let answer = asked.await.unwrap();
        assert!(
            matches!(answer, Err(StoreError::Unavailable(_))),
            "{answer:?}"
        );
    }
    blocker.release().await;
}

#[tokio::test]
async fn a_statement_that_the_database_rejects_is_an_error_of_each() {
    let database = with_links().await;
    let bounded = Bounded::new(&database, CONNECTIONS).await;
    let mut blocker = Blocker::hold(&database).await;
    let codes: Vec<String> = (0..40).map(|number| format!("live{number}")).collect();
    let asked = bounded
        .look_up_each(&codes, FOR_LOOK_UPS, &mut blocker)
        .await;
    blocker
        .release_after("ALTER TABLE links RENAME TO elsewhere")
        .await;
    for asked in asked {
        let answer = asked.await.unwrap();
        assert!(matches!(answer, Err(StoreError::Internal(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn connections_that_were_lost_while_nobody_used_them_cost_no_look_up() {
    let database = with_links().await;
    let bounded = Bounded::new(&database, CONNECTIONS).await;
    let mut blocker = Blocker::hold(&database).await;
    let codes: Vec<String> = (0..FOR_LOOK_UPS)
        .map(|number| format!("live{number}"))
        .collect();
    let asked = bounded
        .look_up_each(&codes, FOR_LOOK_UPS, &mut blocker)
        .await;
    blocker.release().await;
    for asked in asked {
        asked.await.unwrap().unwrap();
    }
    // The oldest session is that of the watcher, which replaces all connections when it loses its own.
    let end = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'test' \
        ORDER BY backend_start OFFSET 1) AS sessions";
    let mut connection = database.connect().await.unwrap();
    let ended = sqlx::query_scalar::<_, i64>(end);
    let ended = ended.fetch_one(&mut connection).await.unwrap();
    assert_eq!(ended, FOR_LOOK_UPS as i64);
    for code in ["live5", "ended5", "legal5", "none5", "live6"] {
        assert_eq!(
            bounded.look_up(code).await.unwrap().unwrap(),
            expected(code)
        );
    }
}

#[tokio::test]
async fn a_link_that_cannot_be_read_is_an_error_of_its_own_request() {
    let database = with_links().await;
    let bounded = Bounded::new(&database, 1).await;
    let mut blocker = Blocker::hold(&database).await;
    let codes = ["live0", "live1", "unreadable", "legal2", "none3"].map(str::to_owned);
    let asked = bounded.look_up_each(&codes, 1, &mut blocker).await;
    blocker.release().await;
    for (asked, code) in asked.into_iter().zip(codes) {
        let answer = asked.await.unwrap();
        if code == "unreadable" {
            assert!(matches!(answer, Err(StoreError::Internal(_))), "{answer:?}");
        } else {
            assert_eq!(answer.unwrap(), expected(&code), "{code}");
        }
    }
}

#[tokio::test]
async fn each_request_shows_its_look_up_also_if_they_share_a_statement() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    let app = exporting(&database, endpoint, |_| {}).await;
    let mut blocker = Blocker::hold(&database).await;
    let mut requests = JoinSet::new();
    for blocked in 1..=FOR_LOOK_UPS as i64 {
        let path = format!("/unknown-{blocked}");
        requests.spawn(async move { get(app.public, &path).await });
        blocker.wait_for_blocked(blocked).await;
    }
    let traces = [1, 2].map(trace);
    for (number, (_, header)) in traces.clone().into_iter().enumerate() {
        let path = format!("/waiting-{number}");
        requests.spawn(async move { request(app.public, "GET", &path, &header).await });
        let waiting = format!("database_waiting {}", number + 1);
        metrics::wait_for(app.internal, &waiting).await;
    }
    blocker.release().await;
    for response in requests.join_all().await {
        response.problem(404, "not-found");
    }
    for (trace, _) in &traces {
        let request = sink.span(trace, "GET /{code}").await;
        let look_up = sink.span(trace, "SELECT links").await;
        assert_call(&look_up, &request, "postgresql", database.get_port());
        assert_eq!(sink.spans(trace).len(), 2);
    }
}
