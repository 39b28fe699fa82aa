//! The commands against a server that stands in for the app.

use std::{
    collections::BTreeMap,
    io::{Read, Seek, SeekFrom, Write},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use shortener_app::{
    error::FieldError,
    routes::admin::transfer::bodies::{ImportResponse, ImportResult},
    store::management::{Imported, PortableLink, Summary},
};
use tokio::net::{TcpListener, TcpStream};

use super::{
    api::{Api, Connect, Stream},
    export::{pages, to_last_line},
    import::{Outcome, Report, run},
    *,
};

/// Links by their codes, what the key may do, and the number of requests.
#[derive(Default)]
struct Service {
    links: BTreeMap<String, String>,
    scopes: Vec<&'static str>,
    requests: usize,
    /// The statuses of the next answers, which come after the work is done.
    lost: Vec<u16>,
}

type Shared = Arc<Mutex<Service>>;

/// The number of links on a page of the service.
const PAGE: usize = 2;

async fn export_page(
    State(service): State<Shared>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    assert_eq!(headers["authorization"], "Bearer secret");
    let mut service = service.lock();
    service.requests += 1;
    if let Some(status) = service.lost.pop() {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    let query = query.unwrap_or_default();
    let after = query.strip_prefix("after=").unwrap_or_default();
    let mut links = service
        .links
        .iter()
        .filter(|(code, _)| code.as_str() > after);
    let page: Vec<_> = links.by_ref().take(PAGE).collect();
    let text: String = page.iter().map(|(_, link)| format!("{link}\n")).collect();
    let mut response = text.into_response();
    if links.next().is_some() {
        let last = page.last().unwrap().0;
        let link = format!("</api/admin/export/links?after={last}&limit={PAGE}>; rel=\"next\"");
        response.headers_mut().insert("link", link.parse().unwrap());
    }
    response
}

async fn import_lines(State(service): State<Shared>, body: Bytes) -> Response {
    assert!(body.len() <= 128 * 1024);
    let mut service = service.lock();
    service.requests += 1;
    let mut results = Vec::new();
    for (number, line) in (1..).zip(body.split(|byte| *byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        let link: PortableLink = serde_json::from_slice(line).unwrap();
        let text = String::from_utf8(line.to_vec()).unwrap();
        let imported = match service.links.get(&link.code) {
            None => Imported::Created,
            Some(known) if *known == text => Imported::Unchanged,
            Some(_) => Imported::Conflict("the code has another destination"),
        };
        if link.code.contains('.') {
            let fault = FieldError {
                field: "code",
                reason: "must be short".to_owned(),
            };
            results.push(ImportResult::invalid(number, Some(link.code), vec![fault]));
            continue;
        }
        results.push(ImportResult::new(number, &link.code, imported));
        service.links.entry(link.code).or_insert(text);
    }
    assert!(results.len() <= 500);
    if let Some(status) = service.lost.pop() {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    let response = ImportResponse::new(Summary::default(), results);
    axum::Json(response).into_response()
}

async fn overview(State(service): State<Shared>) -> Response {
    let client = json!({"name": "shop", "scopes": service.lock().scopes});
    axum::Json(json!({"client": client})).into_response()
}

/// Starts a service, and returns it with its API.
async fn start() -> (Shared, Api) {
    let service = Shared::default();
    let router = Router::new()
        .route("/api/admin/export/links", get(export_page))
        .route("/api/admin/import/links", post(import_lines))
        .route("/api/admin/overview", get(overview))
        .with_state(Arc::clone(&service));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let connect: Connect = Box::new(move || {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            Ok(Box::pin(stream) as Pin<Box<dyn Stream>>)
        })
    });
    let api = Api::new(connect, HeaderValue::from_static("Bearer secret"));
    (service, api.with_retries(Duration::from_millis(1), 3))
}

fn line(code: &str) -> String {
    json!({"code": code, "url": "https://example.com/"}).to_string()
}

fn holding(service: &Shared, codes: &[&str]) {
    let links = codes.iter().map(|code| ((*code).to_owned(), line(code)));
    service.lock().links.extend(links);
}

/// Imports a file, and returns the result with what was printed.
async fn imported(
    api: &mut Api,
    format: Format,
    file: &str,
) -> (Result<Outcome, TransferError>, String) {
    let (mut out, input) = (Vec::new(), std::io::Cursor::new(file.to_owned()));
    let mut report = Report::Lines(&mut out);
    let outcome = run(api, Box::new(input), format, false, &mut report).await;
    (outcome, String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn an_export_has_every_page_once_and_goes_on_behind_a_code() {
    let (service, mut api) = start().await;
    holding(&service, &["a", "b", "c", "d", "e"]);
    service.lock().lost = vec![503, 502];
    let mut out = Vec::new();
    let never = std::future::pending();
    pages(&mut api, None, &mut out, never).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text,
        ["a", "b", "c", "d", "e"]
            .map(|code| line(code) + "\n")
            .concat()
    );
    assert_eq!(service.lock().requests, 5, "two of them again");
    let mut rest = Vec::new();
    let never = std::future::pending();
    pages(&mut api, Some("b".to_owned()), &mut rest, never)
        .await
        .unwrap();
    assert!(text.ends_with(str::from_utf8(&rest).unwrap()));
    assert_eq!(rest.split(|byte| *byte == b'\n').count(), 4);
}

#[tokio::test]
async fn an_export_is_of_one_client_unless_the_key_sees_every_link() {
    let (service, mut api) = start().await;
    for (scopes, client) in [
        (vec!["links:own"], Some("shop".to_owned())),
        (vec!["links:own", "links:all"], None),
        (vec!["links:own", "links:all", "admin"], None),
    ] {
        service.lock().scopes = scopes;
        assert_eq!(api.sees_only().await.unwrap(), client);
    }
}

/// Ends with an error when it gets its second page.
struct Full(Vec<u8>);

impl Write for Full {
    fn write(&mut self, page: &[u8]) -> io::Result<usize> {
        if !self.0.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.write(page)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_export_that_ends_early_names_the_last_code_that_was_written() {
    let (service, mut api) = start().await;
    holding(&service, &["a", "b", "c"]);
    let never = std::future::pending();
    let failed = pages(&mut api, None, &mut Full(Vec::new()), never).await;
    let error = failed.unwrap_err().to_string();
    assert!(error.ends_with("; continue with --after b"), "{error}");
    let now = std::future::ready(());
    let stopped = pages(&mut api, Some("b".to_owned()), &mut Vec::new(), now).await;
    let error = stopped.unwrap_err().to_string();
    assert_eq!(error, "interrupted; continue with --after b");
}

#[test]
fn what_is_left_of_a_page_goes_before_an_export_continues() {
    let long = "x".repeat(20_000);
    for (text, left) in [
        ("", ""),
        ("{\"a\":1}\n", "{\"a\":1}\n"),
        ("{\"a\":1}\n{\"b\"", "{\"a\":1}\n"),
        ("{\"a\"", ""),
        (&format!("{{}}\n{long}"), "{}\n"),
        (&long, ""),
    ] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        to_last_line(&mut file).unwrap();
        file.write_all(b"more").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut found = String::new();
        file.read_to_string(&mut found).unwrap();
        assert_eq!(found, format!("{left}more"));
    }
}

#[tokio::test]
async fn an_import_sends_batches_and_says_what_became_of_each_other_line() {
    let (service, mut api) = start().await;
    holding(&service, &["known"]);
    let links: Vec<String> = (0..1200).map(|n| line(&format!("c{n}"))).collect();
    let other = json!({"code": "known", "url": "https://example.com/other"}).to_string();
    let file = [
        line("known"),
        other,
        "x".to_owned(),
        line("a.b"),
        links.join("\n"),
    ]
    .join("\n");
    let (outcome, out) = imported(&mut api, Format::Ndjson, &file).await;
    let expected = Outcome {
        created: 1200,
        unchanged: 1,
        conflict: 1,
        invalid: 2,
    };
    assert_eq!(outcome.unwrap(), expected);
    assert!(!expected.is_complete());
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "line 2: known: conflict: the code has another destination",
            "line 3: -: invalid: the line is no JSON object",
            "line 4: a.b: invalid: code must be short",
        ]
    );
    assert_eq!(service.lock().requests, 3);
}

#[tokio::test]
async fn a_batch_whose_outcome_is_unknown_is_sent_again_and_stored_once() {
    let (service, mut api) = start().await;
    service.lock().lost = vec![504, 503];
    let file = [line("a"), line("b")].join("\n");
    let (outcome, _) = imported(&mut api, Format::Ndjson, &file).await;
    let expected = Outcome {
        unchanged: 2,
        ..Outcome::default()
    };
    assert_eq!(
        outcome.unwrap(),
        expected,
        "the first request has stored them"
    );
    assert!(expected.is_complete());
    assert_eq!(service.lock().links.len(), 2);

    service.lock().lost = vec![503; 9];
    let (failed, _) = imported(&mut api, Format::Ndjson, &file).await;
    assert!(failed.unwrap_err().to_string().contains("503"));
    assert_eq!(
        service.lock().lost.len(),
        5,
        "one request and three further ones"
    );
    service.lock().lost = vec![403; 2];
    let (refused, _) = imported(&mut api, Format::Ndjson, &file).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("refused the request")
    );
    assert_eq!(
        service.lock().lost.len(),
        1,
        "which another request would not change"
    );
}

#[tokio::test]
async fn a_file_of_another_shortener_is_imported_and_a_broken_one_up_to_its_fault() {
    let (service, mut api) = start().await;
    let file = include_str!("source/samples/kutt.json");
    let (outcome, out) = imported(&mut api, Format::Kutt, file).await;
    assert_eq!(outcome.unwrap().created, 2);
    assert_eq!(
        out,
        "line 3: k3: invalid: the link has a password, and links here have none\n"
    );
    assert!(service.lock().links.contains_key("k1"));
    let broken = file.replace("k1", "k4").replace("]}", "");
    let (failed, _) = imported(&mut api, Format::Kutt, &broken).await;
    assert!(matches!(failed, Err(TransferError::Source(_))));
}
