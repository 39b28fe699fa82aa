//! One line of the log: a JSON object.

use std::{cell::Cell, fmt, io::Write, net::IpAddr, time::SystemTime};

use serde::Serialize;
use tracing::field::{Field, Visit};

use super::clock::Clock;
use crate::{event::Fields, trace::TraceContext};

/// The memory that a thread keeps for its next line, in bytes.
const KEPT: usize = 8 * 1024;

thread_local! {
    /// The memory of this thread's lines.
    static LINE: Cell<Line> = Cell::default();
}

/// A JSON object under construction.
#[derive(Default)]
pub(super) struct Line {
    text: Vec<u8>,
    clock: Clock,
}

/// Builds a line in the memory of this thread, and passes it on.
pub(super) fn build(now: SystemTime, fill: impl FnOnce(&mut Line), pass_on: impl FnOnce(&[u8])) {
    // Taken out meanwhile, because a value that is shown may log something itself.
    let mut line = LINE.try_with(Cell::take).unwrap_or_default();
    line.begin(now);
    fill(&mut line);
    line.text.extend_from_slice(b"}\n");
    pass_on(&line.text);
    if line.text.capacity() > KEPT {
        line.text = Vec::new();
    }
    let _ = LINE.try_with(|kept| kept.set(line));
}

impl Line {
    fn begin(&mut self, now: SystemTime) {
        self.text.clear();
        self.text.extend_from_slice(b"{\"timestamp\":\"");
        self.clock.write(now, &mut self.text);
        self.text.push(b'"');
    }

    /// Appends a member with a text.
    pub(super) fn member(&mut self, name: &str, value: &str) {
        self.key(name);
        self.json(value);
    }

    /// Appends members that [`into_members`](Self::into_members) returned.
    pub(super) fn members(&mut self, members: &[u8]) {
        self.text.extend_from_slice(members);
    }

    /// Returns the members of a line without its time.
    pub(super) fn into_members(self) -> Vec<u8> {
        self.text
    }

    /// Appends the key of a member whose name contains nothing to escape.
    fn plain_key(&mut self, name: &'static str) {
        self.text.extend_from_slice(b",\"");
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
    }

    /// Appends a text that contains nothing to escape.
    fn plain(&mut self, value: &[u8]) {
        self.text.push(b'"');
        self.text.extend_from_slice(value);
        self.text.push(b'"');
    }

    fn key(&mut self, name: &str) {
        self.text.push(b',');
        self.json(name);
        self.text.push(b':');
    }

    /// Appends a value. Writing to memory cannot fail.
    fn json<T: Serialize + ?Sized>(&mut self, value: &T) {
        let _ = serde_json::to_writer(&mut self.text, value);
    }

    fn visited<T: Serialize + ?Sized>(&mut self, field: &Field, value: &T) {
        self.key(key_of(field));
        self.json(value);
    }
}

impl Fields for Line {
    fn trace(&mut self, trace: TraceContext) {
        self.plain_key("trace_id");
        self.plain(&trace.trace_id.digits());
        self.plain_key("span_id");
        self.plain(&trace.span_id.digits());
    }

    fn text(&mut self, name: &'static str, value: &str) {
        self.plain_key(name);
        self.json(value);
    }

    fn whole(&mut self, name: &'static str, value: u64) {
        self.plain_key(name);
        self.json(&value);
    }

    fn fraction(&mut self, name: &'static str, value: f64) {
        self.plain_key(name);
        self.json(&value);
    }

    fn address(&mut self, name: &'static str, value: IpAddr) {
        self.plain_key(name);
        self.text.push(b'"');
        match value {
            IpAddr::V4(address) => {
                let [first, rest @ ..] = address.octets();
                self.json(&first);
                for octet in rest {
                    self.text.push(b'.');
                    self.json(&octet);
                }
            }
            IpAddr::V6(address) => {
                let _ = write!(self.text, "{address}");
            }
        }
        self.text.push(b'"');
    }
}

/// Returns the key of a field; the message of an event becomes `body`.
fn key_of(field: &Field) -> &'static str {
    if field.name() == "message" {
        "body"
    } else {
        field.name()
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.visited(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.visited(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.visited(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.visited(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.visited(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.visited(field, &format!("{value:?}"));
    }
}
