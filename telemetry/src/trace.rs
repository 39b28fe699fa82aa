//! W3C trace context: read from a request, or created for it.
//!
//! <https://www.w3.org/TR/trace-context/>

use std::{cell::RefCell, num::NonZeroU64};

use http::{HeaderMap, HeaderName};
pub use opentelemetry::{SpanId, TraceId};
use rand::{RngExt, rngs::SmallRng};

/// The header with the trace context of the caller.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with the vendor-specific data of tracing systems.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

thread_local! {
    /// The source of identifiers, with a seed of the system for each thread. They only have to differ.
    static RANDOM: RefCell<SmallRng> = RefCell::new(rand::make_rng());
}

/// The position of one span in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The identifier of the trace.
    pub trace_id: TraceId,
    /// The identifier of the span.
    pub span_id: SpanId,
    /// The identifier of the parent span, if there is one.
    pub parent: Option<SpanId>,
}

/// The span of a caller, as its headers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The identifier of its trace.
    pub trace_id: TraceId,
    /// The identifier of its span.
    pub span_id: SpanId,
}

impl Caller {
    /// Returns the caller; `None` if the header is absent, malformed or repeated.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let (trace_id, span_id) = parse_traceparent(traceparent(headers)?)?;
        Some(Self { trace_id, span_id })
    }
}

impl TraceContext {
    /// Starts a new trace.
    pub fn root() -> Self {
        Self {
            trace_id: (u128::from(non_zero()) << 64 | u128::from(non_zero())).into(),
            span_id: non_zero().into(),
            parent: None,
        }
    }

    /// Continues the trace of the caller, or starts a new one if the header is absent, malformed or repeated.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        Self::continuing(traceparent(headers))
    }

    /// Continues the trace of a `traceparent` value that did not arrive in an HTTP header.
    pub fn continuing(traceparent: Option<&[u8]>) -> Self {
        match traceparent.and_then(parse_traceparent) {
            Some((trace_id, parent)) => Self {
                trace_id,
                span_id: non_zero().into(),
                parent: Some(parent),
            },
            None => Self::root(),
        }
    }

    /// Returns the context of a child span.
    pub fn child(&self) -> Self {
        Self {
            span_id: non_zero().into(),
            parent: Some(self.span_id),
            ..*self
        }
    }

    /// Returns the `traceparent` for the next process. Every trace is recorded, so the sampled flag is always set.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace_id, self.span_id)
    }
}

/// Encodes the context as exemplar labels: `{trace_id="..", span_id=".."}`.
#[cfg(feature = "exemplars")]
impl prometheus_client::encoding::EncodeLabelSet for TraceContext {
    fn encode(
        &self,
        encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        use prometheus_client::encoding::EncodeLabel as _;

        ("trace_id", self.trace_id.to_string()).encode(encoder.encode_label())?;
        ("span_id", self.span_id.to_string()).encode(encoder.encode_label())
    }
}

/// Returns the `traceparent` of a request; `None` without one, or with several, which the recommendation holds to be
/// invalid.
fn traceparent(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.as_bytes())
}

/// Parses `version-traceid-spanid-flags`; `None` if any part violates the W3C recommendation. The propagator of the SDK
/// takes identifiers with too few digits and with a sign.
fn parse_traceparent(value: &[u8]) -> Option<(TraceId, SpanId)> {
    let text = std::str::from_utf8(value).ok()?;
    let mut parts = text.split('-');
    let version = hex(parts.next()?, 2)?;
    let trace_id = hex(parts.next()?, 32)?;
    let span_id = hex(parts.next()?, 16)?;
    hex(parts.next()?, 2)?;
    // Version 00 ends here; a later version may append fields, and 255 is forbidden.
    let ends = parts.next().is_none();
    if version == 255 || (version == 0 && !ends) || trace_id == 0 || span_id == 0 {
        return None;
    }
    Some((trace_id.into(), u64::try_from(span_id).ok()?.into()))
}

/// Parses exactly `digits` lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let well_formed = text.len() == digits
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    well_formed
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

fn non_zero() -> u64 {
    RANDOM.with_borrow_mut(|random| random.random::<NonZeroU64>().get())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(TRACEPARENT, value.parse().unwrap())])
    }

    #[test]
    fn a_caller_s_trace_is_continued_with_a_span_of_its_own() {
        let context = TraceContext::from_headers(&headers(EXAMPLE));
        assert_eq!(
            context.trace_id.to_string(),
            "0af7651916cd43dd8448eb211c80319c"
        );
        assert_eq!(context.parent.unwrap().to_string(), "b7ad6b7169203331");
        assert_ne!(Some(context.span_id), context.parent);
    }

    #[test]
    fn the_next_program_continues_the_trace_below_this_span() {
        let context = TraceContext::continuing(None);
        let next = TraceContext::continuing(Some(context.traceparent().as_bytes()));
        assert_eq!(
            (next.trace_id, next.parent),
            (context.trace_id, Some(context.span_id))
        );
    }

    #[test]
    fn a_part_of_the_work_is_below_it_in_the_same_trace() {
        let whole = TraceContext::continuing(None);
        let part = whole.child();
        assert_eq!(
            (part.trace_id, part.parent),
            (whole.trace_id, Some(whole.span_id))
        );
        assert_ne!(part.span_id, whole.span_id);
    }

    #[test]
    fn a_malformed_traceparent_starts_a_new_trace() {
        for bad in [
            "",
            "00",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-extra",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(
                TraceContext::from_headers(&headers(bad)).parent,
                None,
                "{bad}"
            );
        }
    }

    #[test]
    fn a_repeated_traceparent_starts_a_new_trace() {
        let other = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01";
        for second in [EXAMPLE, other, ""] {
            let mut headers = headers(EXAMPLE);
            headers.append(TRACEPARENT, second.parse().unwrap());
            assert_eq!(TraceContext::from_headers(&headers).parent, None);
            assert_eq!(Caller::from_headers(&headers), None);
        }
    }

    #[test]
    fn a_later_version_may_carry_more_fields() {
        assert!(
            parse_traceparent(b"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more")
                .is_some()
        );
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_traceparent(&bytes);
        }

        #[test]
        fn what_is_shown_is_what_was_read(trace in 1u128.., span in 1u64..) {
            let text = format!("00-{trace:032x}-{span:016x}-00");
            let (trace_id, span_id) = parse_traceparent(text.as_bytes()).unwrap();
            prop_assert_eq!(format!("00-{trace_id}-{span_id}-00"), text);
        }
    }
}
