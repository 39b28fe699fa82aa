//! NetworkPolicies for the stack's pods: one denies all connections, and one per component allows the exceptions.
//! Policies match the ports of pods, not of Services. The kubelet's probes are always allowed.

mod cluster;
mod public;

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
        NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use std::collections::BTreeSet;

use super::{app, gateway, otel};
use crate::{
    model::{
        metadata::{Component, component_name, selector, stack_labels},
        stack::{Bucket, Collector, RestorePlace, Routing, ValidatedStack, Webhook},
    },
    plan::{
        monitoring,
        stores::{Definition, Port, TRACED, postgres},
    },
};

pub(super) use cluster::{broker_cluster, cluster, database_move, members_of};

/// Ports of DNS servers: of most clusters, and of OpenShift.
const DNS_PORTS: [i32; 2] = [53, 5353];

/// Returns the NetworkPolicy `<stack>-default-deny`: no connection to any pod of the stack.
pub fn default_deny(stack: &ValidatedStack) -> NetworkPolicy {
    let identity = &stack.identity;
    NetworkPolicy {
        metadata: identity.child(format!("{}-default-deny", identity.name), Component::Stack),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(stack_labels(&identity.name)),
                ..LabelSelector::default()
            }),
            policy_types: Some(vec!["Ingress".to_owned()]),
            // Rendered, so that a rule that somebody adds is drift.
            ingress: Some(Vec::new()),
            ..NetworkPolicySpec::default()
        }),
    }
}

/// Returns the NetworkPolicy `<stack>-app`: requests from the gateway, scrapes of the internal port, and the operator's
/// requests about links.
pub fn app(stack: &ValidatedStack) -> NetworkPolicy {
    let (gateway, own) = (&stack.gateway, pods(stack, Component::Gateway));
    let requests = match (&gateway.routing, &gateway.kept_ingresses) {
        (Routing::IngressNginx { .. }, _) => and(&gateway.allow_from, own),
        (_, Some(peers)) => and(peers, own),
        (Routing::Standalone { .. } | Routing::GatewayApi { .. }, None) => vec![own],
    };
    policy(
        stack,
        Component::App,
        vec![
            allow(requests, app::PORT),
            allow(scrapers(stack), monitoring::INTERNAL_PORT),
            allow(vec![stack.operator.clone()], app::MANAGEMENT_PORT),
        ],
    )
}

/// Returns the NetworkPolicy `<stack>-gateway`: requests from the allowed peers and from the operator.
pub fn gateway(stack: &ValidatedStack) -> NetworkPolicy {
    let requests = and(&stack.gateway.allow_from, stack.operator.clone());
    let tls = stack.gateway.own_tls();
    let tls = tls.map(|_| allow(requests.clone(), gateway::TLS_PORT));
    let mut rules = vec![allow(requests, gateway::PORT)];
    rules.extend(tls);
    policy(stack, Component::Gateway, rules)
}

/// Returns the NetworkPolicy `<stack>-worker`: scrapes of the internal port, and no other connections.
pub fn worker(stack: &ValidatedStack) -> NetworkPolicy {
    let rules = vec![allow(scrapers(stack), monitoring::INTERNAL_PORT)];
    policy(stack, Component::Worker, rules)
}

/// Returns the NetworkPolicy `<stack>-purge`: no connections to it, and its own to names, the database and the collector
/// only. The address of an external one stands in a Secret or has a name, so it may then connect to everything. While the
/// database is held, nobody knows which it is, so a policy that exists stays.
pub fn purge(stack: &ValidatedStack) -> Option<NetworkPolicy> {
    stack.purge.schedule.as_ref()?;
    stack.database.as_ref()?;
    let policy = policy(stack, Component::Purge, Vec::new());
    Some(match own_stores(stack) {
        Some(rules) => with_egress(policy, rules),
        None => policy,
    })
}

/// Returns the NetworkPolicy `<stack>-webhooks`: scrapes of the internal port, and its own connections to names, the
/// database, the collector and the ports of the receivers at public addresses only. The address of an external database or
/// collector stands in a Secret or has a name, so it may then connect to everything, and the program alone refuses private
/// addresses. While the database is held, a policy that exists stays.
pub fn webhooks(stack: &ValidatedStack) -> Option<NetworkPolicy> {
    stack.webhooks.first()?;
    stack.database.as_ref()?;
    let rules = vec![allow(scrapers(stack), monitoring::INTERNAL_PORT)];
    let policy = policy(stack, Component::Webhooks, rules);
    Some(match own_stores(stack) {
        Some(rules) => with_egress(policy, [rules, vec![receivers(stack)]].concat()),
        None => policy,
    })
}

