//! Objects that let connections from outside the cluster in.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::{PodTemplateSpec, Service},
        networking::v1::Ingress,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube_core::Resource;

use super::{
    gateway_api::HttpRoute,
    metadata::{
        COMPONENT_LABEL, Component, INSTANCE_LABEL, NAME_LABEL, StackIdentity, component_name,
        labels,
    },
};
use crate::api::ShortenerStack;

/// An object that lets connections from outside in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Kind, and for a Service what opens it, for people.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    leads: Leads,
}

/// The destination of the connections.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Leads {
    /// Pods of the object's namespace with these labels.
    Pods(BTreeMap<String, String>),
    /// Services by namespace and name.
    Services(BTreeSet<(String, String)>),
}

impl EntryPoint {
    fn new(kind: impl Into<String>, metadata: &ObjectMeta, leads: Leads) -> Self {
        Self {
            kind: kind.into(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            leads,
        }
    }

    /// Returns the entry point of a Service that is reached from outside and selects pods.
    pub fn of_service(service: &Service) -> Option<Self> {
        let spec = service.spec.as_ref()?;
        let selector = spec.selector.clone().filter(|labels| !labels.is_empty())?;
        let addresses = spec.external_ips.as_ref();
        let kind = match spec.type_.as_deref() {
            Some(kind @ ("NodePort" | "LoadBalancer")) => kind,
            _ if addresses.is_some_and(|addresses| !addresses.is_empty()) => "externalIPs",
            _ => return None,
        };
        let kind = format!("Service (of {kind})");
        Some(Self::new(kind, &service.metadata, Leads::Pods(selector)))
    }

    /// Returns the entry point of an Ingress, except of those that the operator writes.
    pub fn of_ingress(ingress: &Ingress) -> Option<Self> {
        let spec = ingress.spec.as_ref()?;
        let rules = spec.rules.iter().flatten();
        let paths = rules
            .filter_map(|rule| rule.http.as_ref())
            .flat_map(|http| &http.paths);
        let backends = paths
            .map(|path| &path.backend)
            .chain(&spec.default_backend)
            .filter_map(|backend| backend.service.as_ref());
        let own = ingress.metadata.namespace.clone().unwrap_or_default();
        let services = backends.map(|service| (own.clone(), service.name.clone()));
        Self::of_routes("Ingress", &ingress.metadata, services.collect())
    }

    /// Returns the entry point of an HTTPRoute, except of those that the operator writes.
    pub fn of_http_route(route: &HttpRoute) -> Option<Self> {
        let own = route.metadata.namespace.clone().unwrap_or_default();
        let backends = route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
        let services = backends.map(|backend| {
            let namespace = backend.namespace.as_ref().unwrap_or(&own);
            (namespace.clone(), backend.name.clone())
        });
        Self::of_routes("HTTPRoute", &route.metadata, services.collect())
    }

    fn of_routes(
        kind: &str,
        metadata: &ObjectMeta,
        services: BTreeSet<(String, String)>,
    ) -> Option<Self> {
        let mut owners = metadata.owner_references.iter().flatten();
        let own = owners.any(|owner| {
            owner.controller == Some(true)
                && owner.kind == ShortenerStack::kind(&())
                && owner.api_version == ShortenerStack::api_version(&())
        });
        (!own && !services.is_empty()).then(|| Self::new(kind, metadata, Leads::Services(services)))
    }

    /// Returns the entry point of a Deployment or a StatefulSet whose pods have a port of their node, or its network.
    pub fn of_template(kind: &str, metadata: &ObjectMeta, pod: &PodTemplateSpec) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let mut ports = spec
            .containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
            .flat_map(|container| container.ports.iter().flatten());
        let opened = if spec.host_network == Some(true) {
            "hostNetwork"
        } else if ports.any(|port| port.host_port.is_some_and(|port| port != 0)) {
            "hostPort"
        } else {
            return None;
        };
        let mut labels = pod.metadata.as_ref()?.labels.clone()?;
        // The user may add others.
        labels
            .retain(|key, _| [NAME_LABEL, INSTANCE_LABEL, COMPONENT_LABEL].contains(&key.as_str()));
        let kind = format!("{kind} (with {opened})");
        Some(Self::new(kind, metadata, Leads::Pods(labels)))
    }

