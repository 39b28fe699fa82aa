//! The body of a request, which tells when its handler waits for the client.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::Instant;

use super::phase::Phase;

/// The body of a request.
pub(super) struct RequestBody {
    inner: Incoming,
    phase: Phase,
    /// The time at which the handler began to wait for the body.
    since: Option<Instant>,
}

impl RequestBody {
    pub(super) fn new(inner: Incoming, phase: Phase) -> Self {
        Self {
            inner,
            phase,
            since: None,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(context);
        if frame.is_pending() {
            // Not since the last frame: a byte now and then must not make a slow client look like a new one.
            let since = *self.since.get_or_insert_with(Instant::now);
            self.phase.await_body(since);
            return Poll::Pending;
        }
        if matches!(frame, Poll::Ready(None)) || self.inner.is_end_stream() {
            self.phase.end_body();
        }
        if self.phase.resume() {
            frame
        } else {
            // The task of the connection is about to end.
            Poll::Pending
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
