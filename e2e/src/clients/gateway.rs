//! The public side of a stack: HTTP through its gateway.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use reqwest::{ClientBuilder, Method, RequestBuilder, redirect::Policy};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    clients::{Answer, https},
    harness::{Forward, Space, Stack, await_condition, node_address, pods_of},
};

/// Number of consecutive right answers after which every instance of the gateway is assumed to serve the stack.
const SETTLED: usize = 32;

/// Port of the node at which the ingress controller of the test cluster serves TLS.
const CONTROLLER_TLS_PORT: u16 = 443;

/// Ports of the node at which the Gateway of the test cluster serves HTTP and HTTPS (`cluster/addons/contour.yaml`).
const GATEWAY_PORT: u16 = 30080;
const GATEWAY_TLS_PORT: u16 = 30043;

/// A client of one stack's gateway.
#[derive(Clone)]
pub struct GatewayClient {
    base: String,
    host: String,
    http: reqwest::Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The cluster's ingress-nginx controller.
    IngressNginx,
    /// The stack's own nginx.
    Standalone,
    /// The cluster's Gateway, which the addon Contour serves.
    GatewayApi,
}

impl Provider {
    pub const COUNT: usize = 3;

    /// The value of `spec.gateway.provider`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IngressNginx => "IngressNginx",
            Self::Standalone => "Standalone",
            Self::GatewayApi => "GatewayAPI",
        }
    }
}

impl GatewayClient {
    /// Finds the address of a stack and waits until its gateway and its app answer there.
    pub async fn open(
        space: &Space,
        stack: &Stack,
        provider: Provider,
        host: &str,
    ) -> Result<Self> {
        let gateway = match provider {
            Provider::IngressNginx => Self::at(space.settings.gateway_url.clone(), host)?,
            Provider::Standalone => Self::plain(space, stack, host).await?,
            Provider::GatewayApi => Self::on_gateway(space, host).await?,
        };
        gateway.serves().await?;
        Ok(gateway)
    }

    /// Finds the port for TLS of a stack and waits until its gateway and its app answer there with this certificate
    /// (PEM).
    pub async fn open_tls(
        space: &Space,
        stack: &Stack,
        provider: Provider,
        host: &str,
        certificate: &str,
    ) -> Result<Self> {
        let gateway = Self::trusting(space, stack, provider, host, &[certificate]).await?;
        gateway.serves().await?;
        Ok(gateway)
    }

    /// Returns a client of the port for HTTP of a stack's own gateway.
    pub async fn plain(space: &Space, stack: &Stack, host: &str) -> Result<Self> {
        let mut nodes = Self::on_nodes(space, stack, host).await?;
        nodes.pop().context("the gateway has no pod on a node")
    }

    /// Returns a client of each node with a pod of a stack's own gateway, at the port for HTTP. The other nodes refuse
    /// connections (`externalTrafficPolicy: Local`).
    pub async fn on_nodes(space: &Space, stack: &Stack, host: &str) -> Result<Vec<Self>> {
        let port = node_port(&space.client, stack, "http").await?;
        let pods = pods_of(stack, "gateway").await?;
        let nodes: BTreeSet<_> = pods
            .into_iter()
            .filter_map(|pod| pod.status?.host_ip)
            .collect();
        let at = |node| Self::at(format!("http://{node}:{port}"), host);
        nodes.into_iter().map(at).collect()
    }

    /// Returns a client of the port for HTTP of the cluster's Gateway.
    pub async fn on_gateway(space: &Space, host: &str) -> Result<Self> {
        let address = on_node(&space.client, GATEWAY_PORT).await?;
        Self::at(format!("http://{address}"), host)
    }

    /// Returns a client of the port for TLS that trusts these certificates (PEM) and names the host in the handshake.
    pub async fn trusting(
        space: &Space,
        stack: &Stack,
        provider: Provider,
        host: &str,
        certificates: &[&str],
    ) -> Result<Self> {
        let address = match provider {
            Provider::IngressNginx => on_node(&space.client, CONTROLLER_TLS_PORT).await?,
            Provider::Standalone => {
                on_node(
                    &space.client,
                    node_port(&space.client, stack, "https").await?,
                )
                .await?
            }
            Provider::GatewayApi => on_node(&space.client, GATEWAY_TLS_PORT).await?,
        };
        let http = https::client(certificates)?.resolve(host, address);
        Self::with(http, format!("https://{host}:{}", address.port()), host)
    }

    async fn serves(&self) -> Result<()> {
        // The rules of the nodes and the routes of an ingress controller are updated a moment after the stack is ready,
        // in each worker process of the controller separately. Only many right answers in a row come from all of them.
        let what = format!("the gateway serves {} at {}", self.host, self.base);
        await_condition(&what, async || {
            for _ in 0..SETTLED {
                let answer = self.get("/gateway-health").await?;
                ensure!(
                    answer.body.trim_end() == "gateway ok",
                    "expected gateway ok, got {answer:?}"
                );
                let answer = self.get("/api/health").await?;
                ensure!(answer.status == 200, "expected status 200, got {answer:?}");
            }
            Ok(())
        })
        .await
    }

