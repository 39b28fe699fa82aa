//! Tests of addresses, hosts and Gateways.

use std::slice;

use super::*;
use crate::model::{
    gateway_api::LiveGateway,
    stack::{Entry, Exposure, HostConflict, Hosts, Parent, Routing},
};

#[test]
fn short_links_begin_with_the_public_url_the_host_or_localhost() {
    let table = [
        (json!({}), "http://localhost:8080"),
        (json!({"gateway": {"hosts": ["go.test"]}}), "http://go.test"),
        (
            json!({"gateway": {"hosts": ["go.test"], "tls": {"secretName": "tls"}}}),
            "https://go.test",
        ),
        (
            json!({"publicUrl": "https://x.test/", "gateway": {"hosts": ["go.test"]}}),
            "https://x.test",
        ),
    ];
    for (spec, url) in table {
        assert_eq!(validated(spec.clone()).public_url, url, "{spec}");
    }
}

#[test]
fn visitors_are_not_sent_to_the_stack_itself() {
    for spec in [
        json!({"links": {"rootTarget": "http://localhost:8080/"}}),
        json!({"publicUrl": "https://x.test", "links": {"unknownTarget": "https://x.test/none"}}),
        json!({"gateway": {"hosts": ["go.test"]}, "links": {"expiredTarget": "https://go.test"}}),
    ] {
        let error = refused(spec.clone(), managed(credentials()));
        assert_eq!(error.reason, "TargetIsOwn", "{spec}");
        assert!(error.needs_an_edit);
    }
    let links = json!({"links": {"rootTarget": "https://www.test", "forwardQuery": true}});
    let app = validated(links).app;
    assert_eq!(app.links.root_target.as_deref(), Some("https://www.test"));
    assert!(app.links.forward_query && app.cors.is_empty());
}

#[test]
fn a_gateway_of_its_own_lets_everybody_in_unless_told_otherwise() {
    assert!(!validated(json!({})).gateway.allow_from.is_empty());
    assert!(
        validated(json!({"gateway": {"provider": "Standalone"}}))
            .gateway
            .allow_from
            .is_empty()
    );
    let given = json!({"gateway": {"provider": "Standalone", "allowFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}});
    assert_eq!(validated(given).gateway.allow_from.len(), 1);
}

#[test]
fn a_gateway_without_a_namespace_is_that_of_the_stack() {
    for (reference, namespace, section) in [
        (json!({"name": "public"}), "links", None),
        (
            json!({"name": "public", "namespace": "infra", "sectionName": "https"}),
            "infra",
            Some("https"),
        ),
    ] {
        let gateway = json!({"provider": "GatewayAPI", "parentRefs": [reference]});
        let stack = validated(json!({"gateway": gateway}));
        assert!(stack.gateway.allow_from.is_empty());
        let Routing::GatewayApi { parents, .. } = stack.gateway.routing else {
            panic!("no Gateway");
        };
        let expected = Parent {
            namespace: namespace.to_owned(),
            name: "public".to_owned(),
            section: section.map(str::to_owned),
            port: None,
            live: LiveGateway::Unknown,
        };
        assert_eq!(parents, [expected]);
    }
}

#[test]
fn a_gateway_keeps_its_routes_while_another_stack_holds_the_host_of_the_spec() {
    let ingress = json!({"hosts": ["new.test"]});
    let route = json!({"hosts": ["new.test"], "provider": "GatewayAPI", "parentRefs": [{"name": "public"}]});
    let class = Entry::Class("before".to_owned());
    let parent = Entry::Gateway {
        namespace: "infra".to_owned(),
        name: "before".to_owned(),
        section: Some("https".to_owned()),
        port: Some(443),
    };
    for (gateway, entry) in [
        (&ingress, &class),
        (&ingress, &parent),
        (&route, &class),
        (&route, &parent),
    ] {
        let stack = stored_stack(json!({"gateway": gateway}));
        let wanted = conflict(vec![entry.clone()]);
        let mut facts = with_database(&stack, managed(credentials()));
        facts.gateway.host_conflict = Some(wanted.clone());
        facts.gateway.parents = vec![LiveGateway::Missing];
        let validated = validate(&stack, facts, &defaults()).unwrap();
        // The other stack has other links.
        assert_eq!(validated.public_url, "http://before.test");
        let found = validated.gateway;
        assert_eq!(found.hosts, ["before.test"]);
        assert_eq!(found.conflict, Some(wanted));
        let (routed, admits_all) = match found.routing {
            Routing::IngressNginx { class, .. } => (vec![Entry::Class(class)], false),
            Routing::GatewayApi { parents, .. } => {
                assert_eq!(parents[0].live, LiveGateway::Unknown);
                let kept = parents.into_iter().map(|parent| Entry::Gateway {
                    namespace: parent.namespace,
                    name: parent.name,
                    section: parent.section,
                    port: parent.port,
                });
                (kept.collect(), true)
            }
            Routing::Standalone { .. } => panic!("{entry:?}"),
        };
        assert_eq!(routed, slice::from_ref(entry));
        assert_eq!(found.allow_from.is_empty(), admits_all, "{entry:?}");
    }
}

#[test]
fn the_console_stays_at_the_host_that_is_kept_and_never_comes_to_those_of_links() {
    let console = json!({"enabled": true, "host": "new-console.test"});
    let stack = stored_stack(json!({"gateway": {"hosts": ["new.test"]}, "console": console}));
    for (kept, of_app) in [
        (Some("console.test"), "console.test"),
        (None, "new-console.test"),
    ] {
        let mut wanted = conflict(vec![Entry::Class("nginx".to_owned())]);
        let hosts = wanted.kept.as_mut().map(|kept| &mut kept.hosts);
        hosts.unwrap().console = kept.map(str::to_owned);
        let mut facts = with_database(&stack, managed(credentials()));
        facts.gateway.host_conflict = Some(wanted);
        let validated = validate(&stack, facts, &defaults()).unwrap();
        let route = validated.gateway.console;
        assert_eq!(route.map(|route| route.host).as_deref(), kept);
        assert_eq!(validated.app.console.host.as_deref(), Some(of_app));
    }
}

#[test]
fn visitors_are_not_sent_to_a_host_that_is_kept() {
    let links = json!({"rootTarget": "https://before.test"});
    let stack = stored_stack(json!({"gateway": {"hosts": ["new.test"]}, "links": links}));
    let mut facts = with_database(&stack, managed(credentials()));
    facts.gateway.host_conflict = Some(conflict(vec![Entry::Class("nginx".to_owned())]));
    let held = validate(&stack, facts, &defaults()).unwrap().held;
    assert_eq!(held[&Component::App].reason, "TargetIsOwn");
}

/// Returns a conflict about `new.test`, in which a stack keeps `before.test` on these entries.
fn conflict(entries: Vec<Entry>) -> HostConflict {
    HostConflict {
        holder: "links/other".to_owned(),
        hosts: vec!["new.test".to_owned()],
        place: String::new(),
        kept: Some(Exposure {
            entries,
            hosts: Hosts {
                links: vec!["before.test".to_owned()],
                console: None,
            },
        }),
    }
}

#[test]
fn a_gateway_that_is_not_named_is_missed_even_if_an_edit_bypassed_the_schema() {
    let error = refused(
        json!({"gateway": {"provider": "GatewayAPI"}}),
        managed(credentials()),
    );
    assert_eq!(error.reason, "NoGateway");
    assert!(error.needs_an_edit);
    assert!(
        error.message.starts_with("gateway.parentRefs: "),
        "{error:?}"
    );
}
