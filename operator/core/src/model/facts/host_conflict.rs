//! The claims of stacks on their hosts: first come, first served.
//!
//! The live routes of a stack, its Ingresses or its HTTPRoute, are the record of its claim. They say what is served, and
//! stay when the operator restarts or a status is lost. They go with their stack, so that a stack of the same name that is
//! made later has no claim left over. Stacks without routes are in the order of their creation, but one that already
//! waits, by its status, comes after those that do not.

use std::borrow::Borrow;

use k8s_openapi::{
    api::networking::v1::Ingress,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube_core::{Resource, ResourceExt};

use super::gateway::parents;
use crate::{
    api::{GatewayProvider, ShortenerStack},
    model::{
        gateway_api::HttpRoute,
        metadata::{CONSOLE_HOST, is_plan_only},
        stack::{Entry, Exposure, HostConflict, Hosts},
    },
};

/// Reason of the condition of a gateway whose host another stack holds.
pub const HOST_CONFLICT: &str = "HostConflict";

/// The claim of a stack on its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostClaim {
    /// Uid of the stack.
    owner: String,
    /// The stack, as `namespace/name`.
    stack: String,
    exposure: Exposure,
}

impl HostClaim {
    /// Returns the claim in the spec of a stack; `None` if the stack has an entry of its own.
    pub fn of(stack: &ShortenerStack) -> Option<Self> {
        let exposure = Exposure::of(stack)?;
        Some(Self {
            owner: stack.uid()?,
            stack: title(stack.namespace(), &stack.name_any()),
            exposure,
        })
    }

    /// Returns the claim that a live Ingress of a stack records. The one of the console records none: its host stands in those
    /// of the links.
    pub fn of_ingress(ingress: &Ingress) -> Option<Self> {
        let spec = ingress.spec.as_ref()?;
        let rules = spec.rules.iter().flatten();
        let links = rules.filter_map(|rule| rule.host.clone()).collect();
        let entries = vec![Entry::Class(spec.ingress_class_name.clone()?)];
        Self::recorded(&ingress.metadata, entries, links)
    }

    /// Returns the claim that a live HTTPRoute of a stack records.
    pub fn of_route(route: &HttpRoute) -> Option<Self> {
        let own = route.namespace()?;
        let parents = route.spec.parent_refs.iter();
        let entries = parents.map(|parent| Entry::Gateway {
            namespace: parent.namespace.clone().unwrap_or_else(|| own.clone()),
            name: parent.name.clone(),
            section: parent.section_name.clone(),
            port: parent.port,
        });
        let links = route.spec.hostnames.clone();
        Self::recorded(&route.metadata, entries.collect(), links)
    }

    fn recorded(route: &ObjectMeta, entries: Vec<Entry>, links: Vec<String>) -> Option<Self> {
        let annotations = route.annotations.as_ref();
        let console = annotations.and_then(|annotations| annotations.get(CONSOLE_HOST));
        // A route without any host serves every one.
        if console.is_some() && links.iter().eq(console) {
            return None;
        }
        let console = console.cloned();
        let hosts = Hosts { links, console };
        let mut owners = route.owner_references.iter().flatten();
        let kind = ShortenerStack::kind(&());
        let owner = owners.find(|owner| owner.controller == Some(true) && owner.kind == kind)?;
        Some(Self {
            owner: owner.uid.clone(),
            stack: title(route.namespace.clone(), &owner.name),
            exposure: Exposure { entries, hosts },
        })
    }

    /// Returns the uid of the stack.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns true when another stack has this claim and a request can be for either of the two.
    pub fn rivals(&self, other: &Self) -> bool {
        self.owner != other.owner && self.exposure.meets(&other.exposure)
    }
}

