//! A steady load: requests are sent at intended times, whether or not the ones before have been answered, and the latency
//! of each counts from its intended time. A server that stalls therefore shows in the latency of every request that had
//! to wait (no coordinated omission).
//!
//! Each connection sends at even intervals from a moment of its own on, so all together send like independent clients. It has
//! a thread of its own, because the timers of an asynchronous runtime are too coarse.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroU64,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::set_current_timer_slack;

use crate::exchange::{End, Exchange, Script, closed};

/// The time in which all threads connect before the first request.
const LEAD: Duration = Duration::from_millis(100);
/// The time limit of a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A steady load.
pub struct Steady<'a> {
    /// The server.
    pub address: SocketAddr,
    /// The requests.
    pub script: &'a Script,
    pub connections: usize,
    /// The number of requests per second, of all connections together.
    pub rate: f64,
    /// The time for which requests are sent.
    pub duration: Duration,
}

/// What came of a steady load.
pub struct Answered {
    /// The latency of every request, the shortest first.
    pub latencies: Vec<Duration>,
    /// The time from the first intended request to the last response.
    pub elapsed: Duration,
}

impl Steady<'_> {
    /// Sends the load. It blocks the thread.
    ///
    /// # Errors
    /// Fails if a response is wrong or does not come.
    pub fn send(&self) -> Result<Answered> {
        let begin = Instant::now() + LEAD;
        let mut latencies = thread::scope(|scope| {
            let threads =
                (0..self.connections).map(|_| scope.spawn(move || self.send_over_one(begin)));
            let threads: Vec<_> = threads.collect();
            let mut latencies = Vec::new();
            for thread in threads {
                let sent = thread.join();
                latencies.extend(sent.map_err(|_| anyhow!("a thread of the load panicked"))??);
            }
            anyhow::Ok(latencies)
        })?;
        let elapsed = begin.elapsed();
        latencies.sort_unstable();
        Ok(Answered { latencies, elapsed })
    }

    /// Sends the part of one connection; returns the latencies.
    fn send_over_one(&self, begin: Instant) -> Result<Vec<Duration>> {
        let mut connection = Connection::open(self.address)?;
        // The kernel may wake a thread 50 µs late otherwise. Without the permission, the latencies are as much longer.
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        let interval = Duration::from_secs_f64(self.connections as f64 / self.rate);
        let (mut intended, end) = (
            begin + interval.mul_f64(fastrand::f64()),
            begin + self.duration,
        );
        let mut latencies = Vec::new();
        while intended < end {
            let exchange = (self.script)(latencies.len());
            thread::sleep(intended.saturating_duration_since(Instant::now()));
            connection.exchange(&exchange)?;
            latencies.push(intended.elapsed());
            intended += interval;
        }
        Ok(latencies)
    }
}

impl Answered {
    /// Returns the latency that this share of the requests does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (share * self.latencies.len() as f64).ceil() as usize;
        let place = rank.saturating_sub(1);
        self.latencies.get(place).copied().unwrap_or_default()
    }

    /// Returns the number of responses per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// A connection whose calls block.
struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address);
        let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self {
            address,
            stream,
            buffer: Vec::new(),
        })
    }

    fn exchange(&mut self, exchange: &Exchange) -> Result<()> {
        self.stream.write_all(&exchange.request)?;
        self.buffer.clear();
        let end = loop {
            let mut part = [0; 4096];
            let read = self.stream.read(&mut part);
            let read = read.with_context(|| format!("no response within {TIMEOUT:?}"))?;
            ensure!(read > 0, closed(&self.buffer));
            self.buffer.extend_from_slice(&part[..read]);
            if let Some(end) = End::of(&self.buffer)? {
                break end;
            }
        };
        exchange.check(&self.buffer, end)?;
        if end.closes {
            *self = Self::open(self.address)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answered(milliseconds: &[u64]) -> Answered {
        Answered {
            latencies: milliseconds
                .iter()
                .copied()
                .map(Duration::from_millis)
                .collect(),
            elapsed: Duration::from_secs(2),
        }
    }

    #[test]
    fn a_quantile_is_the_latency_that_its_share_does_not_exceed() {
        let all: Vec<u64> = (1..=1000).collect();
        let answered = answered(&all);
        for (share, expected) in [(0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1000), (0.0, 1)] {
            assert_eq!(
                answered.quantile(share),
                Duration::from_millis(expected),
                "{share}"
            );
        }
        assert_eq!(answered.rate(), 500.0);
    }

    #[test]
    fn one_latency_is_every_quantile_and_none_is_zero() {
        assert_eq!(answered(&[7]).quantile(0.999), Duration::from_millis(7));
        assert_eq!(answered(&[]).quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn a_stall_of_the_server_counts_for_every_request_that_should_have_been_sent_meanwhile() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let mut stalled = false;
            while stream.read(&mut request).is_ok_and(|read| read > 0) {
                if !stalled {
                    thread::sleep(Duration::from_millis(200));
                    stalled = true;
                }
                let answer = b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer).unwrap();
            }
        });
        let script = |_| Exchange {
            request: b"GET /a HTTP/1.1\r\n\r\n".to_vec(),
            status: "HTTP/1.1 302 ",
            line: String::new(),
        };
        let steady = Steady {
            address,
            script: &script,
            connections: 1,
            rate: 100.0,
            duration: Duration::from_millis(100),
        };
        let answered = steady.send().unwrap();
        // Ten requests were intended within 100 ms, and the server answered none before 200 ms.
        assert!(
            answered.latencies.len() >= 9,
            "{}",
            answered.latencies.len()
        );
        assert!(answered.quantile(0.0) >= Duration::from_millis(100));
    }
}
