//! The management API of a stack over one connection. A request that had no answer is sent again: an export changes nothing,
//! and a repeated import changes nothing.

use std::{pin::Pin, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::future::BoxFuture;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, LINK, RETRY_AFTER},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api as Pods, Client};
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};

use super::{TransferError, progress::note};
use crate::cli::app_pod;

/// Port of the app's public routes.
const PORT: u16 = 3000;
/// The path of an export.
const EXPORT: &str = "/api/admin/export/links";
/// The path of what a key may do.
const OVERVIEW: &str = "/api/admin/overview";
/// The scopes with which a key sees the links of every client.
const SEES_ALL: [&str; 2] = ["links:all", "admin"];
/// The path of an import.
const IMPORT: &str = "/api/admin/import/links";
/// The time limit of a request; the app answers in less.
const LIMIT: Duration = Duration::from_secs(30);
/// The maximum size of a response in bytes: a page is far smaller.
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// The pauses before a request is sent again.
const RETRIES: ExponentialBuilder = ExponentialBuilder::new()
    .with_jitter()
    .with_min_delay(Duration::from_millis(500))
    .with_max_delay(Duration::from_secs(15))
    .with_max_times(8);

/// A connection to the app.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Opens connections to the app.
pub(super) type Connect =
    Box<dyn Fn() -> BoxFuture<'static, Result<Pin<Box<dyn Stream>>, TransferError>> + Send + Sync>;

/// The API of a stack.
pub(super) struct Api {
    connect: Connect,
    key: HeaderValue,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// True after the first answer. A pod that cannot be found then may be found again.
    was_answered: bool,
    retries: ExponentialBuilder,
}

/// A page of an export.
pub(super) struct Page {
    pub(super) text: Bytes,
    /// The code behind which the next page begins; `None` on the last one.
    pub(super) next: Option<String>,
}

/// What a key may do.
#[derive(Deserialize)]
struct Overview {
    client: KnownClient,
}

#[derive(Deserialize)]
struct KnownClient {
    name: String,
    scopes: Vec<String>,
}

/// The results of an import.
#[derive(Deserialize)]
pub(super) struct Results {
    pub(super) results: Vec<LineResult>,
}

/// The result of one line.
#[derive(Deserialize)]
pub(super) struct LineResult {
    pub(super) code: Option<String>,
    pub(super) result: String,
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) errors: Vec<FieldError>,
}

/// An invalid field.
#[derive(Deserialize)]
pub(super) struct FieldError {
    field: String,
    reason: String,
}

/// A problem document.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: String,
    detail: String,
    errors: Vec<FieldError>,
}

/// A failed attempt.
enum Failure {
    /// Another attempt is of no use.
    Final(TransferError),
    /// Another attempt may succeed, after this time if one is given.
    Passing(TransferError, Option<Duration>),
    /// The rate limit of the key is reached.
    Paced(TransferError, Option<Duration>),
}

/// Returns connections to a port of a pod in which the app runs. Each is to a pod that runs then.
pub(super) fn forwarded(client: Client, namespace: String, stack: String) -> Connect {
    Box::new(move || {
        let (client, namespace, stack) = (client.clone(), namespace.clone(), stack.clone());
        Box::pin(async move {
            let pod = app_pod::find(&client, &namespace, &stack).await?;
            let pods: Pods<Pod> = Pods::namespaced(client, &namespace);
            let forwarded = pods.portforward(&pod, &[PORT]).await;
            let taken = forwarded.map(|mut ports| ports.take_stream(PORT));
            match taken {
                Ok(Some(stream)) => Ok(Box::pin(stream) as Pin<Box<dyn Stream>>),
                Ok(None) => Err(TransferError::Unavailable("no port".to_owned())),
                Err(source) => Err(TransferError::Forward { pod, source }),
            }
        })
    })
}

impl Api {
    pub(super) fn new(connect: Connect, key: HeaderValue) -> Self {
        Self {
            connect,
            key,
            sender: None,
            was_answered: false,
            retries: RETRIES,
        }
    }

    /// Waits this long between two attempts, and makes this number of further ones.
    #[cfg(test)]
    pub(super) fn with_retries(mut self, pause: Duration, times: usize) -> Self {
        self.retries = RETRIES.with_min_delay(pause).with_max_times(times);
        self
    }

    /// Returns the name of the key's client if the key sees only the links of that client.
    pub(super) async fn sees_only(&mut self) -> Result<Option<String>, TransferError> {
        let response = self.send(&Method::GET, OVERVIEW, Bytes::new()).await?;
        let overview: Overview = serde_json::from_slice(response.body())
            .map_err(|error| TransferError::Answer(error.to_string()))?;
        let KnownClient { name, scopes } = overview.client;
        let all = scopes
            .iter()
            .any(|scope| SEES_ALL.contains(&scope.as_str()));
        Ok((!all).then_some(name))
    }

