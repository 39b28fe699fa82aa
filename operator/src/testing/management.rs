//! The management port of the apps and the links in their database, for tests.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use http::{Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::transport::Transport;

/// What happens at the next request that makes links, after they are made.
type Hook = Box<dyn FnOnce() + Send>;

/// The management port of every pod; clones share the state.
#[derive(Clone, Default)]
pub struct FakeManagement(Arc<Mutex<Management>>);

#[derive(Default)]
struct Management {
    /// Links by their codes: as they were asked for, with their owner, which is null for a link of the API.
    rows: BTreeMap<String, Value>,
    /// Path and codes of each request.
    asked: Vec<(String, Vec<String>)>,
    /// Status of each answer; `None` for none.
    status: Option<StatusCode>,
    /// Status of the answers about releases; `None` for none.
    status_of_releases: Option<StatusCode>,
    /// Status of the answers about links that were made all the same; `None` for none.
    status_after_apply: Option<StatusCode>,
    is_silent: bool,
    after_apply: Option<Hook>,
}

impl FakeManagement {
    /// Returns a transport to all pods.
    pub fn transport(&self) -> Transport {
        let management = self.clone();
        Transport::new(service_fn(move |request: Request<Full<Bytes>>| {
            let management = management.clone();
            async move { management.answer(request).await }
        }))
    }

    /// Answers no more, or again.
    pub fn fall_silent(&self, is_silent: bool) {
        self.0.lock().is_silent = is_silent;
    }

    /// Answers every request with this status; `None` ends this.
    pub fn fail(&self, status: Option<StatusCode>) {
        self.0.lock().status = status;
    }

    /// Answers every release with this status; `None` ends this.
    pub fn fail_releases(&self, status: Option<StatusCode>) {
        self.0.lock().status_of_releases = status;
    }

    /// Makes links and answers with this status; `None` ends this.
    pub fn fail_after_apply(&self, status: Option<StatusCode>) {
        self.0.lock().status_after_apply = status;
    }

    /// Calls a function once, after the next links are made and before they are answered.
    pub fn after_apply(&self, hook: impl FnOnce() + Send + 'static) {
        self.0.lock().after_apply = Some(Box::new(hook));
    }

    /// Makes or changes a link behind the operator's back.
    pub fn edit(&self, code: &str, edit: impl FnOnce(&mut Value)) {
        edit(self.0.lock().rows.entry(code.to_owned()).or_default());
    }

    /// Returns a link.
    pub fn row(&self, code: &str) -> Option<Value> {
        self.0.lock().rows.get(code).cloned()
    }

    /// Returns path and codes of the requests since the last call.
    pub fn asked(&self) -> Vec<(String, Vec<String>)> {
        std::mem::take(&mut self.0.lock().asked)
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, BoxError> {
        let (head, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
        let key = head.headers[AUTHORIZATION].to_str()?;
        assert!(key.starts_with("Bearer ") && key.len() > 7, "{key}");
        if self.0.lock().is_silent {
            return pending().await;
        }
        let (answer, hook) = {
            let mut state = self.0.lock();
            let links = body["links"].as_array().unwrap();
            let codes = links
                .iter()
                .map(|link| link["code"].as_str().unwrap().to_owned());
            let asked = (head.uri.path().to_owned(), codes.collect());
            state.asked.push(asked);
            let releases = head.uri.path() == "/links/release";
            let of_releases = state.status_of_releases.filter(|_| releases);
            if let Some(status) = state.status.or(of_releases) {
                return Ok(refusal(status));
            }
            let change = if releases {
                Management::release
            } else {
                Management::apply
            };
            let results: Vec<Value> = links.iter().map(|link| change(&mut state, link)).collect();
            if !releases && let Some(status) = state.status_after_apply {
                return Ok(refusal(status));
            }
            let hook = if releases {
                None
            } else {
                state.after_apply.take()
            };
            (json!({"results": results}), hook)
        };
        if let Some(hook) = hook {
            hook();
        }
        Ok(Response::new(Bytes::from(answer.to_string())))
    }
}

fn refusal(status: StatusCode) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = status;
    answer
}

impl Management {
    fn apply(&mut self, link: &Value) -> Value {
        let code = link["code"].as_str().unwrap();
        let result = |result: &str| json!({"code": code, "result": result});
        let kept = |result: &str| json!({"code": code, "result": result, "short_url": format!("https://go.example.com/{code}")});
        if link["url"].as_str().unwrap().contains("refused") {
            return json!({"code": code, "result": "invalid", "message": "url must not be refused"});
        }
        let mut wanted = link.clone();
        wanted.as_object_mut().unwrap().remove("adopt");
        let Some(row) = self.rows.get_mut(code) else {
            self.rows.insert(code.to_owned(), wanted);
            return kept("created");
        };
        let same = row["url"] == link["url"];
        let (owner, own) = (&row["owner"], &link["owner"]);
        let named = owner["namespace"] == own["namespace"] && owner["name"] == own["name"];
        let owned = owner["uid"] == own["uid"] || (named && same);
        if !owner.is_null() && !owned {
            let (namespace, name) = (owner["namespace"].as_str(), owner["name"].as_str());
            let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
            let message = format!("the code {code} belongs to ShortLink {namespace}/{name}");
            return json!({"code": code, "result": "taken", "message": message});
        }
        for end in ["deleted", "expired"] {
            if row[end] == true {
                return result(end);
            }
        }
        if owner.is_null() && !(same && link["adopt"] == "IfSame") {
            return json!({"code": code, "result": "taken", "message": "set adopt: IfSame"});
        }
        if *row == wanted {
            return kept("unchanged");
        }
        *row = wanted;
        kept("changed")
    }

    fn release(&mut self, link: &Value) -> Value {
        let code = link["code"].as_str().unwrap();
        let row = self
            .rows
            .get_mut(code)
            .filter(|row| row["owner"]["uid"] == link["uid"]);
        let Some(row) = row else {
            return json!({"code": code, "result": "unknown"});
        };
        row["owner"] = Value::Null;
        match link["policy"].as_str() {
            Some("Disable") => row["enabled"] = false.into(),
            Some("Delete") => row["deleted"] = true.into(),
            policy => assert_eq!(policy, Some("Retain")),
        }
        json!({"code": code, "result": "released"})
    }
}
