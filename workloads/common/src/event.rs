//! Events whose fields are known in advance, for those that occur with every request.
//!
//! `tracing` hands an event to a visitor, value by value, and many values as something to format. An [`Event`] writes its
//! fields straight into each of its forms instead: a line of the log ([`crate::logging::EventLog`]), and a record for the
//! collector. What comes out is the same.

use std::net::IpAddr;

use tracing::Level;

use crate::trace::TraceContext;

/// The constant part of events.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The name: the body, and the field `event`.
    pub name: &'static str,
    /// The target, by which `RUST_LOG` chooses events.
    pub target: &'static str,
    /// Returns true if the filter that is installed lets events of this kind and level pass. A function, because
    /// `tracing` wants one place in the code for each target and level.
    pub is_enabled: fn(Level) -> bool,
}

/// An event.
pub trait Event {
    /// Returns the level.
    fn level(&self) -> Level;

    /// Adds the fields. It must not log anything itself.
    fn record(&self, fields: &mut impl Fields);
}

/// A form in which an event is written. The names of fields contain nothing that JSON escapes.
pub trait Fields {
    /// Adds the fields `trace_id` and `span_id`.
    fn trace(&mut self, trace: TraceContext);

    /// Adds a text.
    fn text(&mut self, name: &'static str, value: &str);

    /// Adds a whole number.
    fn whole(&mut self, name: &'static str, value: u64);

    /// Adds a number with a fraction.
    fn fraction(&mut self, name: &'static str, value: f64);

    /// Adds an address.
    fn address(&mut self, name: &'static str, value: IpAddr);

    /// Adds a text if there is one.
    fn text_if_any(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! An event with fields of every type, which is logged in both ways.

    use proptest::prelude::*;

    use super::*;

    /// The constant part of samples.
    pub(crate) const KIND: Kind = Kind {
        name: "sample",
        target: "a::place",
        is_enabled: |_| true,
    };

    /// An event as it is logged for a request.
    #[derive(Clone, Debug)]
    pub(crate) struct Sample {
        pub(crate) fails: bool,
        pub(crate) trace: TraceContext,
        pub(crate) status: u16,
        pub(crate) path: String,
        pub(crate) client: IpAddr,
        pub(crate) name: Option<String>,
        pub(crate) duration: f64,
        pub(crate) reason: Option<String>,
    }

    impl Event for Sample {
        fn level(&self) -> Level {
            if self.fails {
                Level::ERROR
            } else {
                Level::INFO
            }
        }

        fn record(&self, fields: &mut impl Fields) {
            fields.trace(self.trace);
            fields.whole("http.response.status_code", self.status.into());
            fields.text("url.path", &self.path);
            fields.address("client.address", self.client);
            fields.text_if_any("auth.client", self.name.as_deref());
            fields.fraction("duration", self.duration);
            fields.text_if_any("error.message", self.reason.as_deref());
        }
    }

    impl Sample {
        /// Logs the same by `tracing`.
        pub(crate) fn log(&self) {
            macro_rules! line {
                ($level:ident) => {
                    tracing::$level!(
                        target: KIND.target,
                        event = "sample",
                        trace_id = %self.trace.trace_id,
                        span_id = %self.trace.span_id,
                        http.response.status_code = self.status,
                        url.path = self.path,
                        client.address = %self.client,
                        auth.client = self.name,
                        duration = self.duration,
                        error.message = self.reason,
                        "sample"
                    )
                };
            }
            if self.fails {
                line!(error)
            } else {
                line!(info)
            }
        }
    }

    /// Returns samples with any values.
    pub(crate) fn samples() -> impl Strategy<Value = Sample> {
        let text = "(?s:.){0,40}|[\"\\\\/\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}]{0,40}|/[!-~]{0,40}";
        let any = (
            any::<bool>(),
            any::<u16>(),
            text,
            any::<IpAddr>(),
            proptest::option::of(text),
            any::<f64>(),
            proptest::option::of(text),
        );
        any.prop_map(
            |(fails, status, path, client, name, duration, reason)| Sample {
                fails,
                trace: TraceContext::root(),
                status,
                path,
                client,
                name,
                duration,
                reason,
            },
        )
    }
}