    /// Returns the page of an export behind a code.
    pub(super) async fn export(&mut self, after: Option<&str>) -> Result<Page, TransferError> {
        // A code needs no escape, and the app refuses what is none.
        let path = match after {
            Some(after) => format!("{EXPORT}?after={after}"),
            None => EXPORT.to_owned(),
        };
        let response = self.send(&Method::GET, &path, Bytes::new()).await?;
        let next = response.headers().get(LINK).map(next_of).transpose()?;
        let text = response.into_body();
        Ok(Page { text, next })
    }

    /// Imports lines, and returns a result for each.
    pub(super) async fn import(
        &mut self,
        lines: Bytes,
        dry_run: bool,
    ) -> Result<Vec<LineResult>, TransferError> {
        let path = format!("{IMPORT}?dry_run={dry_run}");
        let response = self.send(&Method::POST, &path, lines).await?;
        let results: Results = serde_json::from_slice(response.body())
            .map_err(|error| TransferError::Answer(error.to_string()))?;
        Ok(results.results)
    }

    /// Sends a request until it is answered, or until it is no use to go on.
    async fn send(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Bytes>, TransferError> {
        let mut pauses = self.retries.build();
        loop {
            let (error, wait, is_pace) = match self.attempt(method, path, body.clone()).await {
                Ok(response) => return Ok(response),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(error, wait)) => (error, wait, false),
                Err(Failure::Paced(error, wait)) => (error, wait, true),
            };
            let Some(pause) = pauses.next() else {
                return Err(error);
            };
            // A rate limit is the pace of a long command, and no news.
            if !is_pace {
                note(&format!("trying again: {error}"));
            }
            sleep(wait.unwrap_or_default().max(pause)).await;
        }
    }

    async fn attempt(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Bytes>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "app")
            .header(AUTHORIZATION, &self.key)
            .header(CONTENT_TYPE, "application/x-ndjson")
            .body(Full::new(body))
            .map_err(|_| Failure::Final(TransferError::Refused("no such path".to_owned())))?;
        let silent = |reason: String| Failure::Passing(TransferError::Unavailable(reason), None);
        let mut sender = match self.sender.take().filter(SendRequest::is_ready) {
            Some(sender) => sender,
            None => {
                let opened = timeout(LIMIT, self.open()).await;
                opened.map_err(|_| silent("no connection in time".to_owned()))??
            }
        };
        let answered = async {
            sender
                .ready()
                .await
                .map_err(|error| silent(error.to_string()))?;
            let answer = sender.send_request(request).await;
            let (head, body) = answer
                .map_err(|error| silent(error.to_string()))?
                .into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await;
            let body = body.map_err(|error| silent(error.to_string()))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let answered = timeout(LIMIT, answered).await;
        let response = answered.map_err(|_| silent("no answer in time".to_owned()))??;
        self.sender = Some(sender);
        self.was_answered = true;
        judge(response)
    }

    async fn open(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let stream = (self.connect)().await.map_err(|error| match &error {
            TransferError::Forward {
                source: kube::Error::Api(status),
                ..
            } if matches!(status.code, 401 | 403) => Failure::Final(error),
            TransferError::Pod(_) if !self.was_answered => Failure::Final(error),
            _ => Failure::Passing(error, None),
        })?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| {
            Failure::Passing(TransferError::Unavailable(error.to_string()), None)
        })?;
        // Its errors fail the request.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Returns the code in the link to the next page.
fn next_of(link: &HeaderValue) -> Result<String, TransferError> {
    let target = link.to_str().ok().and_then(|link| {
        let (_, query) = link.split_once("?after=")?;
        query.split(['&', '>']).next()
    });
    let unknown = || TransferError::Answer(format!("the header {link:?}"));
    target.map(str::to_owned).ok_or_else(unknown)
}

/// Separates answers from failures.
fn judge(response: Response<Bytes>) -> Result<Response<Bytes>, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let error = TransferError::Refused(reason(status, response.body()));
    let wait = retry_after(response.headers());
    Err(match status {
        StatusCode::TOO_MANY_REQUESTS => Failure::Paced(error, wait),
        StatusCode::NOT_IMPLEMENTED => Failure::Final(error),
        StatusCode::REQUEST_TIMEOUT => Failure::Passing(error, wait),
        status if status.is_server_error() => Failure::Passing(error, wait),
        _ => Failure::Final(error),
    })
}

/// Returns the reason that a problem document has, in one line.
fn reason(status: StatusCode, body: &[u8]) -> String {
    let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
    let parts = [problem.title, problem.detail]
        .into_iter()
        .filter(|part| !part.is_empty())
        .chain(problem.errors.iter().map(FieldError::sentence));
    let parts: Vec<String> = parts.collect();
    match parts.is_empty() {
        true => format!("status {status}"),
        false => format!("status {}: {}", status.as_u16(), parts.join(": ")),
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(Duration::from_secs(60)))
}

impl FieldError {
    fn sentence(&self) -> String {
        format!("{} {}", self.field, self.reason)
    }
}

