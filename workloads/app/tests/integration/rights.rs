//! The rights of clients in management: those of the scopes `links:own`, `links:all` and `admin`.

mod erasure;

use serde_json::{Value, json};
use shortener_app::{
    config::ServeArgs,
    store::management::{IN_ORDER, OWN_CLICKS, OWN_LINKS},
};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};
use tempfile::TempDir;

use crate::{
    client::{Response, json_bytes, request, send, typed_bytes},
    keys::secret,
    support::App,
};

const URL: &str = "https://example.com/";

/// Clients, each with its key and its scopes.
const CLIENTS: [(&str, &str, &str); 4] = [
    ("boss", "0123456789abcdef0123456789abcd-boss", "admin"),
    ("desk", "0123456789abcdef0123456789abcd-desk", "links:all"),
    ("shop", "0123456789abcdef0123456789abcd-shop", "links:own"),
    ("mail", "0123456789abcdef0123456789abcd-mail", "links:own"),
];

/// An app with these clients.
struct World {
    app: App,
    _keys: TempDir,
}

impl World {
    async fn start(database: &PgConnectOptions) -> Self {
        let scopes = CLIENTS.map(|(client, _, _)| format!("{client}.scopes"));
        let entries = CLIENTS.iter().zip(&scopes);
        let entries: Vec<(&str, &str)> = entries
            .flat_map(|((client, key, words), scopes)| [(*client, *key), (scopes.as_str(), *words)])
            .collect();
        let keys = secret(&entries);
        let configure = |config: &mut ServeArgs| {
            config.auth.auth_keys_directory = vec![keys.path().to_owned()];
        };
        Self {
            app: App::start_with(database, configure).await,
            _keys: keys,
        }
    }

    /// Sends a request to a route of management as this client.
    async fn send(&self, client: &str, method: &str, path: &str, body: Option<Value>) -> Response {
        let (_, key, _) = CLIENTS.iter().find(|(name, ..)| *name == client).unwrap();
        let headers = format!("authorization: Bearer {key}\r\n");
        let path = format!("/api/admin{path}");
        match body {
            Some(body) => {
                let bytes = json_bytes(method, &path, &headers, body.to_string().as_bytes());
                send(self.app.public, bytes).await
            }
            None => request(self.app.public, method, &path, &headers).await,
        }
    }

    async fn get(&self, client: &str, path: &str) -> Response {
        self.send(client, "GET", path, None).await
    }

    /// Creates links as this client.
    async fn create(&self, client: &str, codes: &[&str]) {
        let links = codes.iter().map(|code| json!({"url": URL, "code": code}));
        let links = json!({"links": links.collect::<Vec<_>>()});
        let created = self.send(client, "POST", "/links", Some(links)).await;
        for result in created.json()["results"].as_array().unwrap() {
            assert_eq!(result["status"], 201, "{result}");
        }
    }
}

/// Returns the codes of links in an answer.
fn codes(response: &Response) -> String {
    assert_eq!(response.status, 200, "{response:?}");
    let page = response.json();
    let links = page["links"].as_array().unwrap();
    let codes = links.iter().map(|link| link["code"].as_str().unwrap());
    codes.collect::<Vec<_>>().join(" ")
}

/// Checks that a link is refused because it is another client's.
#[track_caller]
fn is_foreign(response: &Response) {
    response.problem(403, "forbidden");
    let detail = "The link belongs to another client or to none, or others have disabled it; this needs the scope `links:all`.";
    assert_eq!(response.json()["detail"], detail);
    let challenge = response.header("www-authenticate").unwrap();
    assert!(challenge.ends_with("error=\"insufficient_scope\", scope=\"links:all\""));
}

