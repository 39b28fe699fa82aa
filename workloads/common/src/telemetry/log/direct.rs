//! Log records of events whose fields are known in advance. They equal those that `tracing` makes of such events.

use std::{net::IpAddr, str, time::SystemTime};

use super::{super::otlp::Record, Fields, LogRecords};
use crate::{
    event::{self, Event, Kind},
    trace::TraceContext,
};

impl LogRecords {
    /// Exports an event of this time.
    pub(crate) fn export(&self, kind: Kind, now: SystemTime, event: &impl Event) {
        let record = filled(kind, event, now, &self.host);
        self.records.offer(kind.target, record.message());
    }
}

pub(super) fn filled(kind: Kind, event: &impl Event, now: SystemTime, host: &str) -> Record {
    let mut fields = Fields::begin(event.level(), now, host);
    fields.record.body(kind.name);
    fields.record.attribute("event", kind.name);
    event.record(&mut fields);
    fields.into_record()
}

impl event::Fields for Fields {
    fn trace(
        &mut self,
        TraceContext {
            trace_id, span_id, ..
        }: TraceContext,
    ) {
        self.trace_id = Some(trace_id);
        self.span_id = Some(span_id);
        // Digits are ASCII.
        let (trace, span) = (trace_id.digits(), span_id.digits());
        self.text("trace_id", str::from_utf8(&trace).unwrap_or_default());
        self.text("span_id", str::from_utf8(&span).unwrap_or_default());
    }

    fn text(&mut self, name: &'static str, value: &str) {
        self.record.attribute(name, value);
    }

    fn whole(&mut self, name: &'static str, value: u64) {
        // OTLP has signed integers only.
        match i64::try_from(value) {
            Ok(value) => self.record.attribute(name, value),
            Err(_) => self.text(name, &value.to_string()),
        }
    }

    fn fraction(&mut self, name: &'static str, value: f64) {
        self.record.attribute(name, value);
    }

    fn address(&mut self, name: &'static str, value: IpAddr) {
        self.text(name, &value.to_string());
    }
}
