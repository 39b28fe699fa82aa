//! HTTP transports to brokers, pods and gateways: plain, with TLS, or over connections that the caller opens.

use std::{error::Error, net::SocketAddr, time::Duration};

use http::{HeaderValue, Request, Response, Uri, header::HOST};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Bytes, client::conn::http1::handshake};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use kube::{Config, client::ClientBuilder};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::{BoxError, service_fn, util::BoxCloneSyncService};

/// A service that sends one request and reads the whole response.
pub type Transport = BoxCloneSyncService<Request<Full<Bytes>>, Response<Bytes>, BoxError>;

/// Time limit of a connection attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Returns a transport to `http://` addresses that fails with a longer response than this number of bytes.
pub fn http(max_answer: usize) -> Transport {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT_LIMIT));
    // Requests are few and far apart, so an idle connection could be dead by the next one.
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector);
    Transport::new(service_fn(move |request| {
        let answer = client.request(request);
        async move {
            let answer = answer.await.map_err(|error| with_causes(&error))?;
            whole(answer, max_answer).await
        }
    }))
}

/// Returns a transport that opens a connection with `connect` for each request, and fails with a longer response than this
/// number of bytes.
pub fn over<S, F>(
    max_answer: usize,
    connect: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> Transport
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Future<Output = Result<S, BoxError>> + Send + 'static,
{
    Transport::new(service_fn(move |mut request: Request<Full<Bytes>>| {
        let stream = connect();
        async move {
            // A server expects the path in the request line and the host in a header.
            if let Some(host) = request.uri().authority() {
                let host = HeaderValue::try_from(host.as_str())?;
                request.headers_mut().insert(HOST, host);
            }
            if let Some(path) = request.uri().path_and_query() {
                *request.uri_mut() = path.clone().into();
            }
            let (mut sender, connection) = handshake(TokioIo::new(stream.await?)).await?;
            // The connection ends with the response, and its errors fail the request.
            tokio::spawn(connection);
            whole(sender.send_request(request).await?, max_answer).await
        }
    }))
}

/// Returns a transport to `peer`, whose certificate must name this host and be signed by an authority that the machine
/// trusts. It does not resolve the host, and fails with a longer response than this number of bytes.
///
/// # Errors
/// The machine has no trusted certificates, or the host is no name of a server.
pub fn https(max_answer: usize, host: &str, peer: SocketAddr) -> Result<Transport, kube::Error> {
    let server = Uri::builder()
        .scheme("https")
        .authority(peer.to_string())
        .path_and_query("/")
        .build()
        .map_err(kube::Error::HttpError)?;
    let mut config = Config::new(server);
    config.tls_server_name = Some(host.to_owned());
    config.connect_timeout = Some(CONNECT_LIMIT);
    config.default_retry = false;
    let client = ClientBuilder::try_from(config)?.build();
    Ok(Transport::new(service_fn(
        move |request: Request<Full<Bytes>>| {
            let client = client.clone();
            async move {
                let (mut head, body) = request.into_parts();
                // The client adds the server's address to the path.
                if let Some(path) = head.uri.path_and_query() {
                    head.uri = path.clone().into();
                }
                let body = body.collect().await?.to_bytes();
                let answer = client.send(Request::from_parts(head, body.into())).await?;
                whole(answer, max_answer).await
            }
        },
    )))
}

/// Returns the text of an error with those of all its causes. The HTTP client's own text names only the step that failed; other
/// errors have the text of their cause already.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

async fn whole<B>(answer: Response<B>, max_answer: usize) -> Result<Response<Bytes>, BoxError>
where
    B: hyper::body::Body,
    B::Error: Into<BoxError>,
{
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, max_answer);
    Ok(Response::from_parts(
        head,
        Box::pin(body).collect().await?.to_bytes(),
    ))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Starts a server that answers each connection once, with the request line and the host of the request.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
                let host = head.lines().find(|line| line.starts_with("host:"));
                let body = format!("{}|{}", head.lines().next().unwrap(), host.unwrap());
                let answer = format!(
                    "HTTP/1.1 418 -\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    async fn ask(transport: Transport, address: &str) -> Response<Bytes> {
        use tower::ServiceExt;
        let uri = format!("http://{address}/api/queues/%2F?columns=name");
        let request = Request::builder().uri(uri).body(Full::default()).unwrap();
        transport.oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn both_ways_send_the_same_request_and_keep_an_encoded_slash() {
        let address = server().await;
        let forwarded = over(4096, move || async move {
            Ok(TcpStream::connect(address).await?)
        });
        for transport in [http(4096), forwarded] {
            let answer = ask(transport, &address.to_string()).await;
            assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT);
            let expected = format!("get /api/queues/%2f?columns=name http/1.1|host: {address}");
            assert_eq!(answer.body(), expected.as_bytes());
        }
    }

    #[tokio::test]
    async fn a_secure_connection_goes_to_the_peer_and_names_the_host() {
        use tower::ServiceExt;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = listener.local_addr().unwrap();
        // No name server knows this name (RFC 2606).
        let transport = https(4096, "gateway.invalid", peer).unwrap();
        let uri = "http://go.example.com/api/shorten";
        let request = Request::builder().uri(uri).body(Full::default()).unwrap();
        let request = tokio::spawn(transport.oneshot(request));
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = vec![0; 4096];
        let read = stream.read(&mut hello).await.unwrap();
        let handshake = 22;
        assert_eq!(hello[0], handshake);
        let hello = String::from_utf8_lossy(&hello[..read]);
        assert!(hello.contains("gateway.invalid"), "{hello}");
        drop(stream);
        assert!(request.await.unwrap().is_err());
    }

    #[tokio::test]
    async fn a_response_that_is_too_long_is_an_error() {
        use tower::ServiceExt;
        let address = server().await;
        let request = || {
            let uri = format!("http://{address}/backends");
            Request::builder().uri(uri).body(Full::default()).unwrap()
        };
        let whole = http(4096).oneshot(request()).await.unwrap();
        let length = whole.body().len();
        assert!(http(length).oneshot(request()).await.is_ok());
        assert!(http(length - 1).oneshot(request()).await.is_err());
    }

    #[tokio::test]
    async fn a_refused_connection_is_told_with_its_cause() {
        use tower::ServiceExt;
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = closed.local_addr().unwrap();
        drop(closed);
        let request = Request::builder()
            .uri(format!("http://{address}/api/overview"))
            .body(Full::default())
            .unwrap();
        let error = http(4096).oneshot(request).await.unwrap_err().to_string();
        assert!(error.to_lowercase().contains("refused"), "{error}");
    }
}
