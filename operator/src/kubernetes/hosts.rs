//! The claims of stacks on hosts, which are decided in `operator/core/src/model/facts/host_conflict.rs`.
//!
//! A claim stays recorded in the routes of its stack. It is also remembered from the decision on, so that no other
//! reconcile takes the host before the routes show in a watch, or while they are gone by mistake.

use std::{borrow::Borrow, collections::HashMap, time::Duration};

use k8s_openapi::api::networking::v1::Ingress;
use kube::{ResourceExt, runtime::reflector::Store};
use parking_lot::{Mutex, RwLock};
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
    /// The claims that were decided, by the uid of their stack.
    decided: Mutex<HashMap<String, HostClaim>>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            routes: RwLock::default(),
            listed: watch::Sender::new(0),
            decided: Mutex::default(),
        }
    }
}

impl Hosts {
    /// Adds the routes of a scope.
    pub fn follow(&self, inventory: &Inventory) {
        let routes = (
            inventory.objects::<Ingress>(),
            inventory.objects::<HttpRoute>(),
        );
        self.routes.write().push(routes);
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

    /// Decides if a stack may serve the host of its spec, and remembers the decision. `stacks` are those of all scopes.
    pub fn claim(
        &self,
        stack: &ShortenerStack,
        stacks: &[impl Borrow<ShortenerStack>],
    ) -> Option<HostConflict> {
        let mut decided = self.decided.lock();
        let conflict = self.decide(&decided, stack, stacks);
        let owner = stack.uid().unwrap_or_default();
        match HostClaim::decided(stack, conflict.as_ref()) {
            Some(claim) => decided.insert(owner, claim),
            None => decided.remove(&owner),
        };
        conflict
    }

    /// Decides the same for a stack that is only planned, which takes no host.
    pub fn foresee(
        &self,
        stack: &ShortenerStack,
        stacks: &[impl Borrow<ShortenerStack>],
    ) -> Option<HostConflict> {
        self.decide(&self.decided.lock(), stack, stacks)
    }

    fn decide(
        &self,
        decided: &HashMap<String, HostClaim>,
        stack: &ShortenerStack,
        stacks: &[impl Borrow<ShortenerStack>],
    ) -> Option<HostConflict> {
        let wanted = HostClaim::of(stack)?;
        let mut claims = self.of_routes(&wanted);
        claims.extend(remembered(decided, stack, stacks));
        host_conflict(stack, stacks, &claims)
    }

    /// Removes the claim of a deleted stack. The routes that it leaves count until they are gone.
    pub fn forget(&self, owner: &str) {
        self.decided.lock().remove(owner);
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

/// Returns the remembered claims that matter for a stack: its own, and those that meet the one in its spec. The deletion
/// of a stack can be missed while the watch is interrupted, so only claims of stacks that exist count.
fn remembered(
    decided: &HashMap<String, HostClaim>,
    stack: &ShortenerStack,
    stacks: &[impl Borrow<ShortenerStack>],
) -> Vec<HostClaim> {
    let (Some(wanted), Some(uid)) = (HostClaim::of(stack), stack.uid()) else {
        return Vec::new();
    };
    let exists = |claim: &&HostClaim| {
        let mut stacks = stacks.iter().map(Borrow::<ShortenerStack>::borrow);
        stacks.any(|other| other.metadata.uid.as_deref() == Some(claim.owner()))
    };
    let rivals = decided.values().filter(|claim| claim.rivals(&wanted));
    let rivals = rivals.filter(exists);
    decided
        .get(&uid)
        .into_iter()
        .chain(rivals)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        kubernetes::watch_report::Reports,
        server::{health::Health, metrics::Metrics},
        testing::{api_server::FakeApiServer, shared::stored_stack},
    };

    fn stack(name: &str, created: &str, host: &str) -> ShortenerStack {
        let mut stack = stored_stack(json!({"gateway": {"host": host}}));
        stack.metadata.name = Some(name.to_owned());
        stack.metadata.uid = Some(name.to_owned());
        stack.metadata.creation_timestamp = serde_json::from_value(created.into()).unwrap();
        stack
    }

    fn older(host: &str) -> ShortenerStack {
        stack("older", "2026-01-01T00:00:00Z", host)
    }

    fn tenant(host: &str) -> ShortenerStack {
        stack("tenant", "2026-01-02T00:00:00Z", host)
    }

    #[test]
    fn a_host_is_taken_from_the_decision_on_before_any_route_shows() {
        let hosts = Hosts::default();
        let before = [older("before"), tenant("go")];
        assert_eq!(hosts.claim(&before[0], &before), None);
        assert_eq!(hosts.claim(&before[1], &before), None);
        let edited = [older("go"), tenant("go")];
        let conflict = HostConflict {
            holder: "links/tenant".to_owned(),
            host: "go".to_owned(),
            kept: Some("before".to_owned()),
        };
        assert_eq!(hosts.claim(&edited[0], &edited), Some(conflict));
        assert_eq!(hosts.claim(&edited[1], &edited), None);
        // The host before stays claimed while it is kept.
        let other = stack("other", "2026-01-03T00:00:00Z", "before");
        let all = [older("go"), tenant("go"), other.clone()];
        let conflict = hosts.claim(&other, &all).unwrap();
        assert_eq!(
            (conflict.holder.as_str(), conflict.kept),
            ("links/older", None)
        );
    }

    #[test]
    fn a_host_is_free_when_its_stack_has_moved_or_is_gone() {
        let moved = [older("go"), tenant("elsewhere")];
        let hosts = Hosts::default();
        assert_eq!(hosts.claim(&tenant("go"), &[tenant("go")]), None);
        assert!(hosts.claim(&moved[0], &moved).is_some(), "not yet");
        assert_eq!(hosts.claim(&moved[1], &moved), None);
        assert_eq!(hosts.claim(&moved[0], &moved), None);

        let hosts = Hosts::default();
        assert_eq!(hosts.claim(&tenant("go"), &[tenant("go")]), None);
        assert_eq!(hosts.claim(&older("go"), &[older("go")]), None, "gone");

        let hosts = Hosts::default();
        assert_eq!(hosts.claim(&tenant("go"), &[tenant("go")]), None);
        assert!(hosts.foresee(&older("go"), &[tenant("go")]).is_some());
        hosts.forget("tenant");
        assert_eq!(hosts.foresee(&tenant("go"), &[tenant("go")]), None);
        let both = [older("go"), tenant("go")];
        assert_eq!(hosts.claim(&both[0], &both), None, "made again");
    }

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
