//! The OpenAPI document of the app, to which every answer in the tests must correspond.

use std::sync::LazyLock;

use serde_json::Value;

use crate::{
    client::Response,
    schema::{Schemas, types},
};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let document = include_str!("../../app/openapi.json");
    serde_json::from_str(document).unwrap()
});

/// The paths of the internal port and of the management port, which the document leaves out.
const INTERNAL: [&str; 5] = [
    "/livez",
    "/readyz",
    "/backends",
    "/links/apply",
    "/links/release",
];

/// Checks the answer to a request, of which the first line counts. It panics if the document has not got the status, a
/// header field lacks, or the body has another media type, another form or another problem type.
#[track_caller]
pub fn check(request: &[u8], response: &Response) {
    let line = request.split(|byte| *byte == b'\r').next().unwrap();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap_or_default());
    // A target in absolute form has an authority before its path (RFC 9112, 3.2.2).
    let target = target.split_once("://").map_or(target, |(_, rest)| {
        rest.find('/').map_or("/", |start| &rest[start..])
    });
    let path = target.split('?').next().unwrap();
    // The HTTP library itself refuses what it cannot read, without a body.
    let is_unread = response.body.is_empty() && matches!(response.status, 400 | 431);
    if method == "OPTIONS" || INTERNAL.contains(&path) || is_unread && method != "HEAD" {
        return;
    }
    let schemas = Schemas {
        document: &DOCUMENT,
        is_closed: true,
    };
    let what = format!("{line}: {response:?}");
    let answer = match operation(path, if method == "HEAD" { "get" } else { method }) {
        Some(operation) => &operation["responses"][response.status.to_string()],
        None => return check_refusal(schemas, response, &what),
    };
    assert!(answer.is_object(), "an undocumented status: {what}");
    let description = &answer["description"];
    let answer = schemas.resolved(answer);
    check_fields(schemas, answer, response, &what);
    if method == "HEAD" {
        return;
    }
    if check_content(schemas, &answer["content"], response, &what) == "application/problem+json" {
        // A description beside a reference counts instead of that behind it.
        let described = description.as_str().or(answer["description"].as_str());
        let kind = response.json()["type"].as_str().unwrap().to_owned();
        let slug = format!("`{}`", kind.trim_start_matches("/problems/"));
        assert!(
            described.unwrap().contains(&slug),
            "undocumented {slug}: {what}"
        );
    }
}

/// Returns the operation of a path, literal segments first.
fn operation(path: &str, method: &str) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let templates = paths.iter().filter(|(template, _)| covers(template, path));
    // The longest one is that of a preview.
    let found = templates.max_by_key(|(template, _)| (*template == path, template.len()));
    found?.1.get(method.to_lowercase())
}

fn covers(template: &str, path: &str) -> bool {
    if template.ends_with("/{arguments}") {
        // All further segments, unless the first one is no code but the begin of another path.
        let code = path.split('/').nth(1).unwrap_or_default();
        let mut paths = DOCUMENT["paths"].as_object().unwrap().keys();
        let is_code = !code.is_empty() && paths.all(|other| other.split('/').nth(1) != Some(code));
        return is_code && path.split('/').count() > 2;
    }
    let (names, parts) = (template.split('/'), path.split('/'));
    let fits = |(name, part): (&str, &str)| match name.split_once('}') {
        Some((_, suffix)) => part.len() > suffix.len() && part.ends_with(suffix),
        None => name == part,
    };
    names.clone().count() == parts.clone().count() && names.zip(parts).all(fits)
}

/// Checks the answer to a request that the document does not have: it is a problem, or a page.
#[track_caller]
fn check_refusal(schemas: Schemas<'static>, response: &Response, what: &str) {
    assert!(response.status >= 400, "an undocumented operation: {what}");
    let content = &DOCUMENT["components"]["responses"]["NotFoundPage"]["content"];
    if !response.body.is_empty() {
        check_content(schemas, content, response, what);
    }
}

#[track_caller]
fn check_fields(
    schemas: Schemas<'static>,
    answer: &'static Value,
    response: &Response,
    what: &str,
) {
    for (name, field) in answer["headers"].as_object().into_iter().flatten() {
        let field = schemas.resolved(field);
        let value = response.header(name);
        assert!(
            field["required"] != true || value.is_some(),
            "no {name}: {what}"
        );
        let is_text = types(&field["schema"]).contains("string");
        if let Some(value) = value.filter(|_| is_text) {
            let fits = schemas.fits(&field["schema"], &Value::from(value));
            assert!(fits, "{name}: {what}");
        }
    }
}

