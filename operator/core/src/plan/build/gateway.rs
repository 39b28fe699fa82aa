//! The public entry point: an nginx of the stack's own, its Service, and the Ingresses for an ingress controller or the
//! HTTPRoute of a Gateway.

mod deployment;
mod http_route;
mod ingress;
mod nginx;
mod reference_grant;
mod service;
mod tls;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use deployment::deployment;
pub use http_route::{console_route, http_route};
pub use ingress::{api_ingress, console_ingress, ingress};
pub use reference_grant::reference_grant;
pub use service::service;

use crate::{model::stack::ValidatedStack, plan::objects::pod};

/// Port of the gateway's pods.
pub const PORT: i32 = 8080;
/// Port of the gateway's Service.
pub const SERVICE_PORT: i32 = 80;
/// Name of both ports.
const PORT_NAME: &str = "http";
/// Port of the gateway's pods for TLS.
pub const TLS_PORT: i32 = 8443;
/// Port of the gateway's Service for TLS.
const TLS_SERVICE_PORT: i32 = 443;
/// Name of both ports for TLS.
const TLS_PORT_NAME: &str = "https";
/// Key of the configuration in its ConfigMap, and its file name in the pod.
const CONFIG_KEY: &str = "nginx.conf";

/// Returns the files of the configuration, or `None` while the address of the app is unknown.
pub fn files(stack: &ValidatedStack) -> Option<BTreeMap<String, String>> {
    Some(BTreeMap::from([(
        CONFIG_KEY.to_owned(),
        nginx::render(stack)?,
    )]))
}

/// Returns the default requests and limits of the gateway's container.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["20m", "32Mi"], ["2", "128Mi"])
}

#[cfg(test)]
mod tests {
    use crate::{
        model::metadata::Component,
        plan::build,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_config_map_of_a_minimal_stack() {
        let map = build::config_map(&minimal_stack(), Component::Gateway);
        golden("config-map-gateway", &map);
    }
}
