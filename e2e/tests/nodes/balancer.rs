//! A load balancer before the nodes, as those of providers are: it checks each node, leaves out those that do not answer,
//! and sends every other request to the next node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use shortener_e2e::GatewayClient;
use tokio::{
    task::JoinSet,
    time::{interval, timeout},
};

/// The interval of the checks of a node, and the time limit of each.
const INTERVAL: Duration = Duration::from_secs(2);
/// The number of failed checks in a row after which a node gets no request.
const FAILURES: u32 = 2;

/// The nodes that serve a stack.
pub struct Balancer {
    nodes: Vec<Arc<Node>>,
    next: AtomicUsize,
    /// Ends the checks when the balancer is dropped.
    _checks: JoinSet<()>,
}

struct Node {
    gateway: GatewayClient,
    healthy: AtomicBool,
}

impl Balancer {
    /// Begins to check these nodes, of which there is at least one.
    pub fn start(gateways: Vec<GatewayClient>) -> Arc<Self> {
        let node = |gateway| {
            Arc::new(Node {
                gateway,
                healthy: AtomicBool::new(true),
            })
        };
        let nodes: Vec<_> = gateways.into_iter().map(node).collect();
        let mut checks = JoinSet::new();
        for node in &nodes {
            checks.spawn(check(Arc::clone(node)));
        }
        Arc::new(Self {
            nodes,
            next: AtomicUsize::new(0),
            _checks: checks,
        })
    }

    /// Returns the node for the next request; one that does not answer if none does.
    pub fn pick(&self) -> &GatewayClient {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let at = |step: usize| &self.nodes[(first + step) % self.nodes.len()];
        let healthy = (0..self.nodes.len())
            .map(at)
            .find(|node| node.healthy.load(Ordering::Relaxed));
        &healthy.unwrap_or(at(0)).gateway
    }
}

/// Checks a node for ever.
async fn check(node: Arc<Node>) {
    let (mut clock, mut failures) = (interval(INTERVAL), 0);
    loop {
        clock.tick().await;
        let answer = timeout(INTERVAL, node.gateway.get("/gateway-health")).await;
        let healthy = matches!(answer, Ok(Ok(answer)) if answer.status == 200);
        failures = if healthy { 0 } else { failures + 1 };
        node.healthy.store(failures < FAILURES, Ordering::Relaxed);
    }
}
