//! A TCP stream with timeouts for clients that send or read too slowly.
//!
//! The stream handles bytes and the service handles requests; [`Phase`] is the state that they share.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};

/// The time and the number of bytes for which a closing connection keeps reading. Closing a socket with unread
/// bytes resets the connection, and the client would lose the response that asks it to send less (RFC 9112, section
/// 9.6).
const LINGER: (Duration, usize) = (Duration::from_secs(1), 256 * 1024);

/// No byte has arrived on this connection yet.
const NEW: u8 = 0;
/// The first bytes of a request head have arrived.
const HEAD: u8 = 1;
/// A request is being handled; its body and its handler have timeouts of their own.
const BUSY: u8 = 2;
/// Between two requests.
const IDLE: u8 = 3;

/// The phase of a connection, shared by its stream and its service.
#[derive(Clone, Default)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    /// Records that the head of a request is complete.
    pub(super) fn begin_request(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    /// Records that the response is ready.
    pub(super) fn end_request(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// A TCP stream with a timer for reads and a timer for writes.
pub(super) struct TimedStream {
    inner: TcpStream,
    phase: Phase,
    /// The phase for which `read_deadline` was set.
    seen: u8,
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
    pub(super) fn new(
        inner: TcpStream,
        phase: Phase,
        header_timeout: Duration,
        write_timeout: Duration,
    ) -> Self {
        Self {
            inner,
            phase,
            seen: NEW,
            read_deadline: Instant::now() + header_timeout,
            header_timeout,
            write_deadline: None,
            write_timeout,
            read_alarm: Alarm::default(),
            write_alarm: Alarm::default(),
            linger: None,
        }
    }

    /// Returns the time by which more bytes must arrive, if there is one.
    fn current_read_deadline(&mut self) -> Option<Instant> {
        let phase = self.phase.0.load(Ordering::Relaxed);
        if phase == IDLE && self.seen != IDLE {
            self.read_deadline = Instant::now() + super::IDLE;
        }
        self.seen = phase;
        (phase != BUSY).then_some(self.read_deadline)
    }

    /// Starts the timeout of a request head at its first byte. On a new connection that timeout is already running.
    fn received(&mut self) {
        let phase = self.phase.0.load(Ordering::Relaxed);
        if phase == IDLE {
            self.read_deadline = Instant::now() + self.header_timeout;
        }
        if phase != BUSY {
            self.seen = HEAD;
            self.phase.0.store(HEAD, Ordering::Relaxed);
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
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.written(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
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

/// A timer that is reset only for an earlier deadline. A later deadline is detected when the timer fires early.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    fn poll(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(context));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}
