//! An in-memory API server for tests.
//!
//! It keeps objects of any kind without knowing their schemas: create, replace, server-side apply, merge patch,
//! delete, get, list and watch, with uids, resource versions, generations, field ownership, owner references and the
//! status subresource. It sets no defaults and runs no controller, and lists are owned as a whole. Every write is
//! numbered and can be made to fail; the writes that reach the server are recorded. Lists and watches can be made to lag
//! behind or to misbehave.

mod faults;
mod fields;
mod route;
mod scenario;
mod store;
mod tests;
mod traces;
mod watch;
mod write;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt, pending};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::Bytes;
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::{spawn, sync::watch as signal, time::sleep};
use tower::{BoxError, Service};

use faults::Plan;
pub use faults::{Effect, Fault, WatchFault, Write};
use route::{Query, Route};
use store::Store;
use watch::Watched;
use write::{Refusal, WriteRequest, WriteResponse};

/// An in-memory API server; clones share its state.
#[derive(Clone, Debug, Default)]
pub struct FakeApiServer {
    state: Arc<Mutex<ServerState>>,
    changed: signal::Sender<()>,
}

#[derive(Debug, Default)]
struct ServerState {
    store: Store,
    plan: Plan,
    writes: Vec<Write>,
    /// Number of reads of single objects.
    reads: usize,
    /// Plural of each kind that was listed, once for each list.
    lists: Vec<String>,
    /// Kinds beside those of Kubernetes, as group version and plural.
    added: Vec<(String, String)>,
    /// OpenAPI document with the definition of the stacks.
    definition: Option<Value>,
}

type ServerResponse = Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

impl FakeApiServer {
    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock()
    }

    fn with_store<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&self.state().store)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let result = change(&mut self.state().store);
        self.changed.send_replace(());
        result
    }

    fn changes(&self) -> signal::Receiver<()> {
        self.changed.subscribe()
    }

    async fn answer(self, request: Request<Body>) -> ServerResponse {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let mutating = head.method != Method::GET;
        let fault = self.state().plan.next(mutating, &target(&head, &body));
        let carried_out = !matches!(fault, Some(Fault::LoseRequest | Fault::Refuse(_)));
        let reached = !matches!(
            fault,
            Some(Fault::LoseRequest | Fault::ArriveLate(_) | Fault::Hang)
        );
        let answer = if carried_out && reached {
            self.carry_out(&head, &body)
        } else {
            answer(503, &Value::Null)
        };
        if mutating && reached && !carried_out && !is_dry_run(&head) {
            self.record(&head, None);
        }
        match fault {
            None => answer,
            Some(Fault::LoseRequest | Fault::LoseResponse) => {
                Err("the connection was closed".into())
            }
            Some(Fault::Refuse(404)) => lacks_kind(),
            Some(Fault::Refuse(code) | Fault::CommitThenAnswer(code)) => {
                refuse(&Refusal::new(code, "this failure was asked for"))
            }
            Some(Fault::AnswerLate(time)) => {
                sleep(time).await;
                answer
            }
            Some(Fault::ArriveLate(time)) => {
                let arrival = async move {
                    sleep(time).await;
                    self.carry_out(&head, &body)
                };
                spawn(arrival).await?
            }
            Some(Fault::Hang) => pending().await,
        }
    }

    fn carry_out(&self, head: &http::request::Parts, body: &Bytes) -> ServerResponse {
        if let Some(resources) = self.discovery(head.uri.path()) {
            return answer(200, &resources);
        }
        if head.uri.path().starts_with("/openapi/")
            && let Some(definition) = &self.state().definition
        {
            return answer(200, definition);
        }
        let Some(route) = Route::parse(head.uri.path()) else {
            return refuse(&Refusal::new(404, "no such path"));
        };
        let query = Query::parse(head.uri.query());
        if head.method == Method::GET {
            return self.read(route, &query);
        }
        let content_type = head
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let change = WriteRequest {
            method: head.method.as_str(),
            content_type,
            route: &route,
            query: &query,
            body: serde_json::from_slice(body).unwrap_or_default(),
        };
        let written: Result<WriteResponse, Refusal> = if is_dry_run(head) {
            let mut copy = self.with_store(|store| store.clone());
            write::write(&mut copy, change)
        } else {
            let written = self.change(|store| write::write(store, change));
            self.record(head, written.as_ref().ok().map(|(_, _, effect)| *effect));
            written
        };
        match written {
            Ok((status, object, _)) => answer(status.as_u16(), &object),
            Err(refusal) => refuse(&refusal),
        }
    }

    /// Returns the resources of an added API group if the path is the discovery of one.
    fn discovery(&self, path: &str) -> Option<Value> {
        let version = path.strip_prefix("/apis/")?;
        let state = self.state();
        let kinds = state.added.iter().filter(|(found, _)| found == version);
        let resources: Vec<Value> = kinds
            .map(|(_, plural)| {
                json!({"name": plural, "singularName": "", "namespaced": true, "kind": "", "verbs": []})
            })
            .collect();
        (!resources.is_empty()).then(|| {
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
        })
    }

    fn read(&self, route: Route, query: &Query) -> ServerResponse {
        if let Some(name) = &route.name {
            // Every class and every namespace exists but this one.
            let given = ["ingressclasses", "namespaces"];
            if given.contains(&route.collection.plural.as_str()) && name != "absent" {
                return answer(200, &json!({"metadata": {"name": name}}));
            }
            self.state().reads += 1;
            let object = self.with_store(|store| store.objects.get(&route.key(name)).cloned());
            return match object {
                Some(object) => answer(200, &object),
                None => refuse(&Refusal::new(
                    404,
                    format!("{} \"{name}\" not found", route.collection.plural),
                )),
            };
        }
        let selector = query.selector();
        if query.is_true("watch") {
            let since = query
                .get("resourceVersion")
                .and_then(|version| version.parse().ok())
                .unwrap_or_default();
            return Ok(Response::new(watch::body(
                self.clone(),
                Watched::new(route, selector, since),
            )));
        }
        self.state().lists.push(route.collection.plural.clone());
        answer(
            200,
            &self.with_store(|store| {
                store.list(&route.collection, route.namespace.as_deref(), &selector)
            }),
        )
    }

    fn record(&self, head: &http::request::Parts, effect: Option<Effect>) {
        let write = Write {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            effect,
        };
        self.state().writes.push(write);
    }
}

/// Returns true for a request whose answer is all that it changes.
fn is_dry_run(head: &http::request::Parts) -> bool {
    Query::parse(head.uri.query()).get("dryRun") == Some("All")
}

/// Returns method and object of a request. One that creates an object names it in its body only.
fn target(head: &http::request::Parts, body: &[u8]) -> String {
    let (method, path) = (&head.method, head.uri.path());
    if head.method != Method::POST {
        return format!("{method} {path}");
    }
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{method} {path}/{name}")
}

fn answer(code: u16, object: &Value) -> ServerResponse {
    let body = Full::new(Bytes::from(object.to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code)?;
    Ok(response)
}

/// Returns the answer for a kind that the server lacks. It is a text, and not a `Status`.
fn lacks_kind() -> ServerResponse {
    answer(404, &Value::from("404 page not found"))
}

fn refuse(refusal: &Refusal) -> ServerResponse {
    let mut response = answer(refusal.code, &refusal.status())?;
    if refusal.code == 429 {
        response.headers_mut().insert(header::RETRY_AFTER, 1.into());
    }
    Ok(response)
}

impl Service<Request<Body>> for FakeApiServer {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, ServerResponse>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().answer(request).boxed()
    }
}
