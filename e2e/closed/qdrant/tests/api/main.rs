//! The stand-in from the view of its clients: over HTTP, over gRPC with Qdrant's own client, and after a restart.
//! Expected scores are computed by hand, never by the engine.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

mod grpc;
mod http;
mod persistence;
mod scores;
mod setup;
