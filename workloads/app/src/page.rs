//! Pages for people: what a browser shows in the place of a problem document, and of a link before it is followed.
//!
//! A page is one document without scripts, images or fonts. Its policy allows its own style and nothing else.

mod html;

use std::sync::LazyLock;

use axum::{body::Body, response::Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{
    HeaderValue, StatusCode,
    header::{
        CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use sha2::{Digest, Sha256};
use shortener_common::accept::quality;

pub use self::html::Html;
use self::html::STYLE;
use crate::error::Error;

/// The media type of a page.
const TEXT_HTML: &str = "text/html; charset=utf-8";

/// Returns what the page of a status says, if it has one: its heading, a sentence, and true if the detail of the problem is
/// written for people as well.
fn text_of(status: StatusCode) -> Option<(&'static str, &'static str, bool)> {
    Some(match status.as_u16() {
        404 => (
            "There is nothing here",
            "No link has this address. Compare it with the one that you were given: capital and small letters differ.",
            false,
        ),
        410 => ("This link has ended", "It leads nowhere any more.", true),
        429 => (
            "Too many requests",
            "Your network has sent many requests in a short time. Wait a moment, and try again.",
            false,
        ),
        451 => (
            "Not available for legal reasons",
            "This link was taken down.",
            true,
        ),
        503 => (
            "Not available at the moment",
            "The service cannot answer just now. Wait a moment, and try again.",
            false,
        ),
        _ => return None,
    })
}

static POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// Returns the value of `Content-Security-Policy` of every page.
pub fn policy() -> &'static str {
    &POLICY
}

/// Returns the page of a status, if it has one, with the detail of the problem where that is written for people.
pub fn of_status(status: StatusCode, detail: &str) -> Option<String> {
    let (heading, sentence, tells_why) = text_of(status)?;
    let page = Html::titled(heading).paragraph(sentence);
    let page = match tells_why {
        true => page.paragraph(detail),
        false => page,
    };
    Some(page.finished())
}

/// Returns true if a client prefers a page to JSON. One that takes anything, or that does not say, gets JSON.
pub fn is_preferred(accept: Option<&HeaderValue>) -> bool {
    let Some(accept) = accept.and_then(|accept| accept.to_str().ok()) else {
        return false;
    };
    // Of two types that it values alike, a client prefers the one that it names.
    let html = quality(accept, "text", "html");
    let json = ["json", "problem+json"].map(|subtype| quality(accept, "application", subtype));
    html.0 > 0.0 && json.iter().all(|json| html > *json)
}

/// Turns a problem into a page if its status has one and the client prefers it. The other header fields stay.
pub fn negotiated(mut problem: Response, error: &Error, accept: Option<&HeaderValue>) -> Response {
    let Some(page) = of_status(problem.status(), &error.to_string()) else {
        return problem;
    };
    vary(&mut problem);
    if is_preferred(accept) {
        show(&mut problem, page);
    }
    problem
}

/// Marks a response that is a page for some clients and JSON for others.
pub fn vary(response: &mut Response) {
    let accept = HeaderValue::from_static("accept");
    response.headers_mut().append(VARY, accept);
}

/// Makes a page the body of a response.
pub fn show(response: &mut Response, page: String) {
    *response.body_mut() = Body::from(page);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_HTML));
    if let Ok(policy) = HeaderValue::from_str(policy()) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    let no_referrer = HeaderValue::from_static("no-referrer");
    headers.insert(REFERRER_POLICY, no_referrer);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefers_page(accept: &str) -> bool {
        is_preferred(Some(&HeaderValue::from_str(accept).unwrap()))
    }

    #[test]
    fn browsers_get_pages() {
        for accept in [
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "text/html",
            "Text/HTML;charset=utf-8",
            "text/html, application/xhtml+xml, */*",
            "text/*",
            "text/html;q=0.9, application/json;q=0.8",
            "application/json;q=0.1, */*;q=0.5, text/html ; q=0.6",
        ] {
            assert!(prefers_page(accept), "{accept}");
        }
    }

    #[test]
    fn programs_get_json() {
        assert!(!is_preferred(None));
        for accept in [
            "",
            "*/*",
            "application/json",
            "application/problem+json",
            "application/json, text/plain, */*",
            "text/html, application/json",
            "text/html;q=0.9, application/problem+json",
            "text/html;q=0",
            "text/html;q=nonsense",
            "text/html;q=NaN",
            "text/htmlx",
            "text",
            ",;,/",
        ] {
            assert!(!prefers_page(accept), "{accept}");
        }
        assert!(!is_preferred(Some(
            &HeaderValue::from_bytes(b"text/html\xff").unwrap()
        )));
    }

    #[test]
    fn the_style_is_the_one_that_the_policy_allows() {
        let page = of_status(StatusCode::NOT_FOUND, "").unwrap();
        let (_, rest) = page.split_once("<style>").unwrap();
        let (style, rest) = rest.split_once("</style>").unwrap();
        assert!(!rest.contains("<style"));
        let digest = STANDARD.encode(Sha256::digest(style));
        assert!(policy().contains(&format!("style-src 'sha256-{digest}'")));
        for elsewhere in ["style=", "<script", "src=", "url(", "@import", "http"] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn every_page_is_small_and_fits_a_phone() {
        for (status, tells_why) in [
            (404, false),
            (410, true),
            (429, false),
            (451, true),
            (503, false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let page = of_status(status, &"x".repeat(256)).unwrap();
            assert!(page.len() <= 6 * 1024, "{}", page.len());
            assert!(page.contains("<meta name=\"viewport\" content=\"width=device-width"));
            assert!(page.contains("prefers-color-scheme:dark"));
            assert_eq!(page.contains("xxx"), tells_why, "{status}");
        }
    }

    #[test]
    fn a_detail_is_escaped() {
        let detail = "<script>alert('1')</script>";
        let page = of_status(StatusCode::GONE, detail).unwrap();
        assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"));
        assert!(!page.contains("<script"));
    }

    #[test]
    fn a_page_keeps_the_status_and_the_fields_of_the_problem() {
        let problem = |accept: &'static str| {
            let error = Error::RateLimited(std::time::Duration::from_secs(3));
            let accept = HeaderValue::from_static(accept);
            negotiated(error.to_problem("/x", None), &error, Some(&accept))
        };
        let (page, json) = (problem("text/html"), problem("*/*"));
        for response in [&page, &json] {
            assert_eq!(response.status(), 429);
            assert_eq!(response.headers()["retry-after"], "3");
            assert_eq!(response.headers()["cache-control"], "no-store");
            assert_eq!(response.headers()[VARY], "accept");
        }
        assert_eq!(page.headers()[CONTENT_TYPE], TEXT_HTML);
        assert_eq!(page.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(page.headers()[REFERRER_POLICY], "no-referrer");
        assert_eq!(page.headers()[CONTENT_SECURITY_POLICY], policy());
        assert_eq!(json.headers()[CONTENT_TYPE], "application/problem+json");
        assert!(!json.headers().contains_key(CONTENT_SECURITY_POLICY));
    }

    #[test]
    fn a_status_without_a_page_stays_a_problem_that_does_not_vary() {
        let error = Error::MethodNotAllowed;
        let accept = HeaderValue::from_static("text/html");
        let response = negotiated(error.to_problem("/x", None), &error, Some(&accept));
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert!(!response.headers().contains_key(VARY));
    }

    proptest! {
        #[test]
        fn any_header_is_understood_without_a_panic(accept in "[ -~]{0,80}|(text/html|\\*/\\*|,|;|q=|[0-9.]){0,12}") {
            let _ = prefers_page(&accept);
        }
    }
}
