//! The claims of stacks on hosts, which are decided in `operator/core/src/model/facts/host_conflict.rs`.
//!
//! A claim is recorded in the routes of its stack. Until these show in a watch, the age of the stacks decides.

use std::{borrow::Borrow, time::Duration};

use k8s_openapi::api::networking::v1::Ingress;
use kube::{ResourceExt, runtime::reflector::Store};
use parking_lot::RwLock;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        facts::{HostClaim, host_conflict},
        gateway_api::HttpRoute,
        stack::HostConflict,
    },
};
use tokio::{sync::watch, time::timeout};

use super::inventory::Inventory;

/// Longest time for which a scope waits, at its start, for the routes of the others.
const OTHERS_LIMIT: Duration = Duration::from_secs(5);

/// The claims of all stacks on hosts.
pub struct Hosts {
    /// The routes of each scope.
    routes: RwLock<Vec<(Store<Ingress>, Store<HttpRoute>)>>,
    /// Number of scopes whose routes are listed.
    listed: watch::Sender<usize>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            routes: RwLock::default(),
            listed: watch::Sender::new(0),
        }
    }
}

impl Hosts {
    /// Adds the routes of a scope.
    pub fn follow(&self, inventory: &Inventory) {
        self.add(
            inventory.objects::<Ingress>(),
            inventory.objects::<HttpRoute>(),
        );
    }

    /// Adds routes of stacks.
    pub fn add(&self, ingresses: Store<Ingress>, routes: Store<HttpRoute>) {
        self.routes.write().push((ingresses, routes));
    }

    /// Records that the routes of a scope are listed, then waits for those of the others, without which a stack could take
    /// a host that is served. A scope that may not be listed does not hold up the others.
    pub async fn listed(&self) {
        self.listed.send_modify(|listed| *listed += 1);
        let scopes = self.routes.read().len();
        let mut listed = self.listed.subscribe();
        let all = listed.wait_for(|listed| *listed >= scopes);
        if timeout(OTHERS_LIMIT, all).await.is_err() {
            tracing::warn!(
                "the routes of another watched namespace could not be listed within 5 s; starting without them"
            );
        }
    }

    /// Decides if a stack may serve the host of its spec. Returns the stack that holds it, if another one does. `stacks` are
    /// those of all scopes.
    pub fn conflict(
        &self,
        stack: &ShortenerStack,
        stacks: &[impl Borrow<ShortenerStack>],
    ) -> Option<HostConflict> {
        let wanted = HostClaim::of(stack)?;
        host_conflict(stack, stacks, &self.of_routes(&wanted))
    }

    /// Returns the claims that the live routes record and that matter for a wanted one: those of its stack, and those that
    /// it meets.
    fn of_routes(&self, wanted: &HostClaim) -> Vec<HostClaim> {
        let mut claims = Vec::new();
        for (ingresses, routes) in self.routes.read().iter() {
            let (mut ingresses, mut routes) = (ingresses.state(), routes.state());
            // The first one is named in the status, which must not depend on the order of a map.
            ingresses.sort_by_cached_key(|ingress| (ingress.namespace(), ingress.name_any()));
            routes.sort_by_cached_key(|route| (route.namespace(), route.name_any()));
            let of_ingresses = ingresses
                .iter()
                .filter_map(|one| HostClaim::of_ingress(one));
            let of_routes = routes.iter().filter_map(|one| HostClaim::of_route(one));
            claims.extend(of_ingresses.chain(of_routes));
        }
        claims.retain(|claim| claim.owner() == wanted.owner() || claim.rivals(wanted));
        claims
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::{
        kubernetes::watch_report::Reports,
        server::{health::Health, metrics::Metrics},
        testing::api_server::FakeApiServer,
    };

    #[tokio::test(start_paused = true)]
    async fn a_scope_waits_for_the_routes_of_the_others_but_not_for_ever() {
        let (server, started) = (FakeApiServer::default(), Instant::now());
        let (metrics, health) = (Metrics::new().unwrap(), Health::default());
        let with_two_scopes = || {
            let hosts = Hosts::default();
            for namespace in ["one", "two"] {
                let reports = Reports {
                    metrics: &metrics,
                    health: &health,
                    namespace: Some(namespace),
                };
                let (inventory, _) = Inventory::watch(&server.client(), reports);
                hosts.follow(&inventory);
            }
            hosts
        };
        let hosts = with_two_scopes();
        tokio::join!(hosts.listed(), hosts.listed());
        assert_eq!(started.elapsed().as_secs(), 0);
        with_two_scopes().listed().await;
        assert_eq!(started.elapsed().as_secs(), OTHERS_LIMIT.as_secs());
    }
}