/// Returns the rule for connections to the receivers of webhooks.
fn receivers(stack: &ValidatedStack) -> NetworkPolicyEgressRule {
    let ports: BTreeSet<i32> = stack.webhooks.iter().map(Webhook::port).collect();
    NetworkPolicyEgressRule {
        to: Some(public::peers()),
        ports: Some(ports.into_iter().map(|port| ip_port("TCP", port)).collect()),
    }
}

/// Returns the rules for connections to names, the database and the collector; `None` if one of them is external.
fn own_stores(stack: &ValidatedStack) -> Option<Vec<NetworkPolicyEgressRule>> {
    let collector = stack.collector.as_ref();
    let external = matches!(collector, Some(Collector::External { .. }));
    let database = database(stack).filter(|_| !external)?;
    let collector = collector.map(|_| to_pods(stack, Component::Otel, otel::GRPC_PORT));
    let rules = [names(), database].into_iter().chain(collector);
    Some(rules.collect())
}

/// Returns the NetworkPolicy `<stack>-backup`: no connections to it, and its own to names, the database and the object store
/// only, unless the database is an external one.
pub fn backup(stack: &ValidatedStack) -> Option<NetworkPolicy> {
    let backup = stack.backup.as_ref()?;
    let policy = policy(stack, Component::Backup, Vec::new());
    let Some(database) = database(stack) else {
        return Some(policy);
    };
    let store = backup.place.bucket().into_iter().flat_map(object_store);
    let rules = [names(), database].into_iter().chain(store);
    Some(with_egress(policy, rules.collect()))
}

/// Returns the NetworkPolicy `<stack>-verify`: no connections at all, or only to names and the object store.
pub fn verify(stack: &ValidatedStack) -> Option<NetworkPolicy> {
    let backup = stack.backup.as_ref()?;
    backup.verification.as_ref()?;
    let policy = policy(stack, Component::Verify, Vec::new());
    Some(with_egress(policy, to_bucket(backup.place.bucket())))
}

/// Returns the rules for a pod that opens connections to a bucket only, if there is one.
fn to_bucket(bucket: Option<&Bucket>) -> Vec<NetworkPolicyEgressRule> {
    let rules = bucket.into_iter();
    rules
        .flat_map(|bucket| [vec![names()], object_store(bucket)].concat())
        .collect()
}

/// Returns the rules for connections to an object store. Its address has a name, so its port is open everywhere. The pods of
/// a Service may have another port, so every port of pods is open then.
fn object_store(bucket: &Bucket) -> Vec<NetworkPolicyEgressRule> {
    let anywhere = NetworkPolicyEgressRule {
        to: None,
        ports: Some(vec![ip_port("TCP", bucket.port())]),
    };
    let of_pods = bucket.is_service().then(|| NetworkPolicyEgressRule {
        to: Some(vec![NetworkPolicyPeer {
            namespace_selector: Some(LabelSelector::default()),
            ..NetworkPolicyPeer::default()
        }]),
        ports: Some(vec![NetworkPolicyPort {
            protocol: Some("TCP".to_owned()),
            ..NetworkPolicyPort::default()
        }]),
    });
    [anywhere].into_iter().chain(of_pods).collect()
}

/// Returns the rule for connections to a database that the operator or CloudNativePG runs.
fn database(stack: &ValidatedStack) -> Option<NetworkPolicyEgressRule> {
    let database = stack.database.as_ref()?;
    if stack.cluster.is_some() {
        return Some(cluster::to_servers(stack));
    }
    database.managed()?;
    Some(to_pods(stack, Component::Postgres, postgres::PORT))
}

/// Returns the rule for the lookup of names.
fn names() -> NetworkPolicyEgressRule {
    let ports = DNS_PORTS.into_iter();
    let ports = ports.flat_map(|port| [ip_port("UDP", port), ip_port("TCP", port)]);
    NetworkPolicyEgressRule {
        to: None,
        ports: Some(ports.collect()),
    }
}