#[tokio::test]
async fn a_client_with_own_links_manages_these_and_no_others() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    world.create("shop", &["s1", "s2"]).await;
    world.create("mail", &["m1"]).await;
    let anonymous = "INSERT INTO links (code, url) VALUES ('a1', 'https://example.com/')";
    let mut connection = database.connect().await.unwrap();
    connection.execute(anonymous).await.unwrap();
    let reason = json!({"reason": "spam"});
    let routes = [
        ("GET", "", None),
        ("GET", "/clicks", None),
        ("PATCH", "", Some(json!({"title": "New"}))),
        ("POST", "/disable", Some(reason.clone())),
        ("POST", "/enable", Some(reason.clone())),
        ("DELETE", "", Some(reason)),
    ];
    for (method, end, body) in routes {
        for foreign in ["m1", "a1"] {
            let path = format!("/links/{foreign}{end}");
            let refused = world.send("shop", method, &path, body.clone()).await;
            is_foreign(&refused);
        }
        let unknown = format!("/links/none{end}");
        let unknown = world.send("shop", method, &unknown, body.clone()).await;
        unknown.problem(404, "not-found");
        for (client, code) in [("shop", "s1"), ("desk", "m1")] {
            let path = format!("/links/{code}{end}");
            let done = world.send(client, method, &path, body.clone()).await;
            assert!(done.status < 300, "{method} {path}: {done:?}");
        }
    }
    let foreign = world.get("desk", "/links/a1").await.json();
    assert_eq!(
        (&foreign["title"], &foreign["state"]),
        (&Value::Null, &json!("live"))
    );
}

#[tokio::test]
async fn a_client_with_own_links_cannot_undo_a_takedown_by_others() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    world.create("shop", &["s1", "s2"]).await;
    let reason = || Some(json!({"reason": "phishing"}));
    let disable = async |client, code| {
        let path = format!("/links/{code}/disable");
        let disabled = world.send(client, "POST", &path, reason()).await;
        assert_eq!(disabled.status, 200, "{disabled:?}");
    };
    // Whether the client has disabled it before, or not.
    disable("shop", "s2").await;
    for code in ["s1", "s2"] {
        disable("desk", code).await;
        for (method, end) in [("POST", "/enable"), ("DELETE", "")] {
            let path = format!("/links/{code}{end}");
            is_foreign(&world.send("shop", method, &path, None).await);
        }
        let path = format!("/links/{code}/enable");
        assert_eq!(world.send("desk", "POST", &path, None).await.status, 200);
        disable("shop", code).await;
        assert_eq!(world.send("shop", "POST", &path, None).await.status, 200);
    }
}

#[tokio::test]
async fn lists_searches_exports_and_clicks_show_own_links_only() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    world.create("shop", &["s1", "b1", "s2"]).await;
    world.create("mail", &["m1", "s3"]).await;
    let clicks = "INSERT INTO clicks SELECT code, (now() AT TIME ZONE 'UTC')::date, 5, 1 FROM links; \
        INSERT INTO link_tags SELECT 'sale', created_at, code FROM links";
    let mut connection = database.connect().await.unwrap();
    connection.execute(clicks).await.unwrap();
    for (client, query, expected) in [
        ("shop", "", "s1 b1 s2"),
        ("shop", "?order=newest&limit=2", "s2 b1"),
        ("shop", "?code=s", "s1 s2"),
        ("shop", "?tag=sale", "s1 b1 s2"),
        ("shop", "?created_by=shop", "s1 b1 s2"),
        ("shop", "?created_by=mail", ""),
        ("shop", "?state=disabled", ""),
        ("mail", "?host=example.com&state=live", "m1 s3"),
        ("desk", "?code=s", "s1 s2 s3"),
        ("boss", "", "s1 b1 s2 m1 s3"),
    ] {
        let listed = world.get(client, &format!("/links{query}")).await;
        assert_eq!(codes(&listed), expected, "{client} {query}");
    }
    for (client, expected) in [
        ("shop", "b1 s1 s2"),
        ("mail", "m1 s3"),
        ("desk", "b1 m1 s1 s2 s3"),
    ] {
        let top = world.get(client, "/clicks/top").await;
        assert_eq!(codes(&top), expected, "{client}");
        let mut exported = String::new();
        let mut after = String::new();
        loop {
            let page = world
                .get(client, &format!("/export/links?limit=2{after}"))
                .await;
            exported += &page.text();
            match page.header("link") {
                Some(link) => {
                    let (_, rest) = link.split_once("after=").unwrap();
                    after = format!("&after={}", rest.split('&').next().unwrap());
                }
                None => break,
            }
        }
        let lines = exported
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        let codes: Vec<&str> = lines
            .iter()
            .map(|link| link["code"].as_str().unwrap())
            .collect();
        assert_eq!(codes.join(" "), expected, "{client}");
        for line in lines {
            assert_eq!(line["clicks"][0]["people"], 5, "{line}");
        }
    }
}

