//! Every page, with the longest and the most hostile texts that it can show.
//!
//! `make integrations` looks at the pages in a browser (e2e/checks/pages): `PAGES_FOLDER` is a folder for the responses, as
//! the app has sent them, and for the texts that a visitor must see.

use std::{env, fs, path::Path};

use serde_json::json;
use shortener_app::page;
use shortener_testing::{client::Response, database::TestDatabase};
use sqlx::{ConnectOptions, Executor};

use crate::{
    client::{request, shorten},
    management::{Keys, manage},
    support::App,
};

/// The header by which a browser asks for a page.
pub const BROWSER: &str =
    "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

/// A link that stands in the documents. It does not expire, so that its page is always the same.
const CODE: &str = "k7Qm2xB";
const URL: &str = "https://example.com/spring/offers?from=newsletter&page=2";
/// The beginning of a destination, and a notice, that would be markup if they were not escaped, or escaped once only.
const HOSTILE_URL: &str =
    "https://xn--bcher-kva.example/'onmouseover='alert(1)?a=1&b=&lt;script&gt;";
const HOSTILE_NOTICE: &str =
    "<script>alert('1')</script> & <b>an order</b> of the court, \"7 O 12\"";

/// Checks that a response is a complete page, and returns it.
#[track_caller]
pub fn page_of(response: &Response, status: u16) -> String {
    assert_eq!(response.status, status, "{response:?}");
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", page::policy()),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("vary", "accept"),
    ] {
        assert_eq!(response.header(name), Some(value), "{response:?}");
    }
    let text = response.text();
    assert!(text.starts_with("<!doctype html>"), "{text}");
    assert!(text.ends_with("</html>\n"), "{text}");
    text
}

/// Opens a path as a browser does.
pub async fn browse(app: &App, path: &str) -> Response {
    request(app.public, "GET", path, BROWSER).await
}

/// Makes a link `ended` that has expired.
pub async fn expire_one(database: &TestDatabase, app: &App) {
    shorten(
        app.public,
        json!({"url": "https://example.com/", "code": "ended", "ttl_seconds": 60}),
    )
    .await;
    let mut connection = database.connect().await.unwrap();
    let end = "UPDATE links SET created_at = now() - interval '2 minutes', expires_at = now() WHERE code = 'ended'";
    connection.execute(end).await.unwrap();
}

/// Returns what a browser gets that comes too often.
pub async fn come_too_often(database: &TestDatabase) -> Response {
    let app = App::start_with(database, |config| {
        config.limit_requests_per_second = 1;
        config.limit_requests_burst = 1;
    })
    .await;
    let mut refused = browse(&app, "/none").await;
    for _ in 0..100 {
        if refused.status == 429 {
            break;
        }
        refused = browse(&app, "/none").await;
    }
    refused
}

/// Starts an app whose database is down.
pub async fn start_without_database(database: &TestDatabase) -> App {
    App::start_with(database, |config| {
        config.database.database_url = Some("postgres://u:p@127.0.0.1:1/none".to_owned());
    })
    .await
}

/// A page, and the texts that a visitor must see.
struct Page<'a> {
    name: &'static str,
    status: u16,
    response: Response,
    texts: &'a [&'a str],
}

fn page<'a>(name: &'static str, status: u16, response: Response, texts: &'a [&'a str]) -> Page<'a> {
    Page {
        name,
        status,
        response,
        texts,
    }
}

impl Page<'_> {
    /// Writes the response as the app has sent it, and the texts, one a line.
    fn write(&self, folder: &Path) {
        let mut response = format!("HTTP/1.1 {} \r\n", self.status).into_bytes();
        for (name, value) in &self.response.headers {
            response.extend(name.bytes().chain(*b": "));
            response.extend(value.iter().chain(b"\r\n"));
        }
        response.extend(b"\r\n");
        response.extend(&self.response.body);
        fs::write(folder.join(format!("{}.http", self.name)), response).unwrap();
        let texts = self.texts.join("\n");
        fs::write(folder.join(format!("{}.txt", self.name)), texts).unwrap();
    }
}

/// Makes a link for each page that needs one.
async fn make_links(database: &TestDatabase, app: &App, long_code: &str, long_url: &str) {
    expire_one(database, app).await;
    for link in [
        json!({"code": CODE, "url": URL}),
        json!({"code": long_code, "url": long_url, "ttl_seconds": 3600}),
        json!({"code": "legal", "url": URL}),
    ] {
        shorten(app.public, link).await;
    }
    let takedown = json!({"reason": "order 7", "legal": true, "notice": HOSTILE_NOTICE});
    let disabled = manage(app, "POST", "/legal/disable", Some(takedown)).await;
    assert_eq!(disabled.status, 200, "{disabled:?}");
}

#[tokio::test]
async fn every_page_is_complete_and_takes_texts_for_texts() {
    let database = TestDatabase::new().await;
    let keys = Keys::new();
    let app = App::start_with(&database, |config| keys.configure(config)).await;
    let long_code = "n".repeat(64);
    let long_url = format!("{HOSTILE_URL}{}", "x".repeat(2048 - HOSTILE_URL.len()));
    make_links(&database, &app, &long_code, &long_url).await;
    let without_database = start_without_database(&database).await;

    let short = browse(&app, &format!("/{CODE}+")).await;
    let long = browse(&app, &format!("/{long_code}+")).await;
    let long_texts: [&str; 2] = [&long_code, &long_url];
    let pages = [
        page("preview", 200, short, &[CODE, "example.com", URL, "never"]),
        page("preview-of-much", 200, long, &long_texts),
        page(
            "not-found",
            404,
            browse(&app, "/none").await,
            &["There is nothing here"],
        ),
        page(
            "ended",
            410,
            browse(&app, "/ended").await,
            &["This link has ended"],
        ),
        page(
            "too-many",
            429,
            come_too_often(&database).await,
            &["Too many requests"],
        ),
        page(
            "legal",
            451,
            browse(&app, "/legal").await,
            &[HOSTILE_NOTICE],
        ),
        page(
            "unavailable",
            503,
            browse(&without_database, "/none").await,
            &["Not available at the moment"],
        ),
    ];
    for page in &pages {
        let text = page_of(&page.response, page.status);
        for markup in ["<script", "<b>", "&lt;script&gt;x"] {
            assert!(!text.contains(markup), "{}: {text}", page.name);
        }
        if let Some(folder) = env::var_os("PAGES_FOLDER") {
            page.write(Path::new(&folder));
        }
    }
}