/// Decides whether a stack may serve the hosts of its spec. Returns the stack that serves one of them, if another one does.
/// Then the hosts of this stack stay as they are. `claims` are those of every stack, this one's included.
pub fn host_conflict(
    stack: &ShortenerStack,
    others: &[impl Borrow<ShortenerStack>],
    claims: &[HostClaim],
) -> Option<HostConflict> {
    let wanted = HostClaim::of(stack)?;
    let holds = claims.contains(&wanted);
    let others = || others.iter().map(Borrow::<ShortenerStack>::borrow);
    let is_earlier = |other: &ShortenerStack| precedence(other) < precedence(stack);
    let is_of_earlier = |claim: &HostClaim| {
        let owner = others().find(|other| other.uid().as_deref() == Some(claim.owner.as_str()));
        owner.is_some_and(is_earlier)
    };
    let mut rivals = claims.iter().filter(|claim| claim.rivals(&wanted));
    // Two stacks hold a host if both got it before a watch showed the routes of one. Then the earlier one is right.
    let mut holder = rivals.find(|claim| !holds || is_of_earlier(claim)).cloned();
    if holder.is_none() && !holds {
        let waiting = others().filter(|other| {
            other.metadata.deletion_timestamp.is_none()
                && !is_plan_only(other)
                && is_earlier(other)
                && HostClaim::of(other).is_some_and(|claim| claim.rivals(&wanted))
        });
        holder = waiting
            .min_by_key(|other| precedence(other))
            .and_then(HostClaim::of);
    }
    let mut own = claims.iter().filter(|claim| claim.owner == wanted.owner);
    // A provider that the spec names no longer may have left routes behind that are not deleted yet.
    let has_entries = |claim: &&HostClaim| claim.exposure.entries == wanted.exposure.entries;
    let kept = own.clone().find(has_entries).or_else(|| own.next());
    holder.map(|holder| HostConflict {
        hosts: wanted.exposure.shared(&holder.exposure),
        place: wanted.exposure.place(&holder.exposure),
        holder: holder.stack,
        kept: kept.map(|claim| claim.exposure.clone()),
    })
}

/// Returns true when a stack waits, by its status, for a host that another one holds.
pub fn waits_for_host(stack: &ShortenerStack) -> bool {
    let status = stack.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.reason == HOST_CONFLICT)
}

/// Returns the key that orders stacks on a host that none of them serves.
fn precedence(stack: &ShortenerStack) -> (bool, Option<Time>, Option<String>, String) {
    (
        waits_for_host(stack),
        stack.creation_timestamp(),
        stack.namespace(),
        stack.name_any(),
    )
}