impl LineResult {
    /// Returns the reason why the line was refused.
    pub(super) fn sentence(&self) -> String {
        let errors = self.errors.iter().map(FieldError::sentence);
        let reasons: Vec<String> = self.reason.iter().cloned().chain(errors).collect();
        reasons.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use futures::{SinkExt, StreamExt};
    use kube::Config;
    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use tokio_tungstenite::{WebSocketStream, accept_hdr_async, tungstenite::Message};

    use super::*;

    /// Answers one request with this text, and returns its head.
    async fn answer(listener: &TcpListener, text: &str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 8192];
        let length = stream.read(&mut head).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&head[..length]).into_owned()
    }

    fn json_answer(body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    fn running_pods() -> String {
        let container = json!({"name": "app", "ready": true, "state": {"running": {}}, "image": "", "imageID": "", "restartCount": 0});
        let pod = json!({
            "metadata": {"name": "acme-app-0", "namespace": "links"},
            "status": {"containerStatuses": [container]},
        });
        let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [pod]});
        json_answer(&list.to_string())
    }

    async fn api() -> (TcpListener, Api) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let connect = forwarded(client, "links".to_owned(), "acme".to_owned());
        let api = Api::new(connect, HeaderValue::from_static("Bearer secret"));
        (listener, api.with_retries(Duration::from_millis(1), 1))
    }

    /// Forwards a port to an app that answers a request with this text. Returns the request, and the connection.
    #[expect(clippy::result_large_err, reason = "the library wants such a closure")]
    async fn forward(listener: &TcpListener, text: &str) -> (String, WebSocketStream<TcpStream>) {
        let (stream, _) = listener.accept().await.unwrap();
        let accept = |request: &http::Request<()>, mut response: http::Response<()>| {
            let path = "/api/v1/namespaces/links/pods/acme-app-0/portforward?&ports=3000";
            assert_eq!(request.uri(), path);
            let protocol = http::HeaderValue::from_static("v4.channel.k8s.io");
            let headers = response.headers_mut();
            headers.insert("sec-websocket-protocol", protocol);
            Ok(response)
        };
        let mut socket = accept_hdr_async(stream, accept).await.unwrap();
        for channel in [0, 1] {
            let [low, high] = PORT.to_le_bytes();
            let begin = Message::binary(vec![channel, low, high]);
            socket.send(begin).await.unwrap();
        }
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            let part = socket.next().await.unwrap().unwrap().into_data();
            request.push_str(str::from_utf8(&part[1..]).unwrap());
        }
        let answer = [&[0], text.as_bytes()].concat();
        socket.send(Message::binary(answer)).await.unwrap();
        (request, socket)
    }

    #[tokio::test]
    async fn a_request_goes_through_a_port_of_a_pod_with_the_key() {
        let (listener, mut api) = api().await;
        let page = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nlink: </x?after=a-b&limit=1>; rel=\"next\"\r\n\r\n{}\n";
        let server = async {
            answer(&listener, &running_pods()).await;
            forward(&listener, page).await
        };
        let ((request, _socket), page) = tokio::join!(server, api.export(Some("a")));
        let request = request.to_lowercase();
        assert!(request.starts_with("get /api/admin/export/links?after=a http/1.1"));
        assert!(
            request.contains("authorization: bearer secret"),
            "{request}"
        );
        let page = page.ok().unwrap();
        assert_eq!(
            (&page.text[..], page.next.as_deref()),
            (&b"{}\n"[..], Some("a-b"))
        );
    }

    #[tokio::test]
    async fn a_missing_right_is_named_and_asked_for_once() {
        let (listener, mut api) = api().await;
        let refusal = "HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let server = async {
            answer(&listener, &running_pods()).await;
            answer(&listener, refusal).await
        };
        let (_, refused) = tokio::join!(server, api.export(None));
        let error = refused.err().unwrap().to_string();
        for word in ["acme-app-0", "pods/portforward"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[tokio::test]
    async fn an_api_server_that_is_away_ends_the_first_request_and_delays_a_later_one() {
        let (listener, mut api) = api().await;
        let away =
            "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let (_, first) = tokio::join!(answer(&listener, away), api.export(None));
        assert!(matches!(first, Err(TransferError::Pod(_))));
        api.was_answered = true;
        let page = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}\n";
        let server = async {
            answer(&listener, away).await;
            answer(&listener, &running_pods()).await;
            forward(&listener, page).await
        };
        let (_socket, later) = tokio::join!(server, api.export(None));
        assert_eq!(&later.ok().unwrap().text[..], b"{}\n");
    }

    #[test]
    fn a_refusal_has_the_reasons_of_its_problem() {
        let problem = br#"{"title":"Unauthorized","detail":"No key.","errors":[{"field":"body","reason":"is long"}]}"#;
        assert_eq!(
            reason(StatusCode::UNAUTHORIZED, problem),
            "status 401: Unauthorized: No key.: body is long"
        );
        assert_eq!(
            reason(StatusCode::BAD_GATEWAY, b"<html>"),
            "status 502 Bad Gateway"
        );
    }
}
