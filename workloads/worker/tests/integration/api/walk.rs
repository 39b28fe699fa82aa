//! A walk over the operations of a document, with requests on both sides of every bound.

use std::{fmt::Write, net::SocketAddr};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use shortener_testing::{
    client::{send, typed_bytes},
    schema::{Schemas, types},
};

use super::schema::{Samples, Values};

/// The parameter that has no value but its example: the rules for hosts are those of URL parsers.
const FIXED: &str = "host";

/// The media type of bodies with a value on each line.
const NDJSON: &str = "application/x-ndjson";

/// A walk over a document.
pub struct Walk<'a> {
    /// The address of the service.
    pub public: SocketAddr,
    pub document: &'a Value,
    /// The header lines of every request.
    pub headers: String,
    /// The identifier of a job.
    pub job: String,
}

/// A request.
struct Case {
    path: String,
    headers: String,
    body: Option<Value>,
    /// The media type of the body.
    media_type: &'static str,
    /// True if the document promises to take it.
    fits: bool,
}

impl Walk<'_> {
    /// Sends the requests of every operation, and returns their number.
    pub async fn round(&self) -> usize {
        let mut sent = 0;
        for (template, item) in self.document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                for case in self.cases(template, operation) {
                    self.check(&method.to_uppercase(), &case).await;
                    sent += 1;
                }
            }
        }
        sent
    }

    /// Returns requests that differ from the smallest one in one parameter, or in the body.
    fn cases(&self, template: &str, operation: &Value) -> Vec<Case> {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let parameters: Vec<&Value> = parameters.map(|one| self.schemas().resolved(one)).collect();
        let values: Vec<Vec<Value>> = parameters.iter().map(|one| self.values_of(one)).collect();
        let is_given = |one: &Value| one["required"] == true;
        let least: Vec<Option<Value>> = parameters
            .iter()
            .zip(&values)
            .map(|(one, values)| is_given(one).then(|| values[0].clone()))
            .collect();
        let content = &operation["requestBody"]["content"];
        // A value is a line of NDJSON as well, of which each is judged by itself.
        let media_type = match content[NDJSON].is_object() {
            true => NDJSON,
            false => "application/json",
        };
        let schema = &content[media_type]["schema"];
        let bodies = match schema {
            Value::Null => Vec::new(),
            schema => self.values().of(schema),
        };
        let case = |given: &[Option<Value>], body: Option<&Value>| {
            let mut case = self.case(template, &parameters, given);
            let fits = |body| media_type == NDJSON || self.schemas().fits(schema, body);
            case.fits &= body.is_none_or(fits);
            case.media_type = media_type;
            case.body = body.cloned();
            case
        };
        let mut cases = vec![case(&least, bodies.first())];
        for (place, values) in values.iter().enumerate() {
            for value in values {
                let mut given = least.clone();
                given[place] = Some(value.clone());
                cases.push(case(&given, bodies.first()));
            }
        }
        cases.extend(bodies.iter().map(|body| case(&least, Some(body))));
        cases
    }

    fn case(&self, template: &str, parameters: &[&Value], given: &[Option<Value>]) -> Case {
        let mut case = Case {
            path: template.to_owned(),
            headers: self.headers.clone(),
            body: None,
            media_type: "",
            fits: true,
        };
        let mut query = String::new();
        for (parameter, value) in parameters.iter().zip(given) {
            let Some(value) = value else { continue };
            case.fits &= self.schemas().fits(&parameter["schema"], value);
            let name = parameter["name"].as_str().unwrap();
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            match parameter["in"].as_str().unwrap() {
                "path" => {
                    let place = format!("{{{name}}}");
                    case.path = case.path.replace(&place, &encoded(&text));
                }
                "query" => write!(query, "&{name}={}", encoded(&text)).unwrap(),
                "header" => write!(case.headers, "{name}: {text}\r\n").unwrap(),
                other => panic!("a parameter in {other}"),
            }
        }
        if !query.is_empty() {
            case.path = format!("{}?{}", case.path, &query[1..]);
        }
        case
    }

    /// Returns the values of a parameter that can be written as texts: an empty one in a path is another path, and one
    /// with control characters in a header is no request.
    fn values_of(&self, parameter: &Value) -> Vec<Value> {
        let mut values = self.values().of(&parameter["schema"]);
        let schema = self.schemas().resolved(&parameter["schema"]);
        let is_text = types(schema).contains("string");
        values.retain(|value| match (value, parameter["in"].as_str()) {
            (Value::String(text), Some("path")) => !text.is_empty(),
            (Value::String(text), Some("header")) => !text.contains(char::is_control),
            (Value::String(_), _) => true,
            (value, _) => value.is_number() && !is_text,
        });
        if parameter["example"].is_string() {
            values.insert(0, parameter["example"].clone());
        }
        if parameter["name"] == FIXED {
            values.truncate(1);
        }
        values
    }

    /// Sends a request, and checks that it was taken or refused as promised. Whether the service has what is asked for is not
    /// known here. The client checks the rest of the response.
    async fn check(&self, method: &str, case: &Case) {
        let Case { path, headers, .. } = case;
        let request = match &case.body {
            Some(body) => {
                let body = body.to_string();
                typed_bytes(method, path, headers, case.media_type, body.as_bytes())
            }
            None => {
                let close = "connection: close";
                format!("{method} {path} HTTP/1.1\r\nhost: test\r\n{headers}{close}\r\n\r\n").into()
            }
        };
        let response = send(self.public, request).await;
        let body = case.body.as_ref().map(ToString::to_string);
        let what = format!("{method} {path} {body:?}: {response:?}");
        let status = response.status;
        assert!(status < 500, "{what}");
        let is_promised = match case.fits {
            true => !matches!(status, 400 | 405 | 408 | 413 | 415 | 422),
            false => matches!(status, 400 | 401 | 403 | 404),
        };
        assert!(is_promised, "the document says {}: {what}", case.fits);
    }

    fn schemas(&self) -> Schemas<'_> {
        Schemas {
            document: self.document,
            is_closed: false,
        }
    }

    fn values(&self) -> Values<'_> {
        let day = SignedDuration::from_hours(24);
        Values {
            schemas: self.schemas(),
            samples: Samples {
                uuid: self.job.clone(),
                date_time: (Timestamp::now() + day).to_string(),
            },
        }
    }
}

/// Returns a text percent-encoded, apart from the characters that no part of a URI needs encoded.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
