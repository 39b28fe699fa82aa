//! The preview of a link: where it leads, without following it.

use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{
    HeaderName, HeaderValue,
    header::{ACCEPT, CACHE_CONTROL},
};
use jiff::Timestamp;
use serde::Serialize;
use url::Url;

use crate::{
    code::Code,
    error::Error,
    page::{self, Html},
    route::PREVIEW_SUFFIX,
    state::AppState,
    store::Stored,
    target, template,
};

/// The header field that keeps search engines from listing a page.
const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

/// A link that was not followed.
#[derive(Debug, Serialize)]
pub struct Preview {
    /// Short code.
    code: String,
    /// Destination as a URI, as a redirect to it has it in `Location`; a template as it was given.
    url: String,
    /// True if the destination is a template; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    template: bool,
    /// Expiry time of the link (RFC 3339), if it expires.
    expires_at: Option<String>,
}

/// Shows where a short link leads, without following it: as a page to a browser, and as JSON to others.
pub async fn preview(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let text = request.uri().path().strip_prefix('/').unwrap_or_default();
    let text = text.strip_suffix(PREVIEW_SUFFIX).unwrap_or_default();
    let code = Code::parse(text).map_err(|_| Error::NotFound)?;
    let (url, is_template, expires_at) = match state.links.stored(code).await? {
        Some(Stored::Live { url, expires_at }) => (url, false, expires_at),
        Some(Stored::Template { text, expires_at }) => (text, true, expires_at),
        Some(Stored::Expired) => return Err(Error::Expired),
        Some(Stored::Down(takedown)) => {
            return Err(Error::taken_down(takedown, &state.public_base));
        }
        None => return Err(Error::NotFound),
    };
    let mut response = match page::is_preferred(request.headers().get(ACCEPT)) {
        true => {
            let mut response = Response::default();
            // Without arguments.
            let to = match is_template {
                true => template::expand(&url, "").unwrap_or_default(),
                false => url.clone(),
            };
            page::show(&mut response, shown(code, &url, &to, expires_at)?);
            response
        }
        false => Json(Preview {
            code: code.as_str().to_owned(),
            url,
            template: is_template,
            expires_at: expires_at.map(|end| end.to_string()),
        })
        .into_response(),
    };
    page::vary(&mut response);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ROBOTS_TAG, HeaderValue::from_static("noindex"));
    Ok(response)
}

/// Returns the page of a link. A browser gets no address to click on that a new link could not have.
fn shown(
    code: Code<'_>,
    url: &str,
    to: &str,
    expires_at: Option<Timestamp>,
) -> Result<String, Error> {
    let parsed = Url::parse(to).ok().filter(|_| target::is_sound(to));
    let host = parsed.as_ref().and_then(Url::host_str);
    let host = host.ok_or_else(|| {
        Error::Internal("a stored destination breaks the rules for destinations".to_owned())
    })?;
    let end = match expires_at {
        Some(end) => end.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        None => "never".to_owned(),
    };
    let rows = [
        ("Short code", code.as_str()),
        ("Leads to", host),
        ("Whole address", url),
        ("Ends", end.as_str()),
    ];
    Ok(Html::titled("Where this link leads")
        .paragraph("You have not followed it yet.")
        .list(&rows)
        .link(to, &format!("Go to {host}"))
        .finished())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(url: &str, end: Option<&str>) -> Result<String, Error> {
        let end = end.map(|end| end.parse().unwrap());
        shown(Code::parse("k7Qm2xB").unwrap(), url, url, end)
    }

    #[test]
    fn a_page_shows_the_host_apart_and_links_to_the_whole_address() {
        let url = "https://example.com/a?b=c&d='\"<script>";
        let uri = crate::location::ascii(url);
        let page = page(&uri, Some("2030-01-31T12:34:56.789Z")).unwrap();
        let escaped = "https://example.com/a?b=c&amp;d=&#39;%22%3Cscript%3E";
        for part in [
            "<dd>k7Qm2xB</dd>",
            "<dd>example.com</dd>",
            "<dd>2030-01-31 12:34 UTC</dd>",
            &format!("<dd>{escaped}</dd>"),
            &format!("<a rel=\"noreferrer nofollow\" href=\"{escaped}\">Go to example.com</a>"),
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(page.matches("<a ").count(), 1);
    }

    #[test]
    fn a_link_that_lasts_ends_never() {
        let page = page("https://example.com/", None).unwrap();
        assert!(page.contains("<dd>never</dd>"), "{page}");
    }

    #[test]
    fn what_could_not_have_been_shortened_is_not_shown_to_be_clicked_on() {
        for bad in [
            "javascript:alert(1)",
            "data:text/html,x",
            "https://a@b.example/",
            "/x",
        ] {
            assert!(matches!(page(bad, None), Err(Error::Internal(_))), "{bad}");
        }
    }
}
