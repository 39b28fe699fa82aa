//! A load generator: a fixed number of connections with one request in flight each, and a check of every response.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A request and the expected response.
pub struct Exchange {
    /// The bytes of the request.
    pub request: Vec<u8>,
    /// The expected beginning of the response.
    pub status: &'static str,
    /// An expected header line of the response, without the end of line; empty for none.
    pub line: String,
}

/// A function that returns the exchange with this number.
pub type Script = dyn Fn(usize) -> Exchange + Send + Sync;

/// Makes `requests` exchanges over `connections` connections.
///
/// # Errors
/// Fails if a connection fails or a response is wrong.
pub async fn run(
    address: SocketAddr,
    connections: usize,
    requests: usize,
    script: Arc<Script>,
) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let clients = (0..connections).map(|_| {
        let (next, script) = (Arc::clone(&next), Arc::clone(&script));
        tokio::spawn(async move {
            let mut client = Client::connect(address).await?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return Ok::<(), anyhow::Error>(());
                }
                client.exchange(&script(number)).await?;
            }
        })
    });
    for ended in try_join_all(clients).await? {
        ended?;
    }
    Ok(())
}

/// Returns the value of a series in the metrics of a server; 0 if the series does not exist.
///
/// # Errors
/// Fails if the server returns no metrics.
pub async fn metric(address: SocketAddr, series: &str) -> Result<u64> {
    let mut client = Client::connect(address).await?;
    let metrics = Exchange {
        request: b"GET /metrics HTTP/1.1\r\nHost: bench.test\r\n\r\n".to_vec(),
        status: "HTTP/1.1 200 ",
        line: String::new(),
    };
    client.exchange(&metrics).await?;
    let text = client.text();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map_or(Ok(0), |value| Ok(value.trim().parse()?))
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let buffer = Vec::with_capacity(4096);
        Ok(Self { stream, buffer })
    }

    async fn exchange(&mut self, exchange: &Exchange) -> Result<()> {
        self.stream.write_all(&exchange.request).await?;
        self.buffer.clear();
        let mut end = None;
        while end.is_none_or(|end| self.buffer.len() < end) {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(
                read > 0,
                "the server closed the connection after: {}",
                self.text()
            );
            if end.is_none() {
                end = complete(&self.buffer)?;
            }
        }
        let head = self.text();
        let right = head.starts_with(exchange.status)
            && (exchange.line.is_empty() || head.lines().any(|line| same(line, &exchange.line)));
        ensure!(
            right && end == Some(self.buffer.len()),
            "the response is not {} with {:?}: {head}",
            exchange.status,
            exchange.line
        );
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }
}

/// Returns the length of the whole response, once its head is complete.
fn complete(answer: &[u8]) -> Result<Option<usize>> {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&answer[..head])?;
    let length = text.lines().find_map(|line| {
        line.split_once(':')
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
    });
    let (_, length) =
        length.with_context(|| format!("the response has no content-length: {text}"))?;
    Ok(Some(head + 4 + length.trim().parse::<usize>()?))
}

/// Compares header lines: names are case-insensitive, values are not.
fn same(line: &str, expected: &str) -> bool {
    let (Some((name, value)), Some((wanted, right))) =
        (line.split_once(": "), expected.split_once(": "))
    else {
        return false;
    };
    name.eq_ignore_ascii_case(wanted) && value == right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_body() {
        assert_eq!(complete(b"HTTP/1.1 302 Found\r\ncontent-le").unwrap(), None);
        let answer = b"HTTP/1.1 302 Found\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(complete(answer).unwrap(), Some(answer.len()));
        assert!(complete(b"HTTP/1.1 302 Found\r\n\r\n").is_err());
    }

    #[test]
    fn a_header_is_the_same_whatever_the_case_of_its_name() {
        assert!(same("location: https://a/B", "Location: https://a/B"));
        assert!(!same("location: https://a/b", "Location: https://a/B"));
        assert!(!same("location", "Location: https://a/B"));
    }
}
