//! Log records of events whose fields are known in advance. They equal those that `tracing` makes of such events.

use std::{net::IpAddr, sync::Arc, time::SystemTime};

use opentelemetry::{
    Key,
    logs::{AnyValue, LogRecord, Logger},
};
use opentelemetry_sdk::logs::SdkLogRecord;

use super::{Fields, LogRecords};
use crate::{
    event::{self, Event, Kind},
    trace::TraceContext,
};

impl LogRecords {
    /// Exports an event of this time.
    pub(crate) fn export(&self, kind: Kind, now: SystemTime, event: &impl Event) {
        let record = self.logger.create_log_record();
        self.records
            .offer(filled(record, kind, event, now, &self.host));
    }
}

pub(super) fn filled(
    record: SdkLogRecord,
    kind: Kind,
    event: &impl Event,
    now: SystemTime,
    host: &Arc<str>,
) -> SdkLogRecord {
    let mut fields = Fields::begin(record, kind.target, event.level(), now, host);
    fields.record.set_body(kind.name.into());
    fields.put("event", kind.name.into());
    event.record(&mut fields);
    fields.into_record()
}

impl Fields {
    fn put(&mut self, name: &'static str, value: AnyValue) {
        self.record.add_attribute(Key::from_static_str(name), value);
    }
}

impl event::Fields for Fields {
    fn trace(
        &mut self,
        TraceContext {
            trace_id, span_id, ..
        }: TraceContext,
    ) {
        self.trace_id = Some(trace_id.into());
        self.span_id = Some(span_id.into());
        self.put("trace_id", trace_id.to_string().into());
        self.put("span_id", span_id.to_string().into());
    }

    fn text(&mut self, name: &'static str, value: &str) {
        self.put(name, value.to_owned().into());
    }

    fn whole(&mut self, name: &'static str, value: u64) {
        // OTLP has signed integers only.
        let value = i64::try_from(value).map_or_else(|_| value.to_string().into(), AnyValue::from);
        self.put(name, value);
    }

    fn fraction(&mut self, name: &'static str, value: f64) {
        self.put(name, value.into());
    }

    fn address(&mut self, name: &'static str, value: IpAddr) {
        self.put(name, value.to_string().into());
    }
}