#[tokio::test]
async fn no_page_of_own_links_ends_at_the_link_of_another_client() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    let mut connection = database.connect().await.unwrap();
    let links = "INSERT INTO links (code, url, created_by, created_at) SELECT 'x' || lpad(n::text, 5, '0'), \
            'https://a.example/', CASE n % 2 WHEN 0 THEN 'shop' ELSE 'mail' END, \
            now() - interval '1 hour' + n * interval '1 ms' FROM generate_series(1, 4100) n; \
        INSERT INTO link_tags SELECT 'all', created_at, code FROM links";
    connection.execute(links).await.unwrap();
    for query in ["code=x", "tag=all", "state=live", "tag=all&state=disabled"] {
        let (mut after, mut found) = (String::new(), 0);
        loop {
            let page = world.get("shop", &format!("/links?{query}{after}")).await;
            found += codes(&page).split_whitespace().count();
            let Some(next) = page.json()["next"].as_str().map(str::to_owned) else {
                break;
            };
            let (_, code) = next.split_once(".x").unwrap();
            assert_eq!(code.parse::<u32>().unwrap() % 2, 0, "{query}: {next}");
            after = format!("&after={next}");
        }
        let expected = if query.ends_with("disabled") { 0 } else { 2050 };
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test]
async fn what_reaches_beyond_own_links_needs_a_scope_for_it() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    for (path, scope) in [("/audit", "admin"), ("/dead-letters", "admin")] {
        for client in ["shop", "desk"] {
            let refused = world.get(client, path).await;
            refused.problem(403, "forbidden");
            let challenge = refused.header("www-authenticate").unwrap();
            assert!(challenge.ends_with(&format!("scope=\"{scope}\"")));
        }
    }
    assert_eq!(world.get("boss", "/audit").await.status, 200);
    let line = format!("{{\"code\":\"i1\",\"url\":\"{URL}\",\"created_by\":\"shop\"}}\n");
    for (client, status) in [("shop", 403), ("desk", 200)] {
        let (_, key, _) = CLIENTS.iter().find(|(name, ..)| *name == client).unwrap();
        let headers = format!("authorization: Bearer {key}\r\n");
        let ndjson = "application/x-ndjson";
        let path = "/api/admin/import/links";
        let bytes = typed_bytes("POST", path, &headers, ndjson, line.as_bytes());
        assert_eq!(
            send(world.app.public, bytes).await.status,
            status,
            "{client}"
        );
    }
    assert_eq!(codes(&world.get("shop", "/links").await), "i1");
}

/// Fills the links so far that the planner chooses between indexes, and returns a connection with the settings
/// of lists.
async fn fill(database: &PgConnectOptions) -> PgConnection {
    let mut connection = database.connect().await.unwrap();
    let rows = "INSERT INTO links (code, url, created_by) SELECT 'c' || n, 'https://example.com/', 'by' || n % 20 \
            FROM generate_series(1, 60000) n; \
        INSERT INTO link_tags SELECT 't' || right(code, 1), created_at, code FROM links; \
        INSERT INTO clicks SELECT code, current_date - n, 3, 1 FROM links, generate_series(1, 3) n; \
        ANALYZE links, link_labels, link_tags, clicks";
    connection.execute(rows).await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    connection.execute(IN_ORDER).await.unwrap();
    connection
}