    /// Returns the namespaces that it leads to.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        match &self.leads {
            Leads::Pods(_) => BTreeSet::from([self.namespace.as_str()]),
            Leads::Services(services) => services
                .iter()
                .map(|(namespace, _)| namespace.as_str())
                .collect(),
        }
    }

    /// Returns the component of a stack that it leads to past the gateway.
    pub fn past_gateway(&self, stack: &StackIdentity) -> Option<Component> {
        let behind = Component::WITH_PODS.into_iter();
        let mut behind = behind.filter(|component| *component != Component::Gateway);
        behind.find(|component| match &self.leads {
            Leads::Pods(selector) => {
                let labels = labels(&stack.name, *component);
                let mut selector = selector.iter();
                self.namespace == stack.namespace
                    && selector.all(|(key, value)| labels.get(key) == Some(value))
            }
            Leads::Services(services) => {
                let name = component_name(&stack.name, *component);
                services.contains(&(stack.namespace.clone(), name))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::stack::minimal_stack;

    fn behind(entry_point: Option<EntryPoint>) -> Option<Component> {
        entry_point?.past_gateway(&minimal_stack().identity)
    }

    fn service(namespace: &str, spec: Value) -> Option<EntryPoint> {
        let service = json!({"metadata": {"name": "door", "namespace": namespace}, "spec": spec});
        EntryPoint::of_service(&serde_json::from_value(service).unwrap())
    }

    fn of(component: &str) -> Value {
        json!({"app.kubernetes.io/instance": "acme", "app.kubernetes.io/component": component})
    }

    #[test]
    fn a_service_opens_the_pods_that_it_selects_if_it_is_reached_from_outside() {
        for (spec, component) in [
            (
                json!({"type": "NodePort", "selector": of("postgres")}),
                Some(Component::Postgres),
            ),
            (
                json!({"type": "LoadBalancer", "selector": of("app")}),
                Some(Component::App),
            ),
            (
                json!({"externalIPs": ["192.0.2.1"], "selector": of("rabbitmq")}),
                Some(Component::Rabbitmq),
            ),
            (
                json!({"type": "NodePort", "selector": {"app.kubernetes.io/instance": "acme"}}),
                Some(Component::App),
            ),
            // The gateway is the entry.
            (json!({"type": "NodePort", "selector": of("gateway")}), None),
            (
                json!({"type": "ClusterIP", "selector": of("postgres")}),
                None,
            ),
            (
                json!({"type": "NodePort", "selector": {"app": "other"}}),
                None,
            ),
            (json!({"type": "NodePort"}), None),
        ] {
            assert_eq!(behind(service("links", spec.clone())), component, "{spec}");
        }
        let elsewhere = json!({"type": "NodePort", "selector": of("app")});
        assert_eq!(behind(service("other", elsewhere)), None);
    }

    #[test]
    fn a_foreign_ingress_opens_the_services_behind_the_gateway_and_the_stacks_own_does_not() {
        let ingress = |owner: &str, name: &str| {
            let backend = json!({"service": {"name": name, "port": {"number": 80}}});
            let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
            let ingress = json!({
                "metadata": {"name": "door", "namespace": "links", "ownerReferences": [{
                    "apiVersion": "shortener.dev/v1alpha1", "kind": owner, "name": "acme", "uid": "1",
                    "controller": true,
                }]},
                "spec": {"rules": [{"http": {"paths": [path]}}]},
            });
            behind(EntryPoint::of_ingress(
                &serde_json::from_value(ingress).unwrap(),
            ))
        };
        assert_eq!(ingress("Other", "acme-app"), Some(Component::App));
        assert_eq!(ingress("Other", "acme-gateway"), None);
        assert_eq!(ingress("Other", "another-app"), None);
        assert_eq!(ingress("ShortenerStack", "acme-app"), None);
    }

    #[test]
    fn a_route_opens_services_of_the_namespaces_that_it_names() {
        let route = |namespace: &str, backend: Value| {
            let route = json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": "door", "namespace": namespace},
                "spec": {"rules": [{"backendRefs": [backend]}]},
            });
            EntryPoint::of_http_route(&serde_json::from_value(route).unwrap())
        };
        let cache = Some(Component::Cache);
        let there = json!({"name": "acme-cache", "namespace": "links", "port": 6379});
        let from_elsewhere = route("other", there);
        assert_eq!(
            from_elsewhere.as_ref().unwrap().namespaces(),
            BTreeSet::from(["links"])
        );
        assert_eq!(behind(from_elsewhere), cache);
        let here = json!({"name": "acme-cache", "port": 6379});
        assert_eq!(behind(route("links", here.clone())), cache);
        assert_eq!(behind(route("other", here)), None);
    }

    #[test]
    fn pods_with_a_port_of_their_node_are_open() {
        let opened = |spec: Value| {
            let template = json!({"metadata": {"labels": of("app")}, "spec": spec});
            let template = serde_json::from_value(template).unwrap();
            let metadata = minimal_stack().identity.child("acme-app", Component::App);
            behind(EntryPoint::of_template("Deployment", &metadata, &template))
        };
        let container = |port: Value| json!({"containers": [{"name": "app", "ports": [port]}]});
        assert_eq!(opened(container(json!({"containerPort": 3000}))), None);
        let port = json!({"containerPort": 3000, "hostPort": 3000});
        assert_eq!(opened(container(port)), Some(Component::App));
        let network = json!({"containers": [], "hostNetwork": true});
        assert_eq!(opened(network), Some(Component::App));
    }
}
