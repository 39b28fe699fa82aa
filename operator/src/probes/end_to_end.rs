//! Tries an end-to-end probe through the gateway of a stack: makes a link, opens it without following it, sends a job and awaits
//! its result.
//!
//! The address is text of a user. The requests and their paths are fixed, their answers are bounded and never repeated to
//! anyone, and no connection goes to the operator's own machine or node.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE, HOST, LOCATION, USER_AGENT},
};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};
use shortener_operator_core::{
    model::{
        measured::{EndToEndResult, Fault, Step},
        metadata::StackKey,
        stack::EndToEndTarget,
    },
    plan::conditions::TASK,
};
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, sleep, timeout},
};
use tower::{BoxError, ServiceExt};

use super::{Probes, Subject};
use crate::{
    server::metrics::Metrics,
    transport::{self, Transport},
};

/// Time limit of one request.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);
/// Time limit of a connection attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Time for which the result of a job is awaited.
const JOB_LIMIT: Duration = Duration::from_secs(30);
/// Time between two questions after the job.
const JOB_PAUSE: Duration = Duration::from_millis(500);
/// Lifetime of the links in seconds, the shortest that the app accepts.
const LINK_LIFE: u32 = 60;
/// Maximum size of an answer in bytes, a multiple of what the app says.
const MAX_ANSWER: usize = 64 << 10;
/// Statuses of the answer to an opened link.
pub(crate) const REDIRECTS: [StatusCode; 4] = [
    StatusCode::MOVED_PERMANENTLY,
    StatusCode::FOUND,
    StatusCode::TEMPORARY_REDIRECT,
    StatusCode::PERMANENT_REDIRECT,
];

/// Returns the way to send requests to the address of a target.
pub type Connect =
    Arc<dyn Fn(Uri) -> BoxFuture<'static, Result<Transport, BoxError>> + Send + Sync>;

impl Subject for EndToEndTarget {
    type Answer = EndToEndResult;

    fn interval(&self) -> Duration {
        self.interval
    }
}

/// The reason for which an end-to-end probe ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Failed(Step, Fault),
    /// A rate limit answered, which says nothing about the service.
    Limited,
}

/// Returns the way to send requests from this machine. The certificate of an HTTPS address must be one that the machine
/// trusts.
pub fn network() -> Connect {
    Arc::new(|address: Uri| reach(address).boxed())
}

/// Probes the stacks forever.
pub async fn run(probes: Arc<Probes<EndToEndTarget>>, connect: Connect, metrics: Metrics) {
    let attempt = |stack: StackKey, target: EndToEndTarget| {
        let (connect, metrics, probes) = (connect.clone(), metrics.clone(), probes.clone());
        async move {
            let (namespace, name) = &stack;
            let (begin, attempt) = (Instant::now(), Attempt::new(target, connect));
            let failed = match attempt.run_steps().await {
                Ok(()) => None,
                Err(Ended::Failed(step, fault)) => Some((step, fault)),
                Err(Ended::Limited) => return None,
            };
            let took = begin.elapsed();
            probes.while_followed(&stack, || {
                let succeeded = failed.is_none();
                metrics.probes.end_to_end(namespace, name, took, succeeded);
            });
            let trace = attempt.trace;
            if let Some((step, fault)) = failed {
                tracing::info!(stack = %name, %namespace, ?step, ?fault, trace_id = %trace, "an end-to-end probe through the gateway of the stack failed");
            }
            Some(EndToEndResult {
                trace,
                milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                failed,
            })
        }
    };
    probes.run(attempt).await;
}

/// One end-to-end probe, or one request like those of such a probe.
pub(crate) struct Attempt {
    target: EndToEndTarget,
    connect: Connect,
    /// Trace identifier of all requests.
    trace: String,
}

impl Attempt {
    pub(crate) fn new(target: EndToEndTarget, connect: Connect) -> Self {
        // An identifier of zeros is invalid.
        let trace = format!("{:032x}", rand::random::<u128>() | 1);
        Self {
            target,
            connect,
            trace,
        }
    }

    async fn run_steps(&self) -> Result<(), Ended> {
        let destination = self.target.destination.as_str();
        let link = json!({"url": destination, "ttl_seconds": LINK_LIFE});
        let created = [StatusCode::CREATED];
        let link = self
            .ask(Step::Shorten, "/api/shorten", Some(link), &created)
            .await?;
        let code = word(&link, "code").ok_or(Ended::Failed(Step::Shorten, Fault::Content))?;
        let path = format!("/{code}");
        let answer = self.ask(Step::Follow, &path, None, &REDIRECTS).await?;
        if answer.headers().get(LOCATION) != Some(&destination_value(destination)?) {
            return Err(Ended::Failed(Step::Follow, Fault::Content));
        }
        if self.target.jobs {
            self.send_job().await?;
        }
        Ok(())
    }

