//! Publishing Events. The `Recorder` of kube has no place for annotations, which lead from an Event to the trace of the
//! reconcile that wrote it.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::events::{Event as News, EventType, Reporter},
};
use parking_lot::Mutex;
use shortener_operator_core::model::metadata::{FIELD_MANAGER, TRACE_ID};

use crate::telemetry::span;

/// Time for which an Event counts what happens again, instead of a new Event.
const RECENT: SignedDuration = SignedDuration::from_mins(6);

/// The fields that are equal in Events of one series: the uid of the object, the type, the reason and the action. The
/// text may differ; the first one stays.
type Series = (Option<String>, &'static str, String, String);

/// A publisher of Events.
pub struct EventRecorder {
    client: Client,
    /// The operator and its pod.
    reporter: Reporter,
    recent: Mutex<HashMap<Series, Event>>,
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
        let key = (
            object.uid.clone(),
            type_of(news),
            news.reason.clone(),
            news.action.clone(),
        );
        let earlier = self.earlier(&key, now);
        let again = earlier.is_some();
        let mut event = earlier.map_or_else(
            || self.new_event(news, object, now),
            |earlier| once_more(earlier, now),
        );
        if let Some(place) = span::current() {
            let annotation = (TRACE_ID.to_owned(), place.trace.to_string());
            event.metadata.annotations = Some(BTreeMap::from([annotation]));
        }
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if again {
            let (name, patch) = (event.name_any(), Patch::Merge(&event));
            events.patch(&name, &PatchParams::default(), &patch).await?;
        } else {
            events.create(&PostParams::default(), &event).await?;
        }
        self.recent.lock().insert(key, event);
        Ok(())
    }

    /// Returns the latest Event of a series, if it is recent. Forgets all that are not.
    fn earlier(&self, key: &Series, now: Timestamp) -> Option<Event> {
        let mut recent = self.recent.lock();
        recent.retain(|_, event| {
            let last = event
                .series
                .as_ref()
                .map(|series| &series.last_observed_time);
            let last = last.or(event.event_time.as_ref());
            last.is_none_or(|last| now.duration_since(last.0) < RECENT)
        });
        recent.get(key).cloned()
    }

    fn new_event(&self, news: &News, object: &ObjectReference, now: Timestamp) -> Event {
        let Reporter {
            controller,
            instance,
        } = self.reporter.clone();
        let about = object.name.as_ref().unwrap_or(&controller);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{about}.{:x}", now.as_nanosecond())),
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

fn once_more(earlier: Event, now: Timestamp) -> Event {
    let count = earlier.series.as_ref().map_or(1, |series| series.count);
    let series = EventSeries {
        count: count + 1,
        last_observed_time: MicroTime(now),
    };
    Event {
        series: Some(series),
        ..earlier
    }
}

fn type_of(news: &News) -> &'static str {
    match news.type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

#[cfg(test)]
mod tests {
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
        let (recorder, telemetry) = (
            EventRecorder::new(server.client()),
            collector.telemetry(1.0),
        );
        let mut traces = Vec::new();
        for note in ["first", "second"] {
            let whole = telemetry.tracer().root("whole").unwrap();
            let work = async {
                traces.push(span::current().unwrap().trace.to_string());
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
