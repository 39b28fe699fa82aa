//! The periodic check that a request through the gateway succeeds.

use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::{ApiKeyRef, defaults::number};

/// Periodic check through the gateway. Disabled if unset. The operator creates a link that expires after a minute and
/// follows it. With the profile `queue`, it also sends a job of the task `end-to-end` and waits for its result. The
/// condition `EndToEnd` shows the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct EndToEndProbe {
    /// Seconds between two checks. Each leaves the code of an expired link in the database.
    #[serde(default = "number::<300>")]
    #[schemars(range(min = 30, max = 86_400))]
    pub interval_seconds: i32,
    /// Address to which the operator sends the requests, without a path: that of the ingress controller's Service,
    /// `https://` and one of `gateway.hosts`, or a host that the operator's settings allow. They name the first of
    /// `gateway.hosts`. Defaults to the gateway's own Service or, with `IngressNginx` and where that
    /// redirects to HTTPS, the base URL of the short links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(
        r"self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?/?$')"
    ).message("gateway.endToEndProbe.probeUrl is not an http(s) address: write http:// or https://, a host and at most a port, such as http://ingress-nginx-controller.ingress-nginx.svc"))]
    pub probe_url: Option<String>,
    /// The Secret, in the stack's namespace, with a key of a client for `shorten` and `jobs`, if `gateway.auth` protects
    /// them. It has to be the key itself and not its digest. The Secret needs the label
    /// `shortener.dev/usable-by-stacks: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_secret_ref: Option<ApiKeyRef>,
}
