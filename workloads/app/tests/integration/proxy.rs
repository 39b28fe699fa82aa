//! People whom a proxy has signed in: who counts as one, what they may do, and what is left of them.

use serde_json::{Value, json};
use shortener_app::{
    config::{Cli, Command, ServeArgs},
    route::ROUTES,
};
use shortener_testing::database::TestDatabase;
use tempfile::TempDir;

use crate::{
    client::{Response, exchange},
    keys::secret,
    support::App,
};

const SECRET: &str = "0123456789abcdef0123456789proxy1";
const NEXT: &str = "0123456789abcdef0123456789proxy2";
const ADMIN: &str = "0123456789abcdef01234567890admin";
const SCOPES: &str = r#"{"editors": ["links:own", "shorten"], "staff": ["admin"]}"#;

/// A service behind a proxy.
struct World {
    app: App,
    _database: TestDatabase,
    _secrets: [TempDir; 2],
}

/// Returns the settings of a proxy with these addresses.
fn arguments(folder: &TempDir, peers: Option<&str>) -> ServeArgs {
    let mut flags = vec![
        "app".to_owned(),
        "serve".to_owned(),
        "--database-url=postgres://db/x".to_owned(),
        format!("--auth-proxy-secret-directory={}", folder.path().display()),
        "--auth-proxy-user-header=X-Auth-Request-User".to_owned(),
        "--auth-proxy-groups-header=X-Auth-Request-Groups".to_owned(),
        format!("--auth-proxy-scopes={SCOPES}"),
    ];
    flags.extend(peers.map(|peers| format!("--auth-proxy-trusted-peers={peers}")));
    match <Cli as clap::Parser>::parse_from(flags).command {
        Command::Serve(args) => *args,
        other => panic!("parsed as {other:?}"),
    }
}

async fn world(peers: Option<&str>) -> World {
    let database = TestDatabase::new().await;
    let keys = secret(&[("ops", ADMIN)]);
    let lines = format!("{SECRET}\n{NEXT}\n");
    let proxy = secret(&[("secret", lines.as_str())]);
    let settings = arguments(&proxy, peers).auth.proxy;
    let app = App::start_with(&database, |config: &mut ServeArgs| {
        config.auth.auth_keys_directory = vec![keys.path().to_owned()];
        config.auth.proxy = settings;
        config.console.console_enabled = true;
        config.console.console_host = Some("console.test".to_owned());
    });
    World {
        app: app.await,
        _database: database,
        _secrets: [keys, proxy],
    }
}

impl World {
    /// Sends a request with these header lines and this body.
    async fn ask(&self, method: &str, path: &str, lines: &[&str], body: Option<Value>) -> Response {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: console.test\r\nconnection: close\r\n\
            content-type: application/json\r\ncontent-length: {length}\r\n{lines}\r\n{body}"
        );
        exchange(self.app.public, request.as_bytes()).await
    }
}

/// The header lines of a request that a proxy with this secret passes on.
fn proxied<'a>(secret: &'a str, user: &'a str, groups: &'a str) -> [String; 3] {
    [
        format!("x-auth-proxy-secret: {secret}"),
        format!("x-auth-request-user: {user}"),
        format!("x-auth-request-groups: {groups}"),
    ]
}