fn to_pods(stack: &ValidatedStack, component: Component, port: i32) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(vec![pods(stack, component)]),
        ports: Some(vec![ip_port("TCP", port)]),
    }
}

/// Limits the connections that the pods of a policy open.
fn with_egress(mut policy: NetworkPolicy, rules: Vec<NetworkPolicyEgressRule>) -> NetworkPolicy {
    if let Some(spec) = &mut policy.spec {
        let types = ["Ingress", "Egress"].map(str::to_owned);
        spec.policy_types = Some(types.into());
        spec.egress = Some(rules);
    }
    policy
}

/// Returns the NetworkPolicy `<stack>-otel`: traces and logs from the stack's own programs, scrapes of its own
/// metrics.
pub fn otel(stack: &ValidatedStack) -> NetworkPolicy {
    let rules = vec![
        allow(clients(stack, &TRACED), otel::GRPC_PORT),
        allow(clients(stack, &TRACED), otel::HTTP_PORT),
        allow(scrapers(stack), monitoring::COLLECTOR_PORT),
    ];
    policy(stack, Component::Otel, rules)
}

/// Returns the NetworkPolicy `<stack>-<component>` of a store: each port for its clients, and no outgoing connections
/// unless the store needs them.
pub(in crate::plan) fn store(stack: &ValidatedStack, store: &Definition) -> NetworkPolicy {
    let callers = |port: &Port| -> Vec<NetworkPolicyPeer> {
        let clients = if port.clients {
            clients(stack, store.clients)
        } else {
            Vec::new()
        };
        let operator = port.operator.then(|| stack.operator.clone());
        clients.into_iter().chain(operator).collect()
    };
    let rules = store
        .ports
        .iter()
        .map(|port| (callers(port), port.number))
        // A rule without peers would allow every peer.
        .filter(|(callers, _)| !callers.is_empty())
        .map(|(callers, port)| allow(callers, port));
    let policy = policy(stack, store.component, rules.collect());
    if store.egress {
        return policy;
    }
    // A new database begins with what its pod downloads.
    let restore = stack.restore_from.as_ref();
    let bucket = restore.and_then(|restore| match &restore.place {
        RestorePlace::Bucket(bucket) => Some(&**bucket),
        RestorePlace::Claim(_) => None,
    });
    let bucket = bucket.filter(|_| store.component == Component::Postgres);
    with_egress(policy, to_bucket(bucket))
}

/// Returns the peers that may read the metrics of the stack's own programs.
fn scrapers(stack: &ValidatedStack) -> Vec<NetworkPolicyPeer> {
    let mut peers = stack.scrape_from.clone();
    peers.push(stack.operator.clone());
    peers.extend(
        stack
            .has_own_backend()
            .then(|| pods(stack, Component::Telemetry)),
    );
    peers
}

/// Returns the peers of components that the stack has: without a queue, for example, there are no workers.
fn clients(stack: &ValidatedStack, components: &[Component]) -> Vec<NetworkPolicyPeer> {
    let exists = |component: &&Component| match component {
        Component::Worker => stack.queue.is_some() || stack.is_held(Component::Worker),
        Component::Purge => stack.purge.schedule.is_some(),
        Component::Webhooks => !stack.webhooks.is_empty(),
        // Those of a database that is held stay.
        Component::Backup => stack.backup.is_some() || stack.database.is_none(),
        Component::Move => stack.database_move.is_some(),
        _ => true,
    };
    let existing = components.iter().filter(exists);
    existing.map(|component| pods(stack, *component)).collect()
}

/// Returns the peers that may send requests, and `also`. If the user names no peer, the list is empty: the rule then
/// omits `from`, which allows every peer.
fn and(allowed: &[NetworkPolicyPeer], also: NetworkPolicyPeer) -> Vec<NetworkPolicyPeer> {
    let mut peers = allowed.to_vec();
    if !peers.is_empty() {
        peers.push(also);
    }
    peers
}

fn pods(stack: &ValidatedStack, component: Component) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(selector(&stack.identity.name, component)),
        ..NetworkPolicyPeer::default()
    }
}

fn allow(from: Vec<NetworkPolicyPeer>, port: i32) -> NetworkPolicyIngressRule {
    NetworkPolicyIngressRule {
        from: (!from.is_empty()).then_some(from),
        ports: Some(vec![ip_port("TCP", port)]),
    }
}

