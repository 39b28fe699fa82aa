//! QR codes of short URLs.

use rqrr::PreparedImage;
use shortener_testing::{client::Response, database::TestDatabase};

use crate::{
    client::{get, request},
    pages::start_without_database,
    support::App,
};

/// Checks a picture, and returns its body.
#[track_caller]
fn picture(response: &Response, media_type: &str) -> Vec<u8> {
    assert_eq!(response.status, 200, "{response:?}");
    for (name, value) in [
        ("content-type", media_type),
        ("cache-control", "public, max-age=86400"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'"),
    ] {
        assert_eq!(response.header(name), Some(value), "{name}");
    }
    response.body.clone()
}

/// Reads the text in a PNG picture.
fn read(png: &[u8]) -> (usize, String) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png))
        .read_info()
        .unwrap();
    let size = reader.info().width as usize;
    let mut rows = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut rows).unwrap();
    let bit = |x: usize, y: usize| rows[y * size.div_ceil(8) + x / 8] >> (7 - x % 8) & 1;
    let gray = |x, y| bit(x, y) * u8::MAX;
    let mut image = PreparedImage::prepare_from_greyscale(size, size, gray);
    let (_, text) = image.detect_grids()[0].decode().unwrap();
    (size, text)
}

#[tokio::test]
async fn a_short_url_has_a_qr_code_without_the_database_whether_a_link_has_the_code_or_not() {
    let database = TestDatabase::new().await;
    let app = start_without_database(&database).await;
    let png = get(app.public, "/api/links/My_code-1/qr.png").await;
    let url = "http://sho.rt:8080/My_code-1".to_owned();
    assert_eq!(read(&picture(&png, "image/png")), (256, url.clone()));
    let large = get(app.public, "/api/links/My_code-1/qr.png?size=2048&margin=0").await;
    assert_eq!(read(&picture(&large, "image/png")), (2048, url));
    let svg = get(app.public, "/api/links/My_code-1/qr.svg?size=100").await;
    let svg = String::from_utf8(picture(&svg, "image/svg+xml")).unwrap();
    assert!(
        svg.starts_with("<svg ") && svg.contains(" width=\"100\" "),
        "{svg}"
    );
    let head = request(
        app.public,
        "HEAD",
        "/api/links/My_code-1/qr.svg?size=100",
        "",
    )
    .await;
    let length = svg.len().to_string();
    assert_eq!(head.header("content-length"), Some(length.as_str()));
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn what_is_no_picture_is_refused_by_name() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    for path in [
        "/api/links/a.b/qr.svg",
        "/api/links/health/qr.png",
        "/api/links/a/qr.gif",
        "/api/links/a",
    ] {
        get(app.public, path).await.problem(404, "not-found");
    }
    for query in [
        "size=63",
        "size=2049",
        "margin=11",
        "margin=-1",
        "size=a",
        "color=red",
    ] {
        let refused = get(app.public, &format!("/api/links/a/qr.png?{query}")).await;
        refused.problem(400, "invalid-fields");
    }
    let wrong = request(app.public, "POST", "/api/links/a/qr.svg", "").await;
    wrong.problem(405, "method-not-allowed");
}