fn lines(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn forged_headers_let_nobody_in_on_any_route() {
    let trusting = world(Some("127.0.0.0/8,::1/128")).await;
    let distant = world(Some("203.0.113.0/24")).await;
    let good = proxied(SECRET, "ann", "staff");
    let overview = trusting
        .ask("GET", "/api/admin/overview", &lines(&good), None)
        .await;
    assert_eq!(overview.status, 200);

    let wrong = proxied("0123456789abcdef0123456789proxy3", "ann", "staff");
    let twice = [good.as_slice(), &good[..1]].concat();
    let two_people = [good.as_slice(), &["x-auth-request-user: bob".to_owned()]].concat();
    let spelled = [
        "X_Auth_Proxy_Secret: 0123456789abcdef0123456789proxy1".to_owned(),
        "X_Auth_Request_User: ann".to_owned(),
        "X_Auth_Request_Groups: staff".to_owned(),
    ];
    let key = [format!("authorization: Bearer {SECRET}")];
    let forged = [
        (&trusting, lines(&good[1..])),
        (&trusting, lines(&wrong)),
        (&trusting, lines(&twice)),
        (&trusting, lines(&two_people)),
        (&trusting, lines(&spelled)),
        (&trusting, lines(&key)),
        (&distant, lines(&good)),
    ];
    for row in ROUTES.iter().filter(|row| row.scope.is_some()) {
        let path = row.template.replace("{code}", "abc").replace("{id}", "abc");
        for method in ["GET", "POST", "PATCH", "PUT", "DELETE"] {
            for (world, lines) in &forged {
                let refused = world.ask(method, &path, lines, None).await;
                assert_eq!(refused.status, 401, "{method} {path} {lines:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_link_is_followed_without_a_look_at_the_headers_of_the_proxy() {
    let world = world(None).await;
    let editor = proxied(NEXT, "ann", "editors");
    let body = json!({"url": "https://example.com/", "code": "sale"});
    let created = world
        .ask("POST", "/shorten", &lines(&editor), Some(body))
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    for secret in [SECRET, "wrong"] {
        let twice = [proxied(secret, "ann", "staff"), proxied(secret, "bob", "")].concat();
        assert_eq!(
            world.ask("GET", "/sale", &lines(&twice), None).await.status,
            302
        );
    }
}

#[tokio::test]
async fn a_person_has_what_the_groups_give_and_is_named_in_the_audit_log_until_erased() {
    let world = world(None).await;
    let ann = proxied(SECRET, "ann@example.com", "editors");
    let bob = proxied(SECRET, "bob@example.com", "editors");
    let overview = world
        .ask("GET", "/api/admin/overview", &lines(&ann), None)
        .await;
    assert_eq!(
        overview.json()["client"],
        json!({"name": "user/ann@example.com", "scopes": ["shorten", "links:own"]})
    );
    let nobody = proxied(SECRET, "eve@example.com", "");
    let refused = world
        .ask("GET", "/api/admin/overview", &lines(&nobody), None)
        .await;
    refused.problem(403, "forbidden");

    let body = json!({"links": [{"url": "https://example.com/", "code": "sale"}]});
    let created = world
        .ask("POST", "/api/admin/links", &lines(&ann), Some(body))
        .await;
    assert_eq!(created.status, 200, "{created:?}");
    let path = "/api/admin/links/sale";
    let foreign = world.ask("GET", path, &lines(&bob), None).await;
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let link = world.ask("GET", path, &lines(&ann), None).await.json();
    assert_eq!(link["created_by"], "user/ann@example.com");
    let reason = Some(json!({"reason": "wrong"}));
    let disable = format!("{path}/disable");
    let disabled = world.ask("POST", &disable, &lines(&ann), reason).await;
    assert_eq!(disabled.status, 200);

    let admin = format!("authorization: Bearer {ADMIN}");
    let over = json!({"from": "user/ann@example.com", "to": "user/bob@example.com"});
    let transferred = world
        .ask("POST", "/api/admin/transfer", &[&admin], Some(over))
        .await;
    assert_eq!(transferred.json()["transferred"], 1, "{transferred:?}");
    assert_eq!(world.ask("GET", path, &lines(&bob), None).await.status, 200);

    let audit = async || {
        let audit = world.ask("GET", "/api/admin/audit", &[&admin], None).await;
        assert_eq!(audit.status, 200);
        audit.text()
    };
    assert!(audit().await.contains("user/ann@example.com"));
    for person in ["ann", "bob"] {
        let erased = json!({"client": format!("user/{person}@example.com")});
        let erased = world
            .ask("POST", "/api/admin/erase", &[&admin], Some(erased))
            .await;
        assert_eq!(erased.status, 200, "{erased:?}");
    }
    let left = audit().await + &world.ask("GET", path, &[&admin], None).await.text();
    assert!(!left.contains("user/"), "{left}");
}

#[tokio::test]
async fn no_page_of_another_origin_acts_for_a_person() {
    let world = world(None).await;
    let ann = proxied(SECRET, "ann", "editors,staff");
    let foreign = "sec-fetch-site: cross-site";
    for row in ROUTES.iter().filter(|row| row.scope.is_some()) {
        let path = row.template.replace("{code}", "abc").replace("{id}", "abc");
        let allowed = ["/metrics", "/jobs", "/docs"];
        if allowed.iter().any(|start| path.starts_with(start)) {
            continue;
        }
        let all = [lines(&ann), vec![foreign]].concat();
        let refused = world.ask("POST", &path, &all, Some(json!({}))).await;
        assert_eq!(refused.json()["type"], "/problems/cross-origin", "{path}");
    }
}

#[tokio::test]
async fn the_console_is_on_its_own_host_only_and_no_link_leads_there() {
    let world = world(None).await;
    for path in ["/", "/console"] {
        let opened = world.ask("GET", path, &[], None).await;
        assert_eq!(
            (opened.status, opened.header("location")),
            (302, Some("/console/"))
        );
    }
    assert_eq!(world.ask("GET", "/console/", &[], None).await.status, 200);
    for path in ["/", "/console", "/console/", "/console/main.mjs"] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: sho.rt\r\nconnection: close\r\n\r\n");
        let answer = exchange(world.app.public, request.as_bytes()).await;
        answer.problem(404, "not-found");
    }
    let admin = format!("authorization: Bearer {ADMIN}");
    let body = json!({"url": "https://console.test/console/"});
    let refused = world.ask("POST", "/shorten", &[&admin], Some(body)).await;
    refused.problem(400, "invalid-fields");
}
