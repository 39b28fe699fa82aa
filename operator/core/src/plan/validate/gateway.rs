//! Validation of the gateway: its provider, its Gateway, its certificate and the annotations of the user.

use std::collections::BTreeMap;

use super::{end_to_end::end_to_end, monitoring::is_qualified_name};
use crate::{
    api::{GatewayProvider, GatewaySpec, ParentRef, ShortenerStackSpec},
    model::{
        defaults::Defaults,
        facts::GatewayFacts,
        stack::{ConsoleRoute, Entry, Exposure, Gateway, Parent, Routing},
    },
    plan::{build, error::ValidateError, pod_settings::pod},
};

/// Checks the gateway.
///
/// # Errors
/// An annotation has a key that Kubernetes does not accept, or the spec names no Gateway although its provider needs one.
pub(super) fn check(spec: &ShortenerStackSpec) -> Result<(), ValidateError> {
    let gateway = &spec.gateway;
    if gateway.provider == GatewayProvider::GatewayApi && gateway.parent_refs.is_empty() {
        return Err(ValidateError::NoGateway);
    }
    check_annotations(spec)
}

/// Resolves the gateway of a stack in a namespace.
pub(super) fn gateway(
    spec: &ShortenerStackSpec,
    defaults: &Defaults,
    namespace: &str,
    mut facts: GatewayFacts,
) -> Gateway {
    let conflict = facts.host_conflict.take();
    let kept = conflict
        .as_ref()
        .and_then(|conflict| conflict.kept.as_ref());
    let before = kept.map(|kept| as_before(&spec.gateway, kept));
    let gateway = before.as_ref().unwrap_or(&spec.gateway);
    let console = match kept {
        Some(kept) => kept.hosts.console.clone(),
        None => spec.console_host().map(str::to_owned),
    };
    if kept.is_some() {
        // These are the Gateways of the spec.
        facts.parents.clear();
    }
    let service = gateway.service.clone().unwrap_or_default();
    let by_ingress = gateway.provider == GatewayProvider::IngressNginx;
    let of_ingresses = || match gateway.allow_from.as_slice() {
        [] => defaults.gateway_allow_from.clone(),
        peers => peers.to_vec(),
    };
    let keeps_ingresses = facts.has_ingress && !by_ingress && check(spec).is_err();
    let annotations = spec.console.iter().flat_map(|console| &console.annotations);
    let annotations = annotations.map(|(key, value)| (key.clone(), value.clone()));
    Gateway {
        replicas: if spec.stopped { 0 } else { gateway.replicas },
        pod: pod(
            &gateway.pod,
            &defaults.images.gateway,
            build::gateway::default_resources(),
        ),
        allow_from: if by_ingress {
            of_ingresses()
        } else {
            gateway.allow_from.clone()
        },
        kept_ingresses: keeps_ingresses.then(of_ingresses),
        service_annotations: service.annotations,
        console: console.map(|host| ConsoleRoute {
            host,
            annotations: annotations.collect(),
        }),
        hosts: gateway.hosts.clone(),
        tls: gateway.tls.clone(),
        conflict,
        missing_certificate: facts.missing_certificate.take(),
        missing_class: facts.missing_class,
        end_to_end: end_to_end(gateway, defaults, facts.probe_key.take()),
        routing: routing(gateway, namespace, facts),
    }
}

/// Returns the settings of a gateway whose routes stay as they are.
fn as_before(gateway: &GatewaySpec, kept: &Exposure) -> GatewaySpec {
    let mut before = GatewaySpec {
        hosts: kept.hosts.links.clone(),
        parent_refs: Vec::new(),
        ..gateway.clone()
    };
    for entry in &kept.entries {
        match entry.clone() {
            Entry::Class(class) => {
                before.provider = GatewayProvider::IngressNginx;
                before.ingress_class_name = class;
            }
            Entry::Gateway {
                namespace,
                name,
                section,
                port,
            } => {
                before.provider = GatewayProvider::GatewayApi;
                before.parent_refs.push(ParentRef {
                    name,
                    namespace: Some(namespace),
                    section_name: section,
                    port,
                });
            }
        }
    }
    before
}

/// Resolves the implementation of the routing.
fn routing(gateway: &GatewaySpec, namespace: &str, facts: GatewayFacts) -> Routing {
    let GatewayFacts {
        upstream, parents, ..
    } = facts;
    match gateway.provider {
        GatewayProvider::IngressNginx => Routing::IngressNginx {
            class: gateway.ingress_class_name.clone(),
            annotations: gateway.annotations.clone(),
        },
        GatewayProvider::Standalone => Routing::Standalone {
            service_type: gateway.service_type,
            upstream,
        },
        GatewayProvider::GatewayApi => {
            let mut live = parents.into_iter();
            let named = gateway.parent_refs.iter().map(|named| Parent {
                namespace: named.namespace.as_deref().unwrap_or(namespace).to_owned(),
                name: named.name.clone(),
                section: named.section_name.clone(),
                port: named.port,
                live: live.next().unwrap_or_default(),
            });
            Routing::GatewayApi {
                parents: named.collect(),
                annotations: gateway.annotations.clone(),
                upstream,
            }
        }
    }
}

/// Checks the keys of the annotations, which a structural schema cannot.
fn check_annotations(spec: &ShortenerStackSpec) -> Result<(), ValidateError> {
    let gateway = &spec.gateway;
    let of_console = spec.console.as_ref().map(|console| &console.annotations);
    let of_service = gateway.service.as_ref().map(|service| &service.annotations);
    for (field, annotations) in [
        ("gateway.annotations", Some(&gateway.annotations)),
        ("gateway.service.annotations", of_service),
        ("console.annotations", of_console),
    ] {
        let mut keys = annotations.into_iter().flat_map(BTreeMap::keys);
        if let Some(key) = keys.find(|key| !is_qualified_name(key)) {
            return Err(ValidateError::NotAnAnnotation {
                field,
                key: key.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(spec: Value) -> Result<(), ValidateError> {
        check_annotations(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn keys_of_annotations_are_those_that_kubernetes_takes() {
        let valid = json!({"cert-manager.io/cluster-issuer": "letsencrypt", "note": "x"});
        let gateway = json!({"annotations": valid, "service": {"annotations": valid}});
        let all = json!({"gateway": gateway, "console": {"annotations": valid}});
        assert_eq!(checked(all), Ok(()));
        for (field, spec) in [
            (
                "gateway.annotations",
                json!({"gateway": {"annotations": {"a b": "x"}}}),
            ),
            (
                "gateway.service.annotations",
                json!({"gateway": {"service": {"annotations": {"/x": "x"}}}}),
            ),
            (
                "console.annotations",
                json!({"console": {"annotations": {"x/": "x"}}}),
            ),
        ] {
            let error = checked(spec).unwrap_err();
            assert_eq!(error.reason(), "NotAnAnnotation");
            let text = error.to_string();
            assert!(text.starts_with(&format!("{field}: ")), "{text}");
        }
    }
}
