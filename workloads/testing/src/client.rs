//! A small HTTP client that sends exactly the given bytes.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::openapi;

/// A response as received.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Names and values in the received order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The bytes of the body.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the value of a header that occurs at most once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name));
        let value = values
            .next()
            .map(|(_, value)| std::str::from_utf8(value).unwrap());
        assert!(
            values.next().is_none(),
            "{name} occurs more than once: {self:?}"
        );
        value
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Checks that this is a complete problem of the given type, and returns it.
    #[track_caller]
    pub fn problem(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["type"], format!("/problems/{kind}"), "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        for member in ["title", "detail", "instance"] {
            assert!(
                problem[member].is_string(),
                "{member} is missing: {problem}"
            );
        }
        problem
    }
}

/// A connection for several requests.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            buffer: Vec::new(),
        }
    }

    /// Returns false if the write failed. The server may respond and close before it has read everything, so this
    /// alone is not an error.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Closes the sending side, as a client does that has left. Responses can still be received.
    pub async fn close_sending(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Returns the next response, or `None` if the server closed the connection instead.
    pub async fn response(&mut self, has_body: bool) -> Option<Response> {
        let end = loop {
            if let Some(at) = self
                .buffer
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                break at + 4;
            }
            self.fill().await?;
        };
        let head = self.buffer.drain(..end).collect::<Vec<_>>();
        let mut lines = head
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let status = std::str::from_utf8(lines.next()?)
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        let headers: Vec<(String, Vec<u8>)> = lines
            .take_while(|line| !line.is_empty())
            .map(|line| {
                let colon = line.iter().position(|byte| *byte == b':').unwrap();
                (
                    String::from_utf8(line[..colon].to_vec()).unwrap(),
                    line[colon + 1..].trim_ascii().to_vec(),
                )
            })
            .collect();
        let mut response = Response {
            status,
            headers,
            body: Vec::new(),
        };
        if has_body {
            let length = response
                .header("content-length")
                .map_or(0, |length| length.parse().unwrap());
            while self.buffer.len() < length {
                self.fill().await?;
            }
            response.body = self.buffer.drain(..length).collect();
        }
        Some(response)
    }

    async fn fill(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.buffer).await.unwrap_or(0);
        (read > 0).then_some(())
    }

    /// Waits until the server has closed the connection; returns the bytes received until then.
    pub async fn closed(mut self) -> Vec<u8> {
        while self.fill().await.is_some() {}
        self.buffer
    }
}

/// Sends one request to the app on a separate connection, and checks the response against the OpenAPI document.
pub async fn send(address: SocketAddr, request: impl AsRef<[u8]>) -> Response {
    let request = request.as_ref();
    let response = exchange(address, request).await;
    openapi::check(request, &response);
    response
}

/// Sends one request to any server on a separate connection.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> Response {
    let mut connection = Connection::open(address).await;
    connection.write(request).await;
    connection
        .response(!request.starts_with(b"HEAD "))
        .await
        .expect("the server closed the connection without a response")
}

/// Sends `method path` with extra header lines, each ending in CR LF.
pub async fn request(address: SocketAddr, method: &str, path: &str, headers: &str) -> Response {
    send(
        address,
        format!("{method} {path} HTTP/1.1\r\nhost: test\r\n{headers}connection: close\r\n\r\n"),
    )
    .await
}

/// Sends a GET on a separate connection.
pub async fn get(address: SocketAddr, path: &str) -> Response {
    request(address, "GET", path, "").await
}

/// Returns the bytes of `method path` with JSON text and extra header lines, each ending in CR LF.
pub fn json_bytes(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    typed_bytes(method, path, headers, "application/json", body)
}

/// Returns the bytes of `method path` with a body of this media type and extra header lines, each ending in CR LF.
pub fn typed_bytes(
    method: &str,
    path: &str,
    headers: &str,
    media_type: &str,
    body: &[u8],
) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Returns the bytes of a POST of JSON text.
pub fn post_bytes(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    json_bytes("POST", path, headers, body)
}

/// Posts JSON text on a separate connection.
pub async fn post(address: SocketAddr, path: &str, body: impl AsRef<[u8]>) -> Response {
    send(address, post_bytes(path, "", body.as_ref())).await
}

/// Creates a link and returns its code.
pub async fn shorten(address: SocketAddr, body: Value) -> String {
    let response = post(address, "/shorten", body.to_string()).await;
    assert_eq!(response.status, 201, "{response:?}");
    response.json()["code"].as_str().unwrap().to_owned()
}
