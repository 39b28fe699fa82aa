//! Tries connections that the stacks' NetworkPolicies forbid: only a network plugin can tell if it enforces them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use shortener_operator_core::{
    model::{measured::Enforcement, metadata::StackKey},
    plan::conditions::Attempts,
};
use tokio::{net::TcpStream, time::timeout};

use super::{Probes, Subject};
use crate::server::metrics::Metrics;

/// Mean time between two probes of a stack.
const PERIOD: Duration = Duration::from_secs(300);
/// Time limit of a connection attempt. Policies drop packets, so an attempt that they forbid takes this long.
const LIMIT: Duration = Duration::from_secs(2);

/// A port on which no pod of a stack listens. A connection to it succeeds only if a proxy, as that of a service mesh,
/// accepts it in the pod's place.
const UNUSED_PORT: u16 = 1;

/// Returns true if a TCP connection to an address can be opened.
pub type Dial = Arc<dyn Fn(SocketAddr) -> BoxFuture<'static, bool> + Send + Sync>;

impl Subject for Attempts {
    type Answer = Enforcement;

    fn interval(&self) -> Duration {
        PERIOD
    }
}

/// Returns the way to open connections from this machine. They are closed at once, and nothing is sent.
pub fn tcp() -> Dial {
    Arc::new(|address: SocketAddr| {
        let succeeds = async move {
            let connection = timeout(LIMIT, TcpStream::connect(address)).await;
            connection.is_ok_and(|connection| connection.is_ok())
        };
        succeeds.boxed()
    })
}

/// Probes the stacks forever.
pub async fn run(probes: Arc<Probes<Attempts>>, dial: Dial, metrics: Metrics) {
    let attempt = |stack: StackKey, attempts: Attempts| {
        let (dial, metrics, probes) = (dial.clone(), metrics.clone(), probes.clone());
        async move {
            let answer = tried(&dial, &attempts).await?;
            let enforced = Some(answer == Enforcement::Enforced);
            let (namespace, name) = &stack;
            probes.while_followed(&stack, || {
                metrics.probes.policies_enforced(namespace, name, enforced);
            });
            Some(answer)
        }
    };
    probes.run(attempt).await;
}

/// Tries the connections; `None` if it proves nothing, because no connection fails or the allowed one does.
async fn tried(dial: &Dial, attempts: &Attempts) -> Option<Enforcement> {
    let allowed = attempts.allowed;
    let control = SocketAddr::new(allowed.ip(), UNUSED_PORT);
    if dial(control).await {
        tracing::debug!(address = %control, "a connection succeeded to a port on which nothing listens: a proxy accepts it");
        return None;
    }
    for address in &attempts.forbidden {
        if dial(*address).await {
            tracing::debug!(%address, "a connection succeeded that the NetworkPolicies forbid");
            return Some(Enforcement::NotEnforced);
        }
    }
    // Last, so that the pod was there all the time.
    dial(allowed).await.then_some(Enforcement::Enforced)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn connections_to_a_listener_succeed_and_others_fail() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(tcp()(address).await);
        drop(listener);
        assert!(!tcp()(address).await);
    }

    #[tokio::test]
    async fn forbidden_connections_prove_something_only_beside_one_that_succeeds_and_one_that_fails()
     {
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let attempts = Attempts {
            allowed: at(9090),
            forbidden: vec![at(3000), at(5432)],
        };
        for (open, expected) in [
            (vec![9090], Some(Enforcement::Enforced)),
            (vec![], None),
            (vec![9090, 5432], Some(Enforcement::NotEnforced)),
            (vec![3000], Some(Enforcement::NotEnforced)),
            (vec![UNUSED_PORT, 3000, 5432, 9090], None),
        ] {
            let ports = open.clone();
            let dial: Dial = Arc::new(move |address: SocketAddr| {
                let is_open = ports.contains(&address.port());
                async move { is_open }.boxed()
            });
            assert_eq!(tried(&dial, &attempts).await, expected, "{open:?}");
        }
    }
}
