//! Watches: the changes of a collection after a version, as lines of JSON.

use std::time::Duration;

use futures::{Stream, stream};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::BoxError;

use super::{
    FakeApiServer,
    faults::WatchFault,
    route::{Route, Selector},
    store::{Store, StoredChange},
    write::Refusal,
};

/// Time for which a change waits for the next one, which it is to be swapped with.
const PATIENCE: Duration = Duration::from_secs(5);

/// The objects that a watch selects, and its position in the history.
pub(super) struct Watched {
    route: Route,
    selector: Selector,
    /// Last version that the client knows.
    since: u64,
    /// Event that comes next, before those of the history.
    queued: Option<Value>,
    /// True when a change has waited long enough for the next one.
    impatient: bool,
}

enum Next {
    Event(Value),
    Expired(Value),
    /// There is an event, which waits for its successor.
    Held,
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
                Next::Held => match timeout(PATIENCE, changes.changed()).await {
                    Ok(changed) => changed.ok()?,
                    Err(_) => watched.impatient = true,
                },
                Next::Wait => changes.changed().await.ok()?,
            }
        }
    })
}

fn line(event: &Value) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(Bytes::from(format!("{event}\n"))))
}

fn expired() -> Next {
    let status = Refusal::new(410, "too old resource version").status();
    Next::Expired(json!({"type": "ERROR", "object": status}))
}

impl Watched {
    pub(super) fn new(route: Route, selector: Selector, since: u64) -> Self {
        Self {
            route,
            selector,
            since,
            queued: None,
            impatient: false,
        }
    }

    fn next(&mut self, store: &Store) -> Next {
        if let Some(event) = self.queued.take() {
            return Next::Event(event);
        }
        if self.since < store.oldest {
            return expired();
        }
        let shown = store.held_at.unwrap_or(u64::MAX);
        // The history is sorted by version.
        let known = store
            .history
            .partition_point(|change| change.version <= self.since);
        let mut news = store.history[known..]
            .iter()
            .take_while(|change| change.version <= shown);
        while let Some(change) = news.next() {
            let Some(event) = self.event(change) else {
                self.since = change.version;
                continue;
            };
            match store.watch_fault {
                Some(WatchFault::Drop(version)) if version == change.version => {
                    self.since = version;
                    continue;
                }
                Some(WatchFault::Gone) => return expired(),
                Some(WatchFault::Swap) if !self.impatient => {
                    let next = news.find_map(|next| Some((next.version, self.event(next)?)));
                    let Some((version, next)) = next else {
                        return Next::Held;
                    };
                    self.since = version;
                    self.queued = Some(event);
                    return Next::Event(next);
                }
                Some(WatchFault::Double) => self.queued = Some(event.clone()),
                _ => {}
            }
            self.impatient = false;
            self.since = change.version;
            return Next::Event(event);
        }
        Next::Wait
    }

    fn event(&self, change: &StoredChange) -> Option<Value> {
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
