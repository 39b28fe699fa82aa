//! Watches: the changes of a collection after a version, as lines of JSON.

use futures::{Stream, stream};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use tower::BoxError;

use super::{
    FakeApiServer,
    route::{Route, Selector},
    store::{Change, Store},
    write::Refusal,
};

/// The objects that a watch selects, and its position in the history.
pub(super) struct Watched {
    pub(super) route: Route,
    pub(super) selector: Selector,
    /// Last version that the client knows.
    pub(super) since: u64,
}

enum Next {
    Event(Value),
    Expired(Value),
    Wait,
}

/// Returns the open response body of a watch.
pub(super) fn body(server: FakeApiServer, watched: Watched) -> UnsyncBoxBody<Bytes, BoxError> {
    let lines = events(server, watched);
    BodyExt::boxed_unsync(StreamBody::new(lines))
}

fn events(
    server: FakeApiServer,
    watched: Watched,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
    let changes = server.changes();
    stream::unfold(Some((server, watched, changes)), |state| async move {
        let (server, mut watched, mut changes) = state?;
        loop {
            changes.mark_unchanged();
            match server.with_store(|store| watched.next(store)) {
                Next::Event(event) => {
                    return Some((line(&event), Some((server, watched, changes))));
                }
                Next::Expired(event) => return Some((line(&event), None)),
                Next::Wait => changes.changed().await.ok()?,
            }
        }
    })
}

fn line(event: &Value) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(Bytes::from(format!("{event}\n"))))
}

impl Watched {
    fn next(&mut self, store: &Store) -> Next {
        if self.since < store.oldest {
            let status = Refusal::new(410, "too old resource version").status();
            return Next::Expired(json!({"type": "ERROR", "object": status}));
        }
        let shown = store.held_at.unwrap_or(u64::MAX);
        // The history is sorted by version.
        let known = store
            .history
            .partition_point(|change| change.version <= self.since);
        let news = store.history[known..].iter();
        for change in news.take_while(|change| change.version <= shown) {
            self.since = change.version;
            if let Some(event) = self.event(change) {
                return Next::Event(event);
            }
        }
        Next::Wait
    }

    fn event(&self, change: &Change) -> Option<Value> {
        let route = &self.route;
        let elsewhere = |namespace: &String| *namespace != change.key.namespace;
        if change.key.collection != route.collection || route.namespace.iter().any(elsewhere) {
            return None;
        }
        let selected = |object: &&Value| self.selector.matches(object);
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        let (kind, object) = match (old.filter(selected), new.filter(selected)) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(old), None) => ("DELETED", old),
        };
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = change.version.to_string().into();
        Some(json!({"type": kind, "object": object}))
    }
}