    /// Sends a job and awaits its result.
    async fn send_job(&self) -> Result<(), Ended> {
        let begin = Instant::now();
        let accepted = [StatusCode::ACCEPTED];
        let job = self
            .ask(
                Step::Enqueue,
                "/api/jobs",
                Some(json!({"task": TASK})),
                &accepted,
            )
            .await?;
        let id = word(&job, "id").ok_or(Ended::Failed(Step::Enqueue, Fault::Content))?;
        let path = format!("/jobs/{id}");
        while begin.elapsed() < JOB_LIMIT {
            let state = self
                .ask(Step::Result, &path, None, &[StatusCode::OK])
                .await?;
            match word(&state, "status").as_deref() {
                Some("done") => return Ok(()),
                Some("failed") => return Err(Ended::Failed(Step::Result, Fault::JobFailed)),
                Some(_) => sleep(JOB_PAUSE).await,
                None => return Err(Ended::Failed(Step::Result, Fault::Content)),
            }
        }
        Err(Ended::Failed(Step::Result, Fault::JobLate))
    }

    /// Sends one request, and returns its answer if that has one of the expected statuses.
    async fn ask(
        &self,
        step: Step,
        path: &str,
        body: Option<Value>,
        expected: &[StatusCode],
    ) -> Result<Response<Bytes>, Ended> {
        let answer = self.answer(path, body).await;
        let answer = answer.map_err(|error| {
            tracing::debug!(?step, %error, "a request through the gateway got no answer");
            Ended::Failed(step, Fault::NoAnswer)
        })?;
        match answer.status() {
            status if expected.contains(&status) => Ok(answer),
            StatusCode::TOO_MANY_REQUESTS => Err(Ended::Limited),
            status => Err(Ended::Failed(step, Fault::Status(status.as_u16()))),
        }
    }

    /// Sends one request: a POST with a body, or a GET. Returns the answer, whatever its status.
    ///
    /// # Errors
    /// There was no answer in time.
    pub(crate) async fn answer(
        &self,
        path: &str,
        body: Option<Value>,
    ) -> Result<Response<Bytes>, BoxError> {
        let answer = timeout(LIMIT, self.send(path, body)).await;
        answer.unwrap_or_else(|elapsed| Err(elapsed.into()))
    }

    async fn send(&self, path: &str, body: Option<Value>) -> Result<Response<Bytes>, BoxError> {
        let target = &self.target;
        let address: Uri = target.address.parse()?;
        let authority = address.authority().ok_or("the address has no host")?;
        let host = if target.host.is_empty() {
            authority.as_str()
        } else {
            target.host.as_str()
        };
        let method = if body.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let span = rand::random::<u64>() | 1;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{host}{path}"))
            .header(HOST, host)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, "shortener-operator")
            .header("traceparent", format!("00-{}-{span:016x}-01", self.trace));
        if let Some(key) = &target.key {
            let mut key = HeaderValue::from_str(key)?;
            key.set_sensitive(true);
            request = request.header("x-api-key", key);
        }
        let body = match body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Full::from(body.to_string())
            }
            None => Full::default(),
        };
        let transport = (self.connect)(address).await?;
        transport.oneshot(request.body(body)?).await
    }
}

/// Returns a field of an answer that consists of letters, digits, `-` and `_`, so that it can stand in a path.
pub(crate) fn word(answer: &Response<Bytes>, field: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(answer.body()).ok()?;
    let text = body.get(field)?.as_str()?;
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    ((1..=64).contains(&text.len()) && text.bytes().all(is_sign)).then(|| text.to_owned())
}

fn destination_value(destination: &str) -> Result<HeaderValue, Ended> {
    HeaderValue::from_str(destination).map_err(|_| Ended::Failed(Step::Follow, Fault::Content))
}

async fn reach(address: Uri) -> Result<Transport, BoxError> {
    let secure = address.scheme_str() == Some("https");
    let host = address.host().ok_or("the address has no host")?;
    let port = address.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let peer = {
        let mut peers = lookup_host((host, port)).await?;
        peers.find(|peer| is_elsewhere(peer.ip()))
    };
    let peer = peer.ok_or("the address is one of the operator's own machine or node")?;
    if secure {
        return Ok(transport::https(MAX_ANSWER, host, peer)?);
    }
    Ok(transport::over(MAX_ANSWER, move || connect(peer)))
}

async fn connect(peer: SocketAddr) -> Result<TcpStream, BoxError> {
    Ok(timeout(CONNECT_LIMIT, TcpStream::connect(peer)).await??)
}

