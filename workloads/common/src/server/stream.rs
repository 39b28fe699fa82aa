//! A TCP stream with timeouts for clients that send or read too slowly.
//!
//! The stream handles bytes and the service handles requests; [`Phase`] is the state that they share.

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
    Settings,
    alarm::Alarm,
    phase::{ANSWERED, BODY, BUSY, HEAD, IDLE, NEW, Phase, SMALL_HEAD},
};

/// The time and the number of bytes for which a closing connection keeps reading. Closing a socket with unread
/// bytes resets the connection, and the client would lose the response that asks it to send less (RFC 9112, section
/// 9.6).
const LINGER: (Duration, usize) = (Duration::from_secs(1), 256 * 1024);

/// The keep-alive timeout. Proxies keep idle connections for about a minute. Closing later than they do means that
/// no proxy sends a request into a connection that is being closed.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// A TCP stream with a timer for reads and a timer for writes.
pub(super) struct TimedStream {
    inner: TcpStream,
    phase: Phase,
    /// The number of bytes of the current request head.
    head: usize,
    read_deadline: Instant,
    header_timeout: Duration,
    /// The time by which the client must have read something; unset while it reads.
    write_deadline: Option<Instant>,
    write_timeout: Duration,
    read_alarm: Alarm,
    write_alarm: Alarm,
    /// Set once this side is closed: the time until which to keep reading, and the number of bytes.
    linger: Option<(Instant, usize)>,
}

impl TimedStream {
    pub(super) fn new(inner: TcpStream, phase: Phase, settings: &Settings) -> Self {
        Self {
            inner,
            phase,
            head: 0,
            read_deadline: Instant::now() + settings.header_timeout,
            header_timeout: settings.header_timeout,
            write_deadline: None,
            write_timeout: settings.write_timeout,
            read_alarm: Alarm::default(),
            write_alarm: Alarm::default(),
            linger: None,
        }
    }

    /// Returns the time by which more bytes must arrive, if there is one.
    fn current_read_deadline(&mut self) -> Option<Instant> {
        self.rest();
        (!matches!(self.phase.get(), BUSY | BODY)).then_some(self.read_deadline)
    }

    /// Records that the response was sent, if there is one, and starts the keep-alive timeout.
    fn rest(&mut self) {
        if self.phase.get() == ANSWERED {
            let now = Instant::now();
            self.read_deadline = now + KEEP_ALIVE;
            self.phase.rest(now);
        }
    }

    /// Counts the bytes of a request head, and starts its timeout at the first one. On a new connection that timeout is
    /// already running.
    ///
    /// # Errors
    /// Fails if there is no memory for a head of this size, or if the connection is about to be closed.
    fn received(&mut self, bytes: usize) -> io::Result<()> {
        let phase = self.phase.get();
        let goes_on = match phase {
            // The bytes belong to a body or to a later request.
            BUSY | BODY => return Ok(()),
            HEAD => true,
            NEW => self.phase.begin_head(phase, None),
            ANSWERED | IDLE => {
                let now = Instant::now();
                self.read_deadline = now + self.header_timeout;
                self.head = 0;
                self.phase.begin_head(phase, Some(now))
            }
            _ => false,
        };
        if !goes_on {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.head += bytes;
        if self.head > SMALL_HEAD && !self.phase.enlarge() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }

    /// Passes on the result of a write, or fails if the client has not read for too long.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.write_deadline.take().is_some() {
                self.phase.set_stuck(None);
            }
            return outcome;
        }
        let deadline = match self.write_deadline {
            Some(deadline) => deadline,
            None => {
                let now = Instant::now();
                self.phase.set_stuck(Some(now));
                *self.write_deadline.insert(now + self.write_timeout)
            }
        };
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
                let bytes = buffer.filled().len() - before;
                if bytes > 0 {
                    self.received(bytes)?;
                }
                Poll::Ready(outcome)
            }
            Poll::Pending => match self.current_read_deadline() {
                None => Poll::Pending,
                Some(deadline) => {
                    ready!(self.read_alarm.poll(deadline, context));
                    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                }
            },
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
            // Everything was sent, so this connection may be closed for a new one.
            this.phase.rest(Instant::now());
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
