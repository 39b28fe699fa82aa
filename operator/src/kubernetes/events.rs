//! Publishing Events. The `Recorder` of kube has no place for annotations, which lead from an Event to the trace of the
//! reconcile that wrote it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::events::{Event as News, EventType, Reporter},
};
use parking_lot::Mutex;
use shortener_operator_core::model::metadata::{FIELD_MANAGER, TRACE_ID};

use crate::telemetry::span;

/// Time for which an Event counts what happens again, instead of a new Event.
const RECENT: SignedDuration = SignedDuration::from_mins(6);

/// The fields that are equal in Events of one series: the uid of the object, the type, the reason and the action. The text
/// may differ; the first one stays.
type Series = [String; 4];

/// The latest Event of a series. The API server keeps its text.
#[derive(Clone, Copy)]
struct Latest {
    /// Time of the first thing that it counts, which is a part of its name.
    first: Timestamp,
    /// Time of the last one.
    last: Timestamp,
    count: i32,
}

pub struct EventRecorder {
    client: Client,
    /// The operator and its pod.
    reporter: Reporter,
    /// The latest Event of each series.
    recent: Mutex<BTreeMap<Series, Latest>>,
}

impl EventRecorder {
    /// Creates a publisher that has published nothing yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            reporter: FIELD_MANAGER.into(),
            recent: Mutex::default(),
        }
    }

    /// Publishes what happened to an object, as a new Event or as one more of the latest series. In traced work it carries
    /// the id of the trace; in a series that is the latest one.
    ///
    /// # Errors
    /// The API server refuses the Event or does not answer.
    pub async fn publish(&self, news: &News, object: &ObjectReference) -> Result<(), kube::Error> {
        let now = Timestamp::now();
        let series = series_of(news, object);
        let earlier = self.earlier(&series, now);
        let latest = Latest {
            first: earlier.map_or(now, |earlier| earlier.first),
            last: now,
            count: earlier.map_or(1, |earlier| earlier.count + 1),
        };
        let mut event = match earlier {
            Some(_) => once_more(latest),
            None => self.new_event(news, object, now),
        };
        if let Some(place) = span::current() {
            let annotation = (TRACE_ID.to_owned(), place.trace_id.to_string());
            event.metadata.annotations = Some(BTreeMap::from([annotation]));
        }
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if earlier.is_some() {
            let (name, patch) = (self.name(object, latest.first), Patch::Merge(&event));
            events.patch(&name, &PatchParams::default(), &patch).await?;
        } else {
            events.create(&PostParams::default(), &event).await?;
        }
        self.recent.lock().insert(series, latest);
        Ok(())
    }

    /// Returns the latest Event of a series, if it is recent. Forgets all that are not.
    fn earlier(&self, series: &Series, now: Timestamp) -> Option<Latest> {
        let mut recent = self.recent.lock();
        recent.retain(|_, latest| now.duration_since(latest.last) < RECENT);
        recent.get(series).copied()
    }

    /// Returns the name of the Event of what happened first at this time.
    fn name(&self, object: &ObjectReference, first: Timestamp) -> String {
        let about = object.name.as_ref().unwrap_or(&self.reporter.controller);
        format!("{about}.{:x}", first.as_nanosecond())
    }

    fn new_event(&self, news: &News, object: &ObjectReference, now: Timestamp) -> Event {
        let Reporter {
            controller,
            instance,
        } = self.reporter.clone();
        Event {
            metadata: ObjectMeta {
                name: Some(self.name(object, now)),
                namespace: object.namespace.clone(),
                ..ObjectMeta::default()
            },
            action: Some(news.action.clone()),
            event_time: Some(MicroTime(now)),
            note: news.note.clone(),
            reason: Some(news.reason.clone()),
            regarding: Some(object.clone()),
            related: news.secondary.clone(),
            reporting_instance: Some(instance.unwrap_or_else(|| controller.clone())),
            reporting_controller: Some(controller),
            type_: Some(type_of(news).to_owned()),
            ..Event::default()
        }
    }
}

/// Returns the change of an Event that counts one thing more.
fn once_more(latest: Latest) -> Event {
    Event {
        series: Some(EventSeries {
            count: latest.count,
            last_observed_time: MicroTime(latest.last),
        }),
        ..Event::default()
    }
}

fn series_of(news: &News, object: &ObjectReference) -> Series {
    let uid = object.uid.as_deref().unwrap_or_default();
    [uid, type_of(news), &news.reason, &news.action].map(str::to_owned)
}

fn type_of(news: &News) -> &'static str {
    match news.type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;
    use crate::testing::{api_server::FakeApiServer, collector::FakeCollector};

    fn news(reason: &str, note: &str) -> News {
        News {
            type_: EventType::Normal,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        }
    }

    fn object() -> ObjectReference {
        ObjectReference {
            name: Some("acme".to_owned()),
            namespace: Some("links".to_owned()),
            uid: Some("1".to_owned()),
            ..ObjectReference::default()
        }
    }

    fn events(server: &FakeApiServer) -> Vec<Event> {
        let names = server.names();
        let events = names.iter().filter_map(|name| name.strip_prefix("events/"));
        let events = events.map(|name| server.get::<Event>("links", name).unwrap());
        events.collect()
    }

    fn trace(event: &Event) -> Option<&String> {
        event.annotations().get(TRACE_ID)
    }

    #[tokio::test]
    async fn an_event_leads_to_the_trace_and_keeps_its_text() {
        let (server, collector) = (FakeApiServer::default(), FakeCollector::default());
        let (recorder, telemetry) = (EventRecorder::new(server.client()), collector.telemetry());
        let mut traces = Vec::new();
        for note in ["first", "second"] {
            let whole = telemetry.tracer().root("whole").unwrap();
            let work = async {
                traces.push(span::current().unwrap().trace_id.to_string());
                let news = news("Serving", note);
                recorder.publish(&news, &object()).await.unwrap();
            };
            span::in_span(&whole, work).await;
            let found = events(&server);
            assert_eq!(found.len(), 1, "one series");
            assert_eq!(trace(&found[0]), traces.last());
            assert_eq!(found[0].note.as_deref(), Some("first"));
        }
        let found = events(&server);
        assert_eq!(found[0].series.as_ref().unwrap().count, 2);
    }

    #[tokio::test]
    async fn an_event_without_a_trace_has_no_annotation() {
        let server = FakeApiServer::default();
        let recorder = EventRecorder::new(server.client());
        for reason in ["A", "B"] {
            let news = news(reason, "why");
            recorder.publish(&news, &object()).await.unwrap();
        }
        let found = events(&server);
        assert_eq!(found.len(), 2, "one of each reason");
        assert!(found.iter().all(|event| trace(event).is_none()));
        let controller = found[0].reporting_controller.as_deref();
        assert_eq!(controller, Some(FIELD_MANAGER));
    }
}