/// Returns true for the address of another machine. Link-local addresses include those of cloud providers' metadata.
fn is_elsewhere(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gateway::FakeGateway;

    fn target() -> EndToEndTarget {
        EndToEndTarget {
            address: "http://acme-gateway.links.svc:80".to_owned(),
            host: "go.example.com".to_owned(),
            key: Some("k".repeat(32)),
            destination: "https://end-to-end.invalid/".to_owned(),
            jobs: true,
            interval: Duration::from_secs(300),
        }
    }

    async fn travelled(gateway: &FakeGateway) -> Result<(), Ended> {
        Attempt::new(target(), gateway.connect()).run_steps().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_made_and_opened_and_a_job_done_in_one_trace() {
        let gateway = FakeGateway::default();
        let attempt = Attempt::new(target(), gateway.connect());
        assert_eq!(attempt.run_steps().await, Ok(()));
        let seen = gateway.seen();
        let lines: Vec<_> = seen.iter().map(|request| request.line.as_str()).collect();
        let expected = [
            "POST /api/shorten",
            "GET /k7Qm2xB",
            "POST /api/jobs",
            "GET /jobs/0197f2a4-0000-7000-8000-000000000001",
            "GET /jobs/0197f2a4-0000-7000-8000-000000000001",
        ];
        assert_eq!(lines, expected, "the destination is not requested");
        for request in &seen {
            assert_eq!(request.host, "go.example.com");
            assert_eq!(request.key.as_deref(), Some("k".repeat(32).as_str()));
            assert!(request.traceparent.contains(&attempt.trace));
        }
        assert_eq!(seen[0].body["ttl_seconds"], 60);
        assert_eq!(seen[2].body["task"], TASK);
    }

    #[tokio::test(start_paused = true)]
    async fn each_step_that_fails_is_told_from_the_others() {
        let unavailable = Fault::Status(503);
        for (line, step) in [
            ("POST /api/shorten", Step::Shorten),
            ("GET /k7Qm2xB", Step::Follow),
            ("POST /api/jobs", Step::Enqueue),
            (
                "GET /jobs/0197f2a4-0000-7000-8000-000000000001",
                Step::Result,
            ),
        ] {
            let gateway = FakeGateway::default();
            gateway.answers(line, StatusCode::SERVICE_UNAVAILABLE, json!({}));
            assert_eq!(
                travelled(&gateway).await,
                Err(Ended::Failed(step, unavailable))
            );
            gateway.answers(line, StatusCode::TOO_MANY_REQUESTS, json!({}));
            assert_eq!(travelled(&gateway).await, Err(Ended::Limited), "{line}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_with_something_else_is_a_failure() {
        let gateway = FakeGateway::default();
        gateway.leads_to("https://elsewhere.example/");
        let elsewhere = Ended::Failed(Step::Follow, Fault::Content);
        assert_eq!(travelled(&gateway).await, Err(elsewhere));
        let gateway = FakeGateway::default();
        let path = json!({"code": "../admin"});
        gateway.answers("POST /api/shorten", StatusCode::CREATED, path);
        let not_a_code = Ended::Failed(Step::Shorten, Fault::Content);
        assert_eq!(travelled(&gateway).await, Err(not_a_code));
        assert_eq!(gateway.seen().len(), 1, "no path is made of it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_fails_or_never_ends_and_a_silent_gateway_are_told() {
        let job = "GET /jobs/0197f2a4-0000-7000-8000-000000000001";
        for (status, fault) in [("failed", Fault::JobFailed), ("running", Fault::JobLate)] {
            let gateway = FakeGateway::default();
            gateway.answers(job, StatusCode::OK, json!({"status": status}));
            let expected = Err(Ended::Failed(Step::Result, fault));
            assert_eq!(travelled(&gateway).await, expected);
        }
        let gateway = FakeGateway::default();
        gateway.fall_silent();
        let expected = Err(Ended::Failed(Step::Shorten, Fault::NoAnswer));
        assert_eq!(travelled(&gateway).await, expected);
    }

    #[tokio::test]
    async fn no_connection_goes_to_the_operators_own_machine_or_node() {
        for (address, elsewhere) in [
            ("127.0.0.1", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("fe80::1", false),
            ("10.96.0.10", true),
            ("fd00::10", true),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(is_elsewhere(address), elsewhere, "{address}");
        }
        for address in ["http://127.0.0.1:8080", "https://127.0.0.1"] {
            let refused = reach(address.parse().unwrap()).await;
            let message = refused.err().unwrap().to_string();
            assert!(message.contains("own machine"), "{message}");
        }
    }
}