fn ip_port(protocol: &str, port: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(port)),
        protocol: Some(protocol.to_owned()),
        ..NetworkPolicyPort::default()
    }
}

fn policy(
    stack: &ValidatedStack,
    component: Component,
    ingress: Vec<NetworkPolicyIngressRule>,
) -> NetworkPolicy {
    let identity = &stack.identity;
    NetworkPolicy {
        metadata: identity.child(component_name(&identity.name, component), component),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(&identity.name, component)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress),
            ..NetworkPolicySpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::stack::BackupPlace,
        plan::stores::{self, telemetry},
        testing::{
            golden,
            stack::{every_profile, minimal_stack},
        },
    };

    #[test]
    fn the_policies_of_a_minimal_stack() {
        let stack = minimal_stack();
        golden("network-policy-default-deny", &default_deny(&stack));
        golden("network-policy-app", &app(&stack));
        golden("network-policy-gateway", &gateway(&stack));
    }

    #[test]
    fn a_worker_is_reached_by_scrapers_only() {
        golden("network-policy-worker", &worker(&minimal_stack().queue()));
    }

    #[test]
    fn a_collector_is_reached_by_app_workers_and_scrapers_only() {
        golden("network-policy-otel", &otel(&every_profile()));
    }

    #[test]
    fn a_purge_is_reached_by_nobody_and_reaches_its_own_stores_only() {
        golden("network-policy-purge", &purge(&every_profile()).unwrap());
        for open in [
            every_profile().external_database(),
            minimal_stack().external_collector(),
        ] {
            let spec = purge(&open).unwrap().spec.unwrap();
            assert_eq!(spec.policy_types.unwrap(), ["Ingress"]);
            assert_eq!(spec.egress, None);
        }
    }

    #[test]
    fn webhooks_reach_their_own_stores_and_public_addresses_and_only_scrapers_reach_them() {
        let stack = every_profile().webhooks();
        golden("network-policy-webhooks", &webhooks(&stack).unwrap());
        assert_eq!(webhooks(&every_profile()), None);
        let admits = |policy: NetworkPolicy| {
            let rules = policy.spec.unwrap().ingress.unwrap();
            let peers = rules.into_iter().flat_map(|rule| rule.from.unwrap());
            peers
                .collect::<Vec<_>>()
                .contains(&pods(&stack, Component::Webhooks))
        };
        assert!(admits(store(&stack, &postgres::STORE)) && admits(otel(&stack)));
        assert!(!admits(store(&stack, &stores::cache::STORE)));
        assert!(!admits(store(&stack, &stores::rabbitmq::STORE)));
        for open in [
            every_profile().external_database().webhooks(),
            minimal_stack().external_collector().webhooks(),
        ] {
            let spec = webhooks(&open).unwrap().spec.unwrap();
            assert_eq!((spec.policy_types.unwrap().len(), spec.egress), (1, None));
        }
    }

    #[test]
    fn a_backup_is_reached_by_nobody_and_reaches_its_own_database_only() {
        let stack = minimal_stack().backed_up();
        golden("network-policy-backup", &backup(&stack).unwrap());
        let rules = store(&stack, &postgres::STORE)
            .spec
            .unwrap()
            .ingress
            .unwrap();
        let peers = rules[0].from.as_ref().unwrap();
        assert!(peers.contains(&pods(&stack, Component::Backup)));
        golden("network-policy-verify", &verify(&stack).unwrap());
        let bucket = minimal_stack().backed_up_to_a_bucket();
        golden("network-policy-backup-bucket", &backup(&bucket).unwrap());
        golden("network-policy-verify-bucket", &verify(&bucket).unwrap());
        let stack = stack.external_database();
        let spec = backup(&stack).unwrap().spec.unwrap();
        assert_eq!((spec.policy_types.unwrap().len(), spec.egress), (1, None));
    }

    #[test]
    fn a_database_that_begins_with_a_backup_reaches_its_bucket_only() {
        let s3 = serde_json::json!({"endpoint": "http://s3.test:9000", "bucket": "backups", "secretRef": {"name": "links-s3"}});
        let spec =
            serde_json::json!({"profiles": ["caching"], "database": {"restoreFrom": {"s3": s3}}});
        let stack = crate::testing::stack::resolved(spec);
        let rules = |definition| store(&stack, definition).spec.unwrap().egress.unwrap();
        let rule = rules(&postgres::STORE).pop().unwrap();
        assert_eq!(rule.ports.unwrap()[0].port, Some(IntOrString::Int(9000)));
        assert_eq!(rules(&stores::cache::STORE), []);
    }

    #[test]
    fn the_pods_of_an_object_store_in_the_cluster_are_reached_on_every_port() {
        let rules = |endpoint: &str| {
            let mut stack = minimal_stack().backed_up_to_a_bucket();
            let backup = stack.backup.as_mut().unwrap();
            let BackupPlace::Bucket(bucket) = &mut backup.place else {
                panic!("the place is a bucket");
            };
            endpoint.clone_into(&mut bucket.endpoint);
            verify(&stack).unwrap().spec.unwrap().egress.unwrap()
        };
        let opened = rules("http://minio.storage.svc").pop().unwrap();
        let peers = opened.to.unwrap();
        assert_eq!(peers[0].namespace_selector, Some(LabelSelector::default()));
        assert_eq!(opened.ports.unwrap()[0].port, None);
        for (endpoint, count) in [
            ("http://minio.storage.svc", 3),
            ("https://minio.storage.svc.cluster.local:9000/", 3),
            ("http://minio:80", 3),
            ("https://s3.svc.example.com", 2),
            ("https://s3.eu-central-1.amazonaws.com", 2),
            ("https://192.0.2.7:9000", 2),
            ("https://[2001:db8::7]:9000", 2),
        ] {
            assert_eq!(rules(endpoint).len(), count, "{endpoint}");
        }
    }

    #[test]
    fn grafana_is_reached_by_a_port_forward_only() {
        let policy = store(&every_profile(), &telemetry::STORE);
        let rules = policy.spec.unwrap().ingress.unwrap();
        let ports: Vec<_> = rules
            .into_iter()
            .flat_map(|rule| rule.ports.unwrap())
            .collect();
        assert_eq!(ports.len(), 1);
        assert_eq!(ports[0].port, Some(IntOrString::Int(4317)));
    }

    #[test]
    fn a_store_is_reached_by_its_clients_only_and_reaches_nobody() {
        let stack = every_profile();
        for (definition, _) in stores::managed(&stack) {
            let name = format!("network-policy-{}", definition.component.as_str());
            golden(&name, &store(&stack, definition));
        }
    }

    #[test]
    fn with_a_gateway_of_its_own_only_that_reaches_the_app() {
        let stack = minimal_stack().standalone();
        golden("network-policy-app-standalone", &app(&stack));
        let spec = gateway(&stack).spec.unwrap();
        assert_eq!(spec.ingress.unwrap()[0].from, None, "every peer may");
    }

    #[test]
    fn behind_a_gateway_only_the_stacks_own_nginx_reaches_the_app() {
        let stack = minimal_stack().gateway_api();
        assert_eq!(app(&stack), app(&minimal_stack().standalone()));
        let spec = gateway(&stack).spec.unwrap();
        let ports = spec.ingress.unwrap();
        assert_eq!((ports.len(), &ports[0].from), (1, &None), "every peer may");
    }

    #[test]
    fn the_clients_of_a_gateway_with_a_certificate_reach_both_ports() {
        let peer = pods(&minimal_stack(), Component::Stack);
        let mut stack = minimal_stack()
            .standalone()
            .host("go.example.com")
            .tls("go-tls");
        stack.gateway.allow_from = vec![peer.clone()];
        let rules = gateway(&stack).spec.unwrap().ingress.unwrap();
        let ports = rules
            .iter()
            .map(|rule| rule.ports.as_ref().unwrap()[0].port.clone());
        let expected = [8080, 8443].map(|port| Some(IntOrString::Int(port)));
        assert_eq!(ports.collect::<Vec<_>>(), expected);
        for rule in rules {
            assert!(rule.from.unwrap().contains(&peer));
        }
    }

    #[test]
    fn a_scraper_reaches_the_internal_port_only() {
        let scraper = pods(&minimal_stack(), Component::Stack);
        let stack = minimal_stack().scraped_from(scraper.clone());
        let rules = app(&stack).spec.unwrap().ingress.unwrap();
        assert!(!rules[0].from.as_ref().unwrap().contains(&scraper));
        assert!(rules[1].from.as_ref().unwrap().contains(&scraper));
        let operator = vec![stack.operator];
        assert_eq!(rules[2].from, Some(operator), "links are the operator's");
    }
}
