//! Properties that must hold for any input. The fuzz targets search for a counterexample, and the tests replay the
//! corpus.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, header::ACCEPT};
use shortener_app::{
    body, client, code::Code, destination::Destinations, error::Error, location, page,
    routes::shorten, target,
};
use shortener_common::{
    exposition::Format,
    queue::job::Fields,
    trace::{TRACEPARENT, TraceContext},
};

/// Checks that a body is rejected as a client error, or becomes a link that fits into a header and a row.
pub fn shorten(data: &[u8]) {
    let own = Destinations::from(&url::Url::parse("http://sho.rt:8080").expect("a URL"));
    let now = "2030-01-01T00:00:00Z".parse().expect("a time");
    let link = match body::parse_object(data).and_then(|object| shorten::parse(object, &own, now)) {
        Ok(link) => link,
        Err(error) => {
            assert!(
                matches!(error, Error::MalformedJson(_) | Error::InvalidFields(_)),
                "{error:?}"
            );
            let problem = error.to_problem("/shorten", None);
            assert_eq!(problem.status(), 400);
            return;
        }
    };
    let header =
        HeaderValue::from_bytes(link.url.as_bytes()).expect("a destination is a header value");
    assert_eq!(header.as_bytes(), link.url.as_bytes());
    assert!(link.url.len() <= 2048 && !link.url.contains(char::is_control));
    assert!(link.url.starts_with("http://") || link.url.starts_with("https://"));
    assert!(link.code.is_none_or(|code| Code::parse(&code).is_ok()));
    assert!(link.expires_at.is_none_or(|end| end > now));
}

/// Checks that a text is rejected, or is a code that every path represents unchanged.
pub fn code(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(code) = Code::parse(&text) {
        let path = format!("/{}", code.as_str());
        let uri: http::Uri = path.parse().expect("a path");
        assert_eq!(uri.path(), path);
        assert!((1..=64).contains(&code.as_str().len()));
        assert!(
            !["api", "health", "metrics", "shorten", "jobs", "docs"]
                .contains(&code.as_str().to_ascii_lowercase().as_str())
        );
    }
}

/// Checks that exactly those bodies have a task that a worker can read, and that it is the one that the worker finds.
pub fn task_of(data: &[u8]) {
    let found = Fields::read(data).ok().map(|fields| fields.task);
    let read = body::parse_object(data).ok();
    let read = read.map(|object| {
        let task = object.get("task").and_then(|task| task.as_str());
        let characters = task.unwrap_or_default().chars().take(256);
        let shown = characters.map(|sign| if sign == '\0' { '\u{fffd}' } else { sign });
        shown.collect::<String>()
    });
    assert_eq!(found, read);
}

/// Checks that any header is read without a panic, and that entries on the left do not change the client's address.
pub fn headers(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else {
        return;
    };
    let peer = IpAddr::from([10, 0, 0, 1]);
    let mut headers = HeaderMap::new();
    headers.insert(TRACEPARENT, value.clone());
    headers.insert(ACCEPT, value.clone());
    headers.append(client::X_FORWARDED_FOR, value);
    headers.append(
        client::X_FORWARDED_FOR,
        HeaderValue::from_static("203.0.113.9"),
    );
    assert_eq!(
        client::address(peer, &headers, 1),
        IpAddr::from([203, 0, 113, 9])
    );
    assert_eq!(client::address(peer, &headers, 0), peer);
    let _ = client::address(peer, &headers, 3);
    let trace = TraceContext::from_headers(&headers);
    assert!(trace.trace_id.to_string().len() == 32 && trace.span_id.to_string().len() == 16);
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let _ = Format::negotiate(accept);
    let _ = page::is_preferred(headers.get(ACCEPT));
}

/// Checks that a destination becomes a URI, and that the query of a request changes neither the host that it leads to
/// nor the path. A space separates the two.
pub fn location(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (destination, query) = text.split_once(' ').unwrap_or((&*text, ""));
    if target::parse(destination).is_err() {
        return;
    }
    let uri = location::ascii(destination);
    let Some(whole) = location::with_query(uri.as_bytes(), query) else {
        return;
    };
    HeaderValue::from_bytes(&whole).expect("a URI is a header value");
    let whole = String::from_utf8(whole).expect("a URI is ASCII");
    assert!(whole.bytes().all(target::is_uri_byte), "{whole}");
    let before = url::Url::parse(&uri).expect("a URI is a URL");
    let after = url::Url::parse(&whole).expect("a URI is a URL");
    assert_eq!(after.origin(), before.origin());
    assert_eq!(after.path(), before.path());
    assert_eq!(after.fragment(), before.fragment());
}
