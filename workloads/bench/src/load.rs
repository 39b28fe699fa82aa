//! A load generator: a fixed number of connections with one request in flight each, and a check of every response.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::exchange::{End, Exchange, Script, closed};

/// The number of connections that are opened at once. A server accepts some hundreds before it has time for them, and the
/// kernel repeats what does not fit after a second.
const OPENED_AT_ONCE: usize = 128;

/// A connection to a server.
pub struct Client {
    address: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Opens this many connections.
///
/// # Errors
/// Fails if the server does not accept one.
pub async fn connect(address: SocketAddr, connections: usize) -> Result<Vec<Client>> {
    stream::iter(0..connections)
        .map(|_| Client::connect(address))
        .buffer_unordered(OPENED_AT_ONCE)
        .try_collect()
        .await
}

/// Makes `requests` exchanges over these connections, and returns them.
///
/// # Errors
/// Fails if a connection fails or a response is wrong.
pub async fn drive(
    clients: Vec<Client>,
    requests: usize,
    script: &Arc<Script>,
) -> Result<Vec<Client>> {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks = clients.into_iter().map(|mut client| {
        let (next, script) = (Arc::clone(&next), Arc::clone(script));
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return Ok::<Client, anyhow::Error>(client);
                }
                client.exchange(&script(number)).await?;
            }
        })
    });
    try_join_all(tasks).await?.into_iter().collect()
}

/// Makes one exchange over each of these connections, and returns them. Their server has accepted all of them then, and none
/// waits for its first request any more.
///
/// # Errors
/// Fails if a connection fails or a response is wrong.
pub async fn greet(clients: Vec<Client>, script: &Arc<Script>) -> Result<Vec<Client>> {
    let clients = clients.into_iter().enumerate();
    let tasks = clients.map(|(number, mut client)| {
        let script = Arc::clone(script);
        tokio::spawn(async move {
            client.exchange(&script(number)).await?;
            Ok::<Client, anyhow::Error>(client)
        })
    });
    try_join_all(tasks).await?.into_iter().collect()
}

/// Makes `requests` exchanges over `connections` new connections.
///
/// # Errors
/// Fails if a connection fails or a response is wrong.
pub async fn run(
    address: SocketAddr,
    connections: usize,
    requests: usize,
    script: &Arc<Script>,
) -> Result<()> {
    let clients = connect(address, connections).await?;
    drive(clients, requests, script).await?;
    Ok(())
}

/// Returns the value of a series in the metrics of a server.
///
/// # Errors
/// Fails if the server returns no metrics, or none with this series.
pub async fn metric(address: SocketAddr, series: &str) -> Result<u64> {
    value(&metrics(address).await?, series)
}

/// Returns the metrics of a server.
///
/// # Errors
/// Fails if the server returns none.
pub async fn metrics(address: SocketAddr) -> Result<String> {
    let mut client = Client::connect(address).await?;
    let metrics = Exchange {
        request: b"GET /metrics HTTP/1.1\r\nHost: bench.test\r\n\r\n".to_vec(),
        status: "HTTP/1.1 200 ",
        line: String::new(),
    };
    client.exchange(&metrics).await?;
    Ok(String::from_utf8_lossy(&client.buffer).into_owned())
}

/// Returns the value of a series in metrics.
///
/// # Errors
/// Fails without this series: a count that is never found would be a zero for ever.
pub fn value(metrics: &str, series: &str) -> Result<u64> {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = value.with_context(|| format!("the server has no series {series}"))?;
    Ok(value.trim().parse()?)
}

impl Client {
    async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self {
            address,
            stream: open(address).await?,
            buffer: Vec::with_capacity(4096),
        })
    }

    async fn exchange(&mut self, exchange: &Exchange) -> Result<()> {
        self.stream.write_all(&exchange.request).await?;
        self.buffer.clear();
        let end = loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, closed(&self.buffer));
            if let Some(end) = End::of(&self.buffer)? {
                break end;
            }
        };
        exchange.check(&self.buffer, end)?;
        if end.closes {
            // nginx does so after a thousand requests.
            self.stream = open(self.address).await?;
        }
        Ok(())
    }
}

async fn open(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 302 Found\r\nlocation: https://a\r\ncontent-length: 0\r\n\r\n";

    /// Answers every request of every connection with `answer`, in two parts; returns the address.
    async fn server(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let mut request = [0; 1024];
                    while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                        for part in [&answer[..20], &answer[20..]] {
                            stream.write_all(part).await.unwrap();
                        }
                    }
                });
            }
        });
        address
    }

    fn asked(count: &Arc<AtomicUsize>) -> Arc<Script> {
        let count = Arc::clone(count);
        Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Exchange {
                request: b"GET /a HTTP/1.1\r\n\r\n".to_vec(),
                status: "HTTP/1.1 302 ",
                line: "location: https://a".to_owned(),
            }
        })
    }

    #[tokio::test]
    async fn exactly_the_requests_are_made_whatever_the_number_of_connections() {
        let address = server(ANSWER).await;
        for connections in [1, 7, 300] {
            let count = Arc::new(AtomicUsize::new(0));
            let clients = connect(address, connections).await.unwrap();
            let clients = drive(clients, 100, &asked(&count)).await.unwrap();
            assert_eq!(count.load(Ordering::Relaxed), 100);
            assert_eq!(clients.len(), connections);
        }
    }

    #[tokio::test]
    async fn a_greeting_is_one_request_over_each_connection() {
        let address = server(ANSWER).await;
        let count = Arc::new(AtomicUsize::new(0));
        let clients = connect(address, 300).await.unwrap();
        let clients = greet(clients, &asked(&count)).await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 300);
        assert_eq!(clients.len(), 300);
    }

    #[tokio::test]
    async fn a_client_opens_a_new_connection_after_one_that_was_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let head = "HTTP/1.1 302 Found\r\nlocation: https://a\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: 0\r\n\r\n");
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                if stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
        let count = Arc::new(AtomicUsize::new(0));
        run(address, 1, 3, &asked(&count)).await.unwrap();
    }

    #[tokio::test]
    async fn one_wrong_response_is_an_error() {
        let address = server(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
        let count = Arc::new(AtomicUsize::new(0));
        let error = run(address, 2, 4, &asked(&count)).await.unwrap_err();
        assert!(error.to_string().contains("404"), "{error}");
    }

    #[tokio::test]
    async fn a_series_is_found_by_its_whole_name_and_is_an_error_without_one() {
        let address =
            server(b"HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\nhits 12\nhits_all 9").await;
        assert_eq!(metric(address, "hits").await.unwrap(), 12);
        assert_eq!(metric(address, "hits_all").await.unwrap(), 9);
        let error = metric(address, "hit").await.unwrap_err();
        assert_eq!(error.to_string(), "the server has no series hit");
    }
}