#[tokio::test]
async fn an_export_of_own_links_reads_no_others() {
    let database = TestDatabase::new().await;
    let _app = App::start(&database).await;
    let mut connection = fill(&database).await;
    let links = format!("links (text, bigint, bigint, text) AS {OWN_LINKS}");
    let clicks = format!("clicks (text[]) AS {OWN_CLICKS}");
    for (statement, call, index) in [
        (
            links,
            "links ('c3', 1000, 131072, 'by7')",
            "using links_by_creator_and_code on links",
        ),
        (
            clicks,
            "clicks ('{c1,c10,c100}')",
            "using clicks_pkey on clicks",
        ),
    ] {
        let prepare = sqlx::AssertSqlSafe(format!("PREPARE {statement}"));
        connection.execute(prepare).await.unwrap();
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let set = sqlx::AssertSqlSafe(format!("SET plan_cache_mode = {mode}"));
            connection.execute(set).await.unwrap();
            let explain = sqlx::AssertSqlSafe(format!("EXPLAIN EXECUTE {call}"));
            let plan = sqlx::query_scalar(explain).persistent(false);
            let plan: Vec<String> = plan.fetch_all(&mut connection).await.unwrap();
            let plan = plan.join("\n");
            assert!(plan.contains(index), "{plan}");
            assert!(plan.contains("Index Cond: (code = own.code)") || index.contains("links"));
            for bad in [
                "Seq Scan",
                "Bitmap Heap Scan on links",
                "Sort Key: links",
                "Sort Key: clicks",
                "link_tags_pkey",
            ] {
                assert!(!plan.contains(bad), "{plan}");
            }
        }
    }
}

async fn entries(world: &World, query: &str) -> Vec<Value> {
    let page = world.get("boss", &format!("/audit?{query}")).await.json();
    page["entries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn links_pass_to_another_client_which_then_manages_them() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    world.create("shop", &["s1", "s2", "s3"]).await;
    world.create("mail", &["m1"]).await;
    let owner = "INSERT INTO link_owners VALUES ('s3', 'uid', 'team', 'sale')";
    let mut connection = database.connect().await.unwrap();
    connection.execute(owner).await.unwrap();
    let transfer = async |body: Value| world.send("desk", "POST", "/transfer", Some(body)).await;
    let named = json!({"from": "shop", "to": "mail", "codes": ["s1", "s3"]});
    let refused = transfer(named).await;
    refused.problem(409, "managed-link");
    assert!(refused.text().contains("ShortLink team/sale"));

    let named =
        json!({"from": "shop", "to": "mail", "codes": ["s1", "m1", "none"], "reason": "moved"});
    let done = json!({"transferred": 1, "remaining": false});
    assert_eq!(transfer(named.clone()).await.json(), done);
    let nothing = json!({"transferred": 0, "remaining": false});
    assert_eq!(transfer(named).await.json(), nothing);
    is_foreign(&world.get("shop", "/links/s1").await);
    assert_eq!(codes(&world.get("mail", "/links").await), "s1 m1");
    let entry = &entries(&world, "subject=s1").await[0];
    assert_eq!(entry["action"], "link_transferred");
    assert_eq!(
        (&entry["by"], &entry["reason"]),
        (&json!("desk"), &json!("moved"))
    );
    assert_eq!(entry["detail"], json!({"from": "shop", "to": "mail"}));

    let all = json!({"from": "shop", "to": "mail"});
    assert_eq!(transfer(all.clone()).await.json(), done);
    assert_eq!(codes(&world.get("shop", "/links").await), "s3");
    let refused = world.send("mail", "POST", "/transfer", Some(all)).await;
    refused.problem(403, "forbidden");
    assert_eq!(entries(&world, "action=link_transferred").await.len(), 2);
}

#[tokio::test]
async fn many_links_pass_a_bounded_number_at_a_time() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    let mut connection = database.connect().await.unwrap();
    let links = "INSERT INTO links (code, url, created_by) \
        SELECT 'x' || n, 'https://a.example/', 'left' FROM generate_series(1, 2001) n";
    connection.execute(links).await.unwrap();
    for (transferred, remaining) in [(1000, true), (1000, true), (1, false), (0, false)] {
        let body = json!({"from": "left", "to": "shop"});
        let answer = world.send("boss", "POST", "/transfer", Some(body)).await;
        let expected = json!({"transferred": transferred, "remaining": remaining});
        assert_eq!(answer.json(), expected);
    }
    let counts = "SELECT count(*) FROM audit_log WHERE action = 'link_transferred'";
    let written: i64 = sqlx::query_scalar(counts)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(written, 2001);
}