    /// Returns a client of a known address.
    pub fn at(base: String, host: &str) -> Result<Self> {
        Self::with(https::client(&[])?, base, host)
    }

    fn with(http: ClientBuilder, base: String, host: &str) -> Result<Self> {
        let http = http
            .redirect(Policy::none())
            .timeout(Duration::from_secs(20))
            // Each request has a connection of its own, so that earlier requests cannot influence a test.
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self {
            base,
            host: host.to_owned(),
            http,
        })
    }

    /// Returns the host that the requests name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns a client that names another host, of a gateway that is reached by HTTP.
    pub fn on_host(&self, host: &str) -> Self {
        Self {
            host: host.to_owned(),
            ..self.clone()
        }
    }

    /// Returns a client of a forwarded port, which works as long as the pod that the port is forwarded to.
    pub fn through(forward: &Forward) -> Result<Self> {
        Self::at(format!("http://{}", forward.address), "localhost")
    }

    /// Returns a request that can still be changed before [`GatewayClient::send`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.base))
            .header("host", &self.host)
    }

    /// Sends a request and reads the answer.
    pub async fn send(&self, request: RequestBuilder) -> Result<Answer> {
        let response = request.send().await?;
        let status = response.status().as_u16();
        let mut headers = BTreeMap::<String, String>::new();
        for (name, value) in response.headers() {
            let value = value.to_str().context("a header's value is not text")?;
            headers
                .entry(name.to_string())
                .and_modify(|known| *known = format!("{known}, {value}"))
                .or_insert_with(|| value.to_owned());
        }
        let body = response.text().await?;
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    /// Sends a request as it is, by HTTP, and returns everything that comes back.
    pub async fn send_raw(&self, request: &str) -> Result<String> {
        let address = self.base.strip_prefix("http://");
        let address = address.context("the gateway is not reached by HTTP")?;
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a `POST` request with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Returns the value of a series of the app's metrics, such as
    /// `cache_requests_total{result="hit"}`; 0 before its first sample.
    pub async fn count(&self, series: &str) -> Result<u64> {
        self.count_at("/api/metrics", series).await
    }

    /// Returns the value of a series of the metrics at another path.
    pub async fn count_at(&self, path: &str, series: &str) -> Result<u64> {
        let metrics = self.get(path).await?;
        ensure!(
            metrics.status == 200,
            "expected status 200, got {metrics:?}"
        );
        let line = metrics
            .body
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(Ok(0), |value| Ok(value.trim().parse::<f64>()? as u64))
    }

    /// Shortens a URL and returns the code.
    pub async fn shorten(&self, url: &str) -> Result<String> {
        let answer = self.post("/api/shorten", &json!({"url": url})).await?;
        ensure!(
            answer.status == 201,
            "shortening {url}: expected status 201, got {answer:?}"
        );
        let code = answer.json()?["code"].as_str().map(str::to_owned);
        code.with_context(|| format!("the answer has no code: {answer:?}"))
    }

    /// Waits until a code redirects to exactly this URL, because the gateway may not yet route to new pods.
    pub async fn wait_until_redirects(&self, code: &str, url: &str) -> Result<()> {
        await_condition(&format!("{code} redirects to {url}"), async || {
            self.assert_redirects(code, url).await
        })
        .await
    }

    /// Checks that a code redirects to exactly this URL.
    pub async fn assert_redirects(&self, code: &str, url: &str) -> Result<()> {
        let answer = self.get(&format!("/api/links/{code}")).await?;
        ensure!(
            answer.status == 302 && answer.header("location") == url,
            "expected a redirect from {code} to {url}, got {answer:?}"
        );
        Ok(())
    }

    /// Checks that the database has a link, and not only the cache: the preview of a link is always read from the database. A
    /// stack that cannot say it is asked again.
    pub async fn assert_stored(&self, code: &str, url: &str) -> Result<()> {
        let what = format!("the database answers for {code}");
        let answer = await_condition(&what, async || {
            let answer = self.get(&format!("/{code}+")).await?;
            ensure!(answer.status < 500 && answer.status != 429, "{answer:?}");
            Ok(answer)
        })
        .await?;
        ensure!(
            answer.status == 200 && answer.json()?["url"] == url,
            "the acknowledged link {code} to {url} is lost: {answer:?}"
        );
        Ok(())
    }
}

/// Returns the port of the nodes that leads to a named port of the gateway.
async fn node_port(client: &Client, stack: &Stack, name: &str) -> Result<u16> {
    let services = Api::<Service>::namespaced(client.clone(), &stack.namespace);
    let service = services.get(&format!("{}-gateway", stack.name)).await?;
    let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
    let mut named = ports
        .into_iter()
        .filter(|port| port.name.as_deref() == Some(name));
    let port = named.next().and_then(|port| port.node_port);
    let port = port.with_context(|| format!("the gateway's Service has no node port {name}"))?;
    Ok(u16::try_from(port)?)
}

/// Returns the address of a port of a node.
async fn on_node(client: &Client, port: u16) -> Result<SocketAddr> {
    let address = node_address(client).await?;
    Ok(SocketAddr::new(address.parse()?, port))
}
