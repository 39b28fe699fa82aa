//! Stacks with other gateways than the minimal one.

use serde_json::json;

use super::resolved;
use crate::{
    api::{GatewayServiceType, GatewayTls, Hsts},
    model::stack::{ConsoleRoute, Exposure, HostConflict, Hosts, Routing, ValidatedStack},
};

impl ValidatedStack {
    /// Replaces the gateway with an nginx of the stack's own that accepts every client.
    pub fn standalone(mut self) -> Self {
        self.gateway = resolved(json!({"gateway": {"provider": "Standalone"}})).gateway;
        self.upstream(Some("10.96.0.42"))
    }

    /// Attaches the stack to the Gateway `infra/public`, in a cluster with the kinds of the Gateway API.
    pub fn gateway_api(mut self) -> Self {
        let parent = json!({"name": "public", "namespace": "infra"});
        let spec = json!({"gateway": {"provider": "GatewayAPI", "parentRefs": [parent]}});
        self.gateway = resolved(spec).gateway;
        self.has_gateway_kinds = true;
        self.upstream(Some("10.96.0.42"))
    }

    /// Sets the cluster address of the app (after [`Self::standalone`] or [`Self::gateway_api`]).
    pub fn upstream(mut self, address: Option<&str>) -> Self {
        if let Routing::Standalone { upstream, .. } | Routing::GatewayApi { upstream, .. } =
            &mut self.gateway.routing
        {
            *upstream = address.map(str::to_owned);
        }
        self
    }

    /// Sets the type of the gateway's Service (after [`Self::standalone`]).
    pub fn service_type(mut self, wanted: GatewayServiceType) -> Self {
        if let Routing::Standalone { service_type, .. } = &mut self.gateway.routing {
            *service_type = wanted;
        }
        self
    }

    /// Limits the stack to one host.
    pub fn host(self, name: &str) -> Self {
        self.hosts(&[name])
    }

    /// Limits the stack to some hosts, the canonical one first.
    pub fn hosts(mut self, names: &[&str]) -> Self {
        self.gateway.hosts = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Gives the console a host of its own, with these annotations.
    pub fn console(mut self, annotations: &[(&str, &str)]) -> Self {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        self.gateway.console = Some(ConsoleRoute {
            host: "console.example.com".to_owned(),
            annotations: annotations.iter().map(owned).collect(),
        });
        self
    }

    /// Serves the host over TLS with the certificate in a Secret.
    pub fn tls(mut self, secret: &str) -> Self {
        self.gateway.tls = Some(GatewayTls {
            secret_name: secret.to_owned(),
            redirect: true,
            hsts: None,
        });
        self
    }

    /// Serves HTTP beside HTTPS (after [`Self::tls`]).
    pub fn without_redirect(mut self) -> Self {
        if let Some(tls) = &mut self.gateway.tls {
            tls.redirect = false;
        }
        self
    }

    /// Tells browsers to use HTTPS only (after [`Self::tls`]).
    pub fn hsts(mut self) -> Self {
        if let Some(tls) = &mut self.gateway.tls {
            tls.hsts = Some(Hsts {
                max_age_seconds: 31_536_000,
                include_sub_domains: true,
                preload: true,
            });
        }
        self
    }

    /// Adds annotations to the Ingresses or to the HTTPRoute.
    pub fn annotated(mut self, entries: &[(&str, &str)]) -> Self {
        if let Routing::IngressNginx { annotations, .. } | Routing::GatewayApi { annotations, .. } =
            &mut self.gateway.routing
        {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            annotations.extend(entries.iter().map(owned));
        }
        self
    }

    /// Adds an annotation to the gateway's Service.
    pub fn service_annotated(mut self, key: &str, value: &str) -> Self {
        let annotations = &mut self.gateway.service_annotations;
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Marks the hosts as served by another stack.
    pub fn conflict(mut self, holder: &str) -> Self {
        self.gateway.conflict = Some(HostConflict {
            holder: holder.to_owned(),
            hosts: self.gateway.hosts.clone(),
            place: "Gateway infra/public".to_owned(),
            kept: None,
        });
        self
    }

    /// Keeps another host in a conflict (after [`Self::conflict`]).
    pub fn keeping(mut self, before: &str) -> Self {
        self = self.host(before);
        if let Some(conflict) = &mut self.gateway.conflict {
            conflict.kept = Some(Exposure {
                entries: Vec::new(),
                hosts: Hosts {
                    links: self.gateway.hosts.clone(),
                    console: None,
                },
            });
        }
        self
    }
}