/// Checks the body, and returns its media type.
#[track_caller]
fn check_content<'a>(
    schemas: Schemas<'static>,
    content: &'static Value,
    response: &'a Response,
    what: &str,
) -> &'a str {
    let media_type = essence(response.header("content-type").unwrap_or_default());
    let Some(content) = content.as_object() else {
        assert!(response.body.is_empty(), "an undocumented body: {what}");
        return media_type;
    };
    let mut described = content.iter();
    let found = described.find(|(name, _)| essence(name) == media_type);
    let (_, found) = found.unwrap_or_else(|| panic!("undocumented {media_type}: {what}"));
    let values = match media_type {
        // The schema describes each line.
        "application/x-ndjson" => {
            let text = std::str::from_utf8(&response.body).unwrap();
            let lines = text.lines().map(serde_json::from_str);
            lines.collect::<Result<_, _>>().unwrap()
        }
        json if json.ends_with("json") => vec![response.json()],
        _ => Vec::new(),
    };
    for value in values {
        let fits = schemas.fits(&found["schema"], &value);
        assert!(fits, "{} does not describe {what}", found["schema"]);
    }
    media_type
}

/// Returns a media type without its parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, media_type: &str, body: &str) -> Response {
        let fields = [("content-type", media_type), ("cache-control", "no-store")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.into()));
        Response {
            status,
            headers: fields.into(),
            body: body.into(),
        }
    }

    fn is_described(line: &str, response: &Response) -> bool {
        let line = format!("{line} HTTP/1.1\r\n");
        std::panic::catch_unwind(|| check(line.as_bytes(), response)).is_ok()
    }

    #[test]
    fn an_answer_has_the_status_the_media_type_the_fields_and_the_problem_of_its_operation() {
        let json = "application/json";
        let health = r#"{"host":"a","role":"app"}"#;
        let problem = |kind: &str| {
            format!(
                r#"{{"type":"/problems/{kind}","title":"","status":404,"detail":"","instance":""}}"#
            )
        };
        let found = |status, kind| response(status, "application/problem+json", &problem(kind));
        for (line, response, expected) in [
            ("GET /health", response(200, json, health), true),
            ("HEAD /health", response(200, json, ""), true),
            ("GET /health", response(201, json, health), false),
            ("GET /health", response(200, "text/plain", health), false),
            ("GET /health", response(200, json, r#"{"host":"a"}"#), false),
            (
                "GET /health",
                response(200, json, r#"{"host":"a","role":"app","x":1}"#),
                false,
            ),
            ("GET /docs/1?a", found(404, "not-found"), true),
            ("GET /docs/1", found(404, "link-gone"), false),
            ("POST /health", found(405, "method-not-allowed"), true),
            ("GET /docs/a/b", found(404, "not-found"), true),
            ("GET /docs/a/b", response(200, json, health), false),
            // Without `Location`.
            ("GET /k7Qm2xB", response(302, "", ""), false),
        ] {
            assert_eq!(
                is_described(line, &response),
                expected,
                "{line}: {response:?}"
            );
        }
    }

    #[test]
    fn an_example_fits_its_schema() {
        let schemas = Schemas {
            document: &DOCUMENT,
            is_closed: false,
        };
        let mut parts = vec![&*DOCUMENT];
        let mut count = 0;
        while let Some(part) = parts.pop() {
            let of_schema = part["examples"].as_array().into_iter().flatten();
            let of_schema = of_schema.map(|example| (part, example));
            let beside = part
                .get("example")
                .map(|example| (&part["schema"], example));
            for (schema, example) in of_schema.chain(beside) {
                assert!(schemas.fits(schema, example), "{example}: {schema}");
                count += 1;
            }
            match part {
                Value::Object(fields) => parts.extend(fields.values()),
                Value::Array(values) => parts.extend(values),
                _ => {}
            }
        }
        assert!(count > 30, "{count}");
    }

    #[test]
    fn a_path_has_one_operation() {
        for (path, id) in [
            ("/", "root"),
            ("/abc", "follow"),
            ("/abc+", "preview"),
            ("/abc/", "follow_with_arguments"),
            ("/abc/d/e", "follow_with_arguments"),
            ("/jobs/1", "job"),
            ("/api/admin/dead-letters/1", "dead_letter"),
        ] {
            assert_eq!(operation(path, "GET").unwrap()["operationId"], id);
        }
        assert_eq!(operation("/docs/query", "GET"), None);
        assert_eq!(operation("/jobs/", "GET"), None);
    }
}
