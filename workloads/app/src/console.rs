//! The files of the console, which are part of the program. The folder `console` has them as they are served.

use std::{collections::BTreeMap, sync::LazyLock};

use axum::response::{IntoResponse, Response};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use sha2::{Digest, Sha256};

/// The page with which the console begins.
pub const INDEX: &str = "index.html";

/// Nothing but files and answers of the same origin, and no script or style inside a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files, by their names below `/console/`.
const FILES: [(&str, &str); 18] = [
    (INDEX, include_str!("../console/index.html")),
    ("api.mjs", include_str!("../console/api.mjs")),
    ("clicks.mjs", include_str!("../console/clicks.mjs")),
    ("console.css", include_str!("../console/console.css")),
    ("fields.mjs", include_str!("../console/fields.mjs")),
    ("icon.svg", include_str!("../console/icon.svg")),
    ("jobs.mjs", include_str!("../console/jobs.mjs")),
    ("link.mjs", include_str!("../console/link.mjs")),
    ("links.mjs", include_str!("../console/links.mjs")),
    ("main.mjs", include_str!("../console/main.mjs")),
    ("service.mjs", include_str!("../console/service.mjs")),
    ("transfer.mjs", include_str!("../console/transfer.mjs")),
    (
        "vendor/d3-dsv.mjs",
        include_str!("../console/vendor/d3-dsv.mjs"),
    ),
    (
        "vendor/hooks.mjs",
        include_str!("../console/vendor/hooks.mjs"),
    ),
    ("vendor/htm.mjs", include_str!("../console/vendor/htm.mjs")),
    (
        "vendor/preact.mjs",
        include_str!("../console/vendor/preact.mjs"),
    ),
    ("view.mjs", include_str!("../console/view.mjs")),
    ("webhooks.mjs", include_str!("../console/webhooks.mjs")),
];

/// The digest of each file, by its name.
static DIGESTS: LazyLock<BTreeMap<&str, String>> = LazyLock::new(|| {
    let digest = |text| URL_SAFE_NO_PAD.encode(Sha256::digest(text));
    FILES.map(|(name, text)| (name, digest(text))).into()
});

/// Returns the response with a file; `None` if there is none of this name. A browser asks each time whether its copy is
/// the current one, so that a reload gives all files of the same version.
pub fn file(name: &str, request: &HeaderMap) -> Option<Response> {
    let (name, text) = FILES.into_iter().find(|(known, _)| *known == name)?;
    let digest = DIGESTS.get(name)?;
    let tag = HeaderValue::from_str(&format!("\"{digest}\"")).ok()?;
    let known = request.get(IF_NONE_MATCH);
    // A gateway that compresses makes the tag a weak one.
    let is_known = known
        .and_then(|tags| tags.to_str().ok())
        .is_some_and(|tags| tags.contains(digest));
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => text.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag);
    for (header, value) in [
        (CONTENT_TYPE, media_type(name)),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ] {
        headers.insert(header, HeaderValue::from_static(value));
    }
    Some(response)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "mjs")) => "text/javascript; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/console");

    fn names(folder: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(Path::new(FOLDER).join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let served = names.filter(|name| media_type(name) != "application/octet-stream");
        served.map(|name| format!("{folder}{name}")).collect()
    }

    #[test]
    fn every_file_of_the_folder_is_served_with_a_type_that_browsers_accept() {
        let expected: BTreeSet<String> = names("").into_iter().chain(names("vendor/")).collect();
        let served = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(expected, served);
        for (name, text) in FILES {
            let response = file(name, &HeaderMap::new()).unwrap();
            assert_eq!(response.headers()[CONTENT_TYPE], media_type(name));
            assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], POLICY);
            assert!(!text.is_empty());
        }
    }

    #[test]
    fn the_page_names_every_module_so_that_a_browser_fetches_them_at_once() {
        let index = FILES[0].1;
        for (name, _) in FILES.iter().filter(|(name, _)| name.ends_with(".mjs")) {
            assert!(index.contains(&format!("\"{name}\"")), "{name}");
        }
    }

    #[test]
    fn a_copy_of_the_same_version_is_not_sent_again() {
        let tag = file(INDEX, &HeaderMap::new()).unwrap().headers()[ETAG].clone();
        let weak = format!("W/{}", tag.to_str().unwrap());
        for known in [tag, HeaderValue::try_from(weak).unwrap()] {
            let request = HeaderMap::from_iter([(IF_NONE_MATCH, known)]);
            assert_eq!(file(INDEX, &request).unwrap().status(), 304);
            assert_eq!(file("api.mjs", &request).unwrap().status(), 200);
        }
    }

    #[test]
    fn a_name_outside_the_table_has_no_file() {
        for name in [
            "",
            "/",
            "../Cargo.toml",
            "vendor",
            "vendor/SHA256SUMS",
            "INDEX.HTML",
        ] {
            assert!(file(name, &HeaderMap::new()).is_none(), "{name}");
        }
    }

    #[test]
    fn the_libraries_are_the_ones_that_were_fetched() {
        let sums = fs::read_to_string(Path::new(FOLDER).join("vendor/SHA256SUMS")).unwrap();
        let mut checked = BTreeSet::new();
        for line in sums.lines() {
            let (sum, name) = line.split_once("  ./").unwrap();
            let name = format!("vendor/{name}");
            let (_, text) = FILES.into_iter().find(|(known, _)| *known == name).unwrap();
            let digest = Sha256::digest(text);
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, sum, "{name}");
            checked.insert(name);
        }
        assert_eq!(checked, names("vendor/"));
    }

    #[test]
    fn the_console_is_small_and_needs_nothing_that_its_policy_forbids() {
        let all: usize = FILES.iter().map(|(_, text)| text.len()).sum();
        assert!(all < 150 * 1024, "{all}");
        for (name, text) in FILES {
            for forbidden in [
                "style=",
                "onclick=",
                "eval(",
                "innerHTML",
                "document.cookie",
                "@import",
            ] {
                let is_library = name.starts_with("vendor/");
                assert!(
                    is_library || !text.contains(forbidden),
                    "{name}: {forbidden}"
                );
            }
        }
    }
}