fn title(namespace: Option<String>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

impl Exposure {
    /// Returns the exposure of a stack; `None` if it has an entry of its own.
    fn of(stack: &ShortenerStack) -> Option<Self> {
        let gateway = &stack.spec.gateway;
        let entries = match gateway.provider {
            GatewayProvider::IngressNginx => vec![Entry::Class(gateway.ingress_class_name.clone())],
            GatewayProvider::GatewayApi => parents(stack)
                .zip(&gateway.parent_refs)
                .map(|((namespace, name), parent)| Entry::Gateway {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    section: parent.section_name.clone(),
                    port: parent.port,
                })
                .collect(),
            GatewayProvider::Standalone => return None,
        };
        Some(Self {
            entries,
            hosts: Hosts {
                links: gateway.hosts.clone(),
                console: stack.spec.console_host().map(str::to_owned),
            },
        })
    }

    /// Returns true when a request can be for either of two exposures.
    fn meets(&self, other: &Self) -> bool {
        let share_every_host = self.hosts.links.is_empty() && other.hosts.links.is_empty();
        (share_every_host || !self.shared(other).is_empty()) && self.common(other).is_some()
    }

    /// Returns the first entry of both exposures.
    fn common(&self, other: &Self) -> Option<&Entry> {
        let meets = |entry: &&Entry| other.entries.iter().any(|one| entry.meets(one));
        self.entries.iter().find(meets)
    }

    /// Returns the first entry of both exposures in a message.
    fn place(&self, other: &Self) -> String {
        self.common(other).map(Entry::title).unwrap_or_default()
    }

    /// Returns the hosts of both exposures.
    fn shared(&self, other: &Self) -> Vec<String> {
        let is_shared = |host: &&String| other.hosts.named().any(|other| other == *host);
        self.hosts.named().filter(is_shared).cloned().collect()
    }
}

impl Entry {
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            // A route without a listener is attached to all of them.
            (
                Self::Gateway {
                    namespace,
                    name,
                    section,
                    port,
                },
                Self::Gateway {
                    namespace: other_namespace,
                    name: other_name,
                    section: other_section,
                    port: other_port,
                },
            ) => {
                namespace == other_namespace
                    && name == other_name
                    && (section.is_none() || other_section.is_none() || section == other_section)
                    && (port.is_none() || other_port.is_none() || port == other_port)
            }
            (one, two) => one == two,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::metadata::PLAN_ONLY;

    fn with(name: &str, created: &str, gateway: Value) -> ShortenerStack {
        serde_json::from_value(json!({
            "apiVersion": "shortener.dev/v1alpha1",
            "kind": "ShortenerStack",
            "metadata": {"name": name, "namespace": "links", "uid": name, "creationTimestamp": created},
            "spec": {"gateway": gateway},
        }))
        .unwrap()
    }

    fn stack(name: &str, created: &str, host: &str) -> ShortenerStack {
        with(name, created, json!({"hosts": [host]}))
    }

    /// Marks a stack as one that waits for its host.
    fn waiting(mut stack: ShortenerStack) -> ShortenerStack {
        let condition = json!({
            "type": "GatewayReady", "status": "False", "reason": HOST_CONFLICT, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        stack.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
        stack
    }

    fn owned_by(stack: &str) -> Value {
        json!({"name": "x", "namespace": "links", "ownerReferences": [{
            "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerStack",
            "name": stack, "uid": stack, "controller": true,
        }]})
    }

    /// Returns the claim of a stack's Ingress on the class `nginx`.
    fn ingress(owner: &str, host: &str) -> HostClaim {
        with_rule(owner, &json!({"host": host}))
    }

    fn with_rule(owner: &str, rule: &Value) -> HostClaim {
        let spec = json!({"ingressClassName": "nginx", "rules": [rule]});
        let ingress = json!({"metadata": owned_by(owner), "spec": spec});
        HostClaim::of_ingress(&serde_json::from_value(ingress).unwrap()).unwrap()
    }

    /// Returns the claim of a stack's HTTPRoute with these parents.
    fn route(owner: &str, parents: &Value, hosts: &Value) -> HostClaim {
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": owned_by(owner),
            "spec": {"parentRefs": parents, "hostnames": hosts},
        });
        HostClaim::of_route(&serde_json::from_value(route).unwrap()).unwrap()
    }

    /// Returns the holder of the host that a stack wants, and the host that the stack keeps.
    fn found(
        stack: &ShortenerStack,
        others: &[ShortenerStack],
        claims: &[HostClaim],
    ) -> Option<(String, Option<String>)> {
        let conflict = host_conflict(stack, others, claims)?;
        assert_eq!(conflict.hosts, stack.spec.gateway.hosts);
        Some((
            conflict.holder,
            conflict.kept.map(|kept| kept.hosts.links.join(",")),
        ))
    }

    fn held_by(holder: &str, kept: Option<&str>) -> Option<(String, Option<String>)> {
        Some((holder.to_owned(), kept.map(str::to_owned)))
    }

    #[test]
    fn the_older_of_two_stacks_gets_a_host_that_none_serves() {
        let (older, younger) = (
            stack("b", "2026-01-01T00:00:00Z", "x"),
            stack("a", "2026-01-02T00:00:00Z", "x"),
        );
        let all = [
            older.clone(),
            younger.clone(),
            stack("c", "2025-01-01T00:00:00Z", "y"),
        ];
        assert_eq!(found(&younger, &all, &[]), held_by("links/b", None));
        assert_eq!(found(&older, &all, &[]), None);
        // The older one has waited before, so the younger one was served.
        let all = [waiting(older.clone()), younger.clone()];
        assert_eq!(found(&all[0], &all, &[]), held_by("links/a", None));
        assert_eq!(found(&younger, &all, &[]), None);
    }

    #[test]
    fn an_older_stack_never_gets_a_host_that_another_one_serves_and_keeps_its_own() {
        let (older, tenant) = (
            stack("old", "2026-01-01T00:00:00Z", "x"),
            stack("tenant", "2026-01-02T00:00:00Z", "x"),
        );
        let claims = [ingress("tenant", "x"), ingress("old", "before")];
        for all in [
            vec![older.clone(), tenant.clone()],
            // Its resource cannot be parsed, or the garbage collector is not done with its routes.
            vec![older.clone()],
            // It has moved on, and its routes have not followed yet.
            vec![older.clone(), stack("tenant", "2026-01-02T00:00:00Z", "y")],
        ] {
            let expected = held_by("links/tenant", Some("before"));
            assert_eq!(found(&older, &all, &claims), expected);
        }
        let all = [older.clone(), tenant.clone()];
        assert_eq!(found(&tenant, &all, &claims), None);
        let released = [ingress("tenant", "y"), ingress("old", "before")];
        let moved = [older.clone(), stack("tenant", "2026-01-02T00:00:00Z", "y")];
        assert_eq!(found(&older, &moved, &released), None);
    }

    #[test]
    fn a_stack_that_serves_every_host_has_a_claim_on_that_and_keeps_it_through_an_edit() {
        let on_gateway = json!({"provider": "GatewayAPI", "parentRefs": [{"name": "public"}]});
        let parents = json!([{"name": "public"}]);
        for (gateway, claim) in [
            (json!({}), with_rule("tenant", &json!({}))),
            (on_gateway, route("tenant", &parents, &json!([]))),
        ] {
            let all = [
                with("old", "2026-01-01T00:00:00Z", gateway.clone()),
                with("tenant", "2026-01-02T00:00:00Z", gateway.clone()),
            ];
            let claims = [claim];
            assert_eq!(found(&all[0], &all, &claims), held_by("links/tenant", None));
            assert_eq!(found(&all[1], &all, &claims), None);
            let mut wanted = gateway;
            wanted["hosts"] = json!(["x"]);
            let edited = with("tenant", "2026-01-02T00:00:00Z", wanted.clone());
            let other = with("other", "2026-01-03T00:00:00Z", wanted);
            let claims = [HostClaim::of(&other).unwrap(), claims[0].clone()];
            let every = held_by("links/other", Some(""));
            assert_eq!(found(&edited, &[other], &claims), every);
        }
    }

    #[test]
    fn a_stack_that_is_only_planned_keeps_no_host_from_others() {
        let mut planned = stack("planned", "2026-01-01T00:00:00Z", "x");
        let annotations = planned.metadata.annotations.get_or_insert_default();
        annotations.insert(PLAN_ONLY.to_owned(), "true".to_owned());
        let younger = stack("younger", "2026-01-02T00:00:00Z", "x");
        let all = [planned, younger.clone()];
        assert_eq!(found(&younger, &all, &[]), None);
        // It serves the host since before it was only planned.
        let claims = [ingress("planned", "x")];
        assert_eq!(
            found(&younger, &all, &claims),
            held_by("links/planned", None)
        );
    }

    #[test]
    fn a_host_that_two_stacks_serve_already_is_the_older_ones_and_neither_loses_its_routes() {
        let all = [
            stack("old", "2026-01-01T00:00:00Z", "x"),
            stack("new", "2026-01-02T00:00:00Z", "x"),
        ];
        let claims = [ingress("new", "x"), ingress("old", "x")];
        assert_eq!(found(&all[0], &all, &claims), None);
        assert_eq!(
            found(&all[1], &all, &claims),
            held_by("links/old", Some("x"))
        );
    }

    #[test]
    fn one_host_that_another_stack_serves_keeps_all_hosts_of_a_stack_as_they_are() {
        let tenant = stack("tenant", "2026-01-01T00:00:00Z", "x");
        let hosts = json!({"hosts": ["own", "new", "x"]});
        let edited = with("edited", "2026-01-02T00:00:00Z", hosts);
        let claims = [ingress("tenant", "x"), ingress("edited", "own")];
        let all = [tenant, edited.clone()];
        let conflict = host_conflict(&edited, &all, &claims).unwrap();
        assert_eq!(conflict.hosts, ["x"]);
        assert_eq!(conflict.kept.unwrap().hosts.links, ["own"]);
        assert_eq!(host_conflict(&all[0], &all, &claims), None);
        let free = with(
            "edited",
            "2026-01-02T00:00:00Z",
            json!({"hosts": ["new", "own"]}),
        );
        assert_eq!(host_conflict(&free, &all, &claims), None);
        let every = with("every", "2026-01-03T00:00:00Z", json!({}));
        assert_eq!(host_conflict(&every, &all, &claims), None);
    }

    #[test]
    fn the_host_of_a_console_belongs_to_its_stack_like_those_of_its_links() {
        let console = |name: &str, created: &str, links: &str, console: &str| {
            let mut stack = stack(name, created, links);
            let spec = json!({"enabled": true, "host": console});
            stack.spec.console = serde_json::from_value(spec).unwrap();
            stack
        };
        let older = console("old", "2026-01-01T00:00:00Z", "x", "console");
        let recorded = |stack: &ShortenerStack, hosts: &[&str]| {
            let rules: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
            let mut metadata = owned_by(&stack.name_any());
            metadata["annotations"] = json!({(CONSOLE_HOST): stack.spec.console_host()});
            let spec = json!({"ingressClassName": "nginx", "rules": rules});
            let ingress = json!({"metadata": metadata, "spec": spec});
            HostClaim::of_ingress(&serde_json::from_value(ingress).unwrap())
        };
        assert_eq!(recorded(&older, &["x"]), HostClaim::of(&older));
        assert_eq!(recorded(&older, &["console"]), None);
        let claims: Vec<HostClaim> = recorded(&older, &["x"]).into_iter().collect();
        for (younger, shared) in [
            (stack("new", "2026-01-02T00:00:00Z", "console"), "console"),
            (
                console("new", "2026-01-02T00:00:00Z", "y", "console"),
                "console",
            ),
            (console("new", "2026-01-02T00:00:00Z", "y", "x"), "x"),
        ] {
            let all = [older.clone(), younger.clone()];
            for claims in [&claims[..], &[]] {
                let conflict = host_conflict(&younger, &all, claims).unwrap();
                assert_eq!(conflict.hosts, [shared]);
                assert_eq!(host_conflict(&older, &all, claims), None);
            }
        }
        // What is kept is the console, too.
        let edited = console("old", "2026-01-01T00:00:00Z", "z", "console");
        let holder = [claims[0].clone(), ingress("tenant", "z")];
        let conflict = host_conflict(&edited, std::slice::from_ref(&edited), &holder).unwrap();
        let kept = conflict.kept.unwrap().hosts;
        assert_eq!(kept.links, ["x"]);
        assert_eq!(kept.console.as_deref(), Some("console"));
    }

    #[test]
    fn what_is_kept_is_on_its_own_entries_and_the_conflict_is_on_that_of_both() {
        let on = |parents: Value| json!({"provider": "GatewayAPI", "hosts": ["x"], "parentRefs": parents});
        let public = json!({"name": "public", "namespace": "infra"});
        let both = json!([public, {"name": "private"}]);
        let edited = with("edited", "2026-01-01T00:00:00Z", on(both));
        let before = route("edited", &json!([public]), &json!(["x"]));
        let tenant = route("tenant", &json!([{"name": "private"}]), &json!(["x"]));
        for kept in [before, ingress("edited", "x")] {
            let claims = [kept.clone(), tenant.clone()];
            let others: [ShortenerStack; 0] = [];
            let conflict = host_conflict(&edited, &others, &claims).unwrap();
            assert_eq!(conflict.place, "Gateway links/private");
            assert_eq!(conflict.kept, Some(kept.exposure));
        }
    }

    #[test]
    fn stacks_on_one_gateway_share_its_hosts_and_may_have_listeners_of_their_own() {
        let on = |name: &str, created: &str, parent: Value| {
            let gateway = json!({"provider": "GatewayAPI", "hosts": ["x"], "parentRefs": [parent]});
            with(name, created, gateway)
        };
        let ours = json!({"name": "public", "sectionName": "https"});
        let younger = on("a", "2026-01-02T00:00:00Z", ours.clone());
        for (theirs, conflicts) in [
            (ours, true),
            (json!({"name": "public"}), true),
            (json!({"name": "public", "namespace": "links"}), true),
            (json!({"name": "public", "sectionName": "http"}), false),
            (json!({"name": "public", "namespace": "infra"}), false),
            (json!({"name": "private"}), false),
        ] {
            let older = on("b", "2026-01-01T00:00:00Z", theirs.clone());
            let claim = route("b", &json!([theirs]), &json!(["x"]));
            assert_eq!(Some(&claim), HostClaim::of(&older).as_ref(), "{theirs}");
            for claims in [Vec::new(), vec![claim]] {
                let found = host_conflict(&younger, slice::from_ref(&older), &claims);
                assert_eq!(found.is_some(), conflicts, "{theirs} {claims:?}");
            }
        }
        let ingress = stack("b", "2026-01-01T00:00:00Z", "x");
        assert_eq!(host_conflict(&younger, &[ingress], &[]), None);
    }
}
