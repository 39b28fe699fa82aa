//! Stacks with other gateways than the minimal one.

use serde_json::json;

use super::resolved;
use crate::{
    api::{GatewayServiceType, GatewayTls, Hsts},
    model::stack::{HostConflict, Routing, ValidatedStack},
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
        let spec = json!({"gateway": {"provider": "GatewayApi", "parentRef": parent}});
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
    pub fn host(mut self, name: &str) -> Self {
        match &mut self.gateway.routing {
            Routing::IngressNginx { host, .. }
            | Routing::Standalone { host, .. }
            | Routing::GatewayApi { host, .. } => *host = name.to_owned(),
        }
        self
    }

    /// Serves the host over TLS with the certificate in a Secret.
    pub fn tls(mut self, secret: &str) -> Self {
        *self.gateway_tls() = Some(GatewayTls {
            secret_name: secret.to_owned(),
            redirect: true,
            hsts: None,
        });
        self
    }

    /// Serves HTTP beside HTTPS (after [`Self::tls`]).
    pub fn without_redirect(mut self) -> Self {
        if let Some(tls) = self.gateway_tls() {
            tls.redirect = false;
        }
        self
    }

    /// Tells browsers to use HTTPS only (after [`Self::tls`]).
    pub fn hsts(mut self) -> Self {
        if let Some(tls) = self.gateway_tls() {
            tls.hsts = Some(Hsts {
                max_age_seconds: 31_536_000,
                include_sub_domains: true,
                preload: true,
            });
        }
        self
    }

    fn gateway_tls(&mut self) -> &mut Option<GatewayTls> {
        match &mut self.gateway.routing {
            Routing::IngressNginx { tls, .. }
            | Routing::Standalone { tls, .. }
            | Routing::GatewayApi { tls, .. } => tls,
        }
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

    /// Marks the host as held by another stack.
    pub fn conflict(mut self, holder: &str) -> Self {
        if let Routing::IngressNginx { host, conflict, .. }
        | Routing::GatewayApi { host, conflict, .. } = &mut self.gateway.routing
        {
            *conflict = Some(HostConflict {
                holder: holder.to_owned(),
                host: host.clone(),
                kept: None,
            });
        }
        self
    }

    /// Keeps another host in a conflict (after [`Self::conflict`]).
    pub fn keeping(mut self, before: &str) -> Self {
        if let Routing::IngressNginx { host, conflict, .. }
        | Routing::GatewayApi { host, conflict, .. } = &mut self.gateway.routing
            && let Some(conflict) = conflict
        {
            before.clone_into(host);
            conflict.kept = Some(before.to_owned());
        }
        self
    }
}
