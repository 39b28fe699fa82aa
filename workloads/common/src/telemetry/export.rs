//! Sending batches to the collector by gRPC, with retries and a timeout.

use std::{env, time::Duration};

use axum::body::Bytes;
use bytes::{Buf, BufMut};
use http::{HeaderMap, HeaderName, HeaderValue, uri::PathAndQuery};
use percent_encoding::percent_decode_str;
use tokio::time::{sleep, timeout};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::MetadataMap,
    transport::Channel,
};

use super::{
    EXPORT, otlp,
    queue::{Chunk, Export},
    wire::Message,
};

/// The pauses between the attempts to send a batch, as OpenTelemetry recommends.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// The kind of the items of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
}

impl Signal {
    fn path(self) -> PathAndQuery {
        PathAndQuery::from_static(match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        })
    }

    /// Returns the variable with the headers of this signal alone.
    fn headers_variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            Self::Logs => "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
        }
    }
}

/// The exporter of one signal.
#[derive(Clone, Debug)]
pub(super) struct Exporter {
    channel: Channel,
    path: PathAndQuery,
    headers: MetadataMap,
    resource: Message,
    version: &'static str,
}

impl Exporter {
    /// Returns an exporter to this channel. The instrumentation scopes have this version; an empty one is left out. The
    /// headers are those of the environment.
    pub(super) fn new(
        signal: Signal,
        channel: Channel,
        resource: Message,
        version: &'static str,
    ) -> Self {
        let headers = env::var(signal.headers_variable())
            .or_else(|_| env::var("OTEL_EXPORTER_OTLP_HEADERS"))
            .map(|text| parse_headers(&text))
            .unwrap_or_default();
        Self {
            channel,
            path: signal.path(),
            headers: MetadataMap::from_headers(headers),
            resource,
            version,
        }
    }

    async fn send(&self, message: Bytes) -> Result<(), Status> {
        let mut client = Grpc::new(self.channel.clone());
        client
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let mut request = Request::new(message);
        *request.metadata_mut() = self.headers.clone();
        client.unary(request, self.path.clone(), Encoded).await?;
        Ok(())
    }

    /// Sends a batch, and repeats it after a failure that may pass.
    async fn send_persistently(&self, message: Bytes) -> Result<(), String> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let Err(status) = self.send(message.clone()).await else {
                return Ok(());
            };
            match pauses.next().filter(|_| may_pass(&status)) {
                Some(pause) => sleep(pause).await,
                None => return Err(status.to_string()),
            }
        }
    }
}

impl Export for Exporter {
    async fn export(&self, batch: Vec<Chunk>) -> Result<(), String> {
        let message = Bytes::from(otlp::request(&self.resource, self.version, &batch));
        // Its items are in the message now.
        drop(batch);
        match timeout(EXPORT, self.send_persistently(message)).await {
            Ok(result) => result,
            Err(_) => Err(format!("no answer within {} s", EXPORT.as_secs())),
        }
    }
}

/// Returns true for the failures that OTLP says to retry.
/// <https://opentelemetry.io/docs/specs/otlp/#failures>
fn may_pass(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss
    )
}

/// Parses `name=value,name=value`, with percent-encoded values. What is malformed is left out.
/// <https://opentelemetry.io/docs/specs/otel/protocol/exporter/#specifying-headers-via-environment-variables>
fn parse_headers(text: &str) -> HeaderMap {
    let parse = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let name = HeaderName::try_from(name.trim()).ok()?;
        Some((name, HeaderValue::try_from(&*value).ok()?))
    };
    text.split(',').filter_map(parse).collect()
}

/// The codec of messages that are encoded already, and of answers of which only the status matters.
#[derive(Clone, Copy, Debug)]
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, target: &mut EncodeBuf<'_>) -> Result<(), Status> {
        target.put(message);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        source.advance(source.remaining());
        Ok(Some(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_decoded_and_malformed_ones_are_left_out() {
        let headers =
            parse_headers(" authorization=Basic%20abc=,x-tenant = 7 ,no-value,b c=d,e=%0a");
        assert_eq!(headers.len(), 2, "{headers:?}");
        assert_eq!(headers["authorization"], "Basic abc=");
        assert_eq!(headers["x-tenant"], "7");
        assert!(parse_headers("").is_empty());
    }

    #[test]
    fn a_refusal_is_not_repeated_and_an_outage_is() {
        for (code, expected) in [
            (Code::Unavailable, true),
            (Code::Aborted, true),
            (Code::Unauthenticated, false),
            (Code::InvalidArgument, false),
            (Code::ResourceExhausted, false),
        ] {
            assert_eq!(may_pass(&Status::new(code, "")), expected, "{code:?}");
        }
    }
}
