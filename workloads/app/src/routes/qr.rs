//! QR codes of short URLs. They are computed from the code alone, so they neither need the database nor show whether a
//! link exists.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, Uri,
    header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
};

use super::admin::parameters;
use crate::{code::Code, error::Error, faults::Faults, qr::QrCode, state::AppState};

/// The path of the links.
const PATH: &str = "/api/links/";
/// The sizes of a picture in pixels.
const SIZES: (usize, usize) = (64, 2048);
const DEFAULT_SIZE: usize = 256;
/// The widths of the margin in modules. Readers expect the default.
const MARGINS: (usize, usize) = (0, 10);
const DEFAULT_MARGIN: usize = 4;

/// Returns the QR code of a short URL as an SVG picture.
pub async fn svg(State(state): State<AppState>, uri: Uri) -> Result<Response, Error> {
    let (qr, size) = read(&uri, &state.public_base)?;
    Ok(picture("image/svg+xml", qr.svg(size)))
}

/// Returns the QR code of a short URL as a PNG picture.
pub async fn png(State(state): State<AppState>, uri: Uri) -> Result<Response, Error> {
    let (qr, size) = read(&uri, &state.public_base)?;
    let png = qr.png(size);
    let png = png.map_err(|error| Error::Internal(error.to_string()))?;
    Ok(picture("image/png", png))
}

/// Reads a request. Returns the QR code and the size of its picture.
fn read(uri: &Uri, public_base: &str) -> Result<(QrCode, usize), Error> {
    let rest = uri.path().strip_prefix(PATH).unwrap_or_default();
    let code = rest.split('/').next().unwrap_or_default();
    let code = Code::parse(code).map_err(|_| Error::NotFound)?;
    let mut faults = Faults::default();
    let [size, margin] = parameters(uri.query(), ["size", "margin"], &mut faults);
    let size = faults.value("size", number(size, DEFAULT_SIZE, SIZES));
    let margin = faults.value("margin", number(margin, DEFAULT_MARGIN, MARGINS));
    let (size, margin) = faults.end((size, margin))?;
    let url = format!("{public_base}/{}", code.as_str());
    let qr = QrCode::of(&url, margin);
    let qr = qr.ok_or_else(|| Error::Internal("the short URL is too long".to_owned()))?;
    if qr.modules() > size {
        let rule = format!("must be at least {} for this code and margin", qr.modules());
        return Err(Error::invalid("size", rule));
    }
    Ok((qr, size))
}

/// Returns a whole number within these bounds.
fn number(
    text: Option<String>,
    default: usize,
    (least, most): (usize, usize),
) -> Result<usize, String> {
    let Some(text) = text else {
        return Ok(default);
    };
    let number = text.parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

/// Returns a response that every cache may keep for a day.
fn picture(media_type: &'static str, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, media_type),
        (CACHE_CONTROL, "public, max-age=86400"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "http://localhost:8080";

    fn modules(path: &str) -> Result<(usize, usize), Error> {
        let read = read(&path.parse().unwrap(), BASE);
        read.map(|(qr, size)| (qr.modules(), size))
    }

    #[test]
    fn a_picture_with_less_than_a_pixel_for_each_module_is_refused() {
        let base = format!("https://{}.example", "x".repeat(60));
        let path = format!("/api/links/{}/qr.png?margin=10&size=", "x".repeat(64));
        let read = |size| read(&format!("{path}{size}").parse().unwrap(), &base);
        let Err(Error::InvalidFields(faults)) = read(64) else {
            panic!("it is too small")
        };
        let rule = "must be at least 69 for this code and margin";
        assert_eq!((faults[0].field, faults[0].reason.as_str()), ("size", rule));
        assert!(read(69).is_ok());
    }

    #[test]
    fn a_request_may_have_a_size_and_a_margin() {
        for (query, expected) in [
            ("", (37, 256)),
            ("?size=64&margin=0", (29, 64)),
            ("?margin=10&size=2048", (49, 2048)),
        ] {
            let path = format!("/api/links/k7Qm2xB/qr.svg{query}");
            assert_eq!(modules(&path).unwrap(), expected, "{query}");
        }
        for (code, query, fields) in [
            ("a", "?size=63&margin=11", &["size", "margin"][..]),
            ("a", "?size=2049&margin=-1", &["size", "margin"]),
            ("a", "?size=large&margin=", &["size", "margin"]),
            ("a", "?size=100&size=100", &["size"]),
            ("a", "?colour=red", &["query"]),
        ] {
            let refused = modules(&format!("/api/links/{code}/qr.png{query}"));
            let Err(Error::InvalidFields(faults)) = refused else {
                panic!("{query}")
            };
            assert!(
                faults
                    .iter()
                    .map(|fault| fault.field)
                    .eq(fields.iter().copied()),
                "{query}"
            );
        }
        for code in ["a.b", "health", "", &"x".repeat(65)] {
            let missing = modules(&format!("/api/links/{code}/qr.png"));
            assert!(matches!(missing, Err(Error::NotFound)), "{code}");
        }
    }
}
