//! Events on stacks.

use kube::{
    Resource, ResourceExt,
    runtime::events::{Event, EventType, Recorder},
};
use shortener_telemetry::trace::TraceContext;

use super::refusal::{self, NAMESPACE_TERMINATING};
use crate::telemetry::span;

/// Longest text of an Event that the API server takes, in bytes.
const MAX_NOTE: usize = 1024;
/// The end of a text that was cut.
const CUT: &str = "…";

/// Returns an Event: the action of the operator, the CamelCase reason and the text. For some minutes, a Recorder counts another
/// one on the same objects with the same type, action and reason as a repeat, and drops its text.
pub fn event(type_: EventType, action: &str, reason: &str, note: String) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note),
        action: action.to_owned(),
        secondary: None,
    }
}

/// Publishes an Event on a stack. A failure is only logged.
pub async fn publish(
    recorder: &Recorder,
    stack: &impl Resource<DynamicType = ()>,
    mut event: Event,
) {
    let text = event.note.unwrap_or_default();
    event.note = Some(note(&text, span::current()));
    if let Err(error) = recorder.publish(&event, &stack.object_ref(&())).await
        && refusal::reason(&error, "") != NAMESPACE_TERMINATING
    {
        tracing::warn!(%error, stack = %stack.name_any(), "an Event could not be published");
    }
}

/// Returns the text of an Event, which ends with the id of the trace. A text that is too long is cut: the status has all of it.
fn note(text: &str, trace: Option<TraceContext>) -> String {
    let trace = trace.map(|place| format!(" (trace {})", place.trace_id));
    let trace = trace.unwrap_or_default();
    let room = MAX_NOTE - trace.len();
    if text.len() <= room {
        return format!("{text}{trace}");
    }
    let kept = text.floor_char_boundary(room - CUT.len());
    format!("{}{CUT}{trace}", &text[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_event_is_as_long_as_the_api_server_takes_it() {
        let trace = TraceContext::root();
        let end = format!(" (trace {})", trace.trace_id);
        assert_eq!(note("why", Some(trace)), format!("why{end}"));
        assert_eq!(note("why", None), "why");
        for text in ["a".repeat(1024), "\u{e4}".repeat(1000)] {
            let cut = note(&text, Some(trace));
            assert!(cut.len() <= MAX_NOTE && cut.len() > MAX_NOTE - 4, "{cut}");
            assert!(cut.ends_with(&format!("{CUT}{end}")), "{cut}");
        }
        assert_eq!(note(&"a".repeat(1024), None), "a".repeat(1024));
    }
}
