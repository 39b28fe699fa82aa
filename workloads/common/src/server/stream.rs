//! A TCP stream with timeouts for clients that send or read too slowly.
//!
//! The stream handles bytes and the service handles requests; [`SharedPhase`] is the state that they share.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};

use super::{
    ServerSettings,
    alarm::Alarm,
    phase::{Phase, SharedPhase},
};

/// The time and the number of bytes for which a closing connection keeps reading. Closing a socket with unread
/// bytes resets the connection, and the client would lose the response that asks it to send less (RFC 9112, section
/// 9.6).
const LINGER: (Duration, usize) = (Duration::from_secs(1), 256 * 1024);

/// The keep-alive timeout. Proxies keep idle connections for about a minute. Closing later than they do means that
/// no proxy sends a request into a connection that is being closed.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// A TCP stream with a time limit for reads and one for writes.
pub(super) struct TimedStream {
    inner: TcpStream,
    phase: SharedPhase,
    read_deadline: Instant,
    header_timeout: Duration,
    /// The time by which the client must have read something; unset while it reads.
    write_deadline: Option<Instant>,
    write_timeout: Duration,
    read_alarm: Alarm,
    write_alarm: Alarm,
    /// True from the end of a response until more bytes arrive.
    idle: bool,
    /// Set once this side is closed: the time until which to keep reading, and the number of bytes.
    linger: Option<(Instant, usize)>,
}

impl TimedStream {
    pub(super) fn new(inner: TcpStream, phase: SharedPhase, settings: &ServerSettings) -> Self {
        Self {
            inner,
            phase,
            read_deadline: Instant::now() + settings.header_timeout,
            header_timeout: settings.header_timeout,
            write_deadline: None,
            write_timeout: settings.write_timeout,
            read_alarm: Alarm::default(),
            write_alarm: Alarm::default(),
            idle: false,
            linger: None,
        }
    }

    /// Starts the keep-alive timeout once a response was sent.
    fn rest(&mut self) {
        if !self.idle && self.phase.is(Phase::Answered) {
            self.idle = true;
            self.read_deadline = Instant::now() + KEEP_ALIVE;
        }
    }

    /// Starts the timeout of a request head at its first byte. On a new connection it is already running.
    fn received(&mut self) {
        if self.phase.is(Phase::Answered) {
            self.idle = false;
            self.read_deadline = Instant::now() + self.header_timeout;
            self.phase.set(Phase::Head);
        }
    }

    /// Passes on the result of a write, or fails if the client has not read for too long.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.write_deadline = None;
            return outcome;
        }
        let timeout = self.write_timeout;
        let deadline = *self
            .write_deadline
            .get_or_insert_with(|| Instant::now() + timeout);
        ready!(self.write_alarm.poll(deadline, context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.inner).poll_read(context, buffer) {
            Poll::Ready(outcome) => {
                if buffer.filled().len() > before {
                    self.received();
                }
                Poll::Ready(outcome)
            }
            Poll::Pending if self.phase.is(Phase::Busy) => Poll::Pending,
            Poll::Pending => {
                self.rest();
                let deadline = self.read_deadline;
                ready!(self.read_alarm.poll(deadline, context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.written(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = match slices {
            // A redirect has no body. The kernel takes one slice faster by itself than as a list.
            [only] => Pin::new(&mut self.inner).poll_write(context, only),
            several => Pin::new(&mut self.inner).poll_write_vectored(context, several),
        };
        self.written(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.inner).poll_flush(context));
        // hyper writes a response as a whole before it flushes, and may not read again until more bytes arrive.
        self.rest();
        Poll::Ready(flushed)
    }

    /// Closes this side, then reads the remaining bytes of the client until it closes its own side.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(context))?;
        }
        let (deadline, budget) = this
            .linger
            .get_or_insert_with(|| (Instant::now() + LINGER.0, LINGER.1));
        let mut scratch = [0; 4096];
        while *budget > 0 {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut this.inner).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    *budget = budget.saturating_sub(buffer.filled().len());
                }
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(this.read_alarm.poll(*deadline, context));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
