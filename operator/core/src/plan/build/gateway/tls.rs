//! TLS that the stack's own nginx or the Gateway in front of it terminates: the parts of nginx's configuration, and the
//! volume with the certificate.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};

use super::TLS_PORT;
use crate::{
    api::{GatewayTls, Hsts},
    model::stack::{Routing, ValidatedStack},
    plan::objects::volume,
};

/// Folder of the certificate. `nginx/tls.conf` and `nginx/reload.sh` name it as well.
const DIRECTORY: &str = "/etc/shortener-tls";
const VOLUME: &str = "certificate";

pub(super) struct Tls<'a> {
    settings: &'a GatewayTls,
    hosts: &'a [String],
    public_url: &'a str,
    is_own: bool,
}

impl<'a> Tls<'a> {
    /// Returns TLS of the host, if nginx routes its requests.
    pub(super) fn of(stack: &'a ValidatedStack) -> Option<Self> {
        let gateway = &stack.gateway;
        let is_own = match gateway.routing {
            Routing::Standalone { .. } => true,
            Routing::GatewayApi { .. } => false,
            Routing::IngressNginx { .. } => return None,
        };
        Some(Self {
            settings: gateway.tls.as_ref()?,
            hosts: &gateway.hosts,
            public_url: &stack.public_url,
            is_own,
        })
    }

    /// Returns true when nginx terminates TLS, and false when a Gateway does.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Returns true when HTTP leads to HTTPS. Otherwise both are served.
    pub(super) fn redirects(&self) -> bool {
        self.settings.redirect
    }

    /// Returns the settings of TLS and the servers beside that of the host.
    pub(super) fn others(&self) -> String {
        if !self.is_own {
            return self.variables();
        }
        let mut others =
            include_str!("nginx/tls.conf").replace("%TLS_PORT%", &TLS_PORT.to_string());
        if self.redirects() {
            let redirect = include_str!("nginx/redirect.conf");
            others.push_str(&redirect.replace("%ORIGIN%", &self.origin()));
        }
        others
    }

    /// Returns the variables that depend on the scheme by which the client reached the Gateway.
    fn variables(&self) -> String {
        let mut variables = String::new();
        if self.redirects() {
            variables.push_str(include_str!("nginx/data-plane-redirect.conf"));
        }
        if let Some(hsts) = &self.settings.hsts {
            let map = include_str!("nginx/data-plane-hsts.conf");
            variables.push_str(&map.replace("%HSTS%", &value(hsts)));
        }
        variables
    }

    /// Returns the directives of the host's own server.
    pub(super) fn directives(&self) -> String {
        let hsts = self.hsts("        ");
        let first = match (self.is_own, self.redirects()) {
            (true, _) => "        error_page 497 =400 /gateway-problem/json;\n".to_owned(),
            (false, true) => format!(
                "        if ($insecure) {{\n            return 308 {}$request_uri;\n        }}\n",
                self.origin()
            ),
            (false, false) => String::new(),
        };
        first + &hsts
    }

    /// Returns the directive for the header `Strict-Transport-Security`, if it is wanted. A location with headers of
    /// its own does not inherit those of its server, so both need it.
    pub(super) fn hsts(&self, indent: &str) -> String {
        let Some(hsts) = &self.settings.hsts else {
            return String::new();
        };
        // nginx omits a header whose value is empty.
        let value = if self.is_own {
            format!("\"{}\"", value(hsts))
        } else {
            "$hsts".to_owned()
        };
        format!("{indent}add_header Strict-Transport-Security {value} always;\n")
    }

    /// Returns the origin of HTTPS of the host that a request names, which is one of the stack's: nginx selects the server
    /// by it. Only the public URL has the port, because the Service or a load balancer may choose another one.
    fn origin(&self) -> String {
        let authority = self.public_url.strip_prefix("https://");
        let port = authority
            .and_then(|authority| authority.split_once(':'))
            .filter(|(name, _)| {
                self.hosts
                    .iter()
                    .any(|host| name.eq_ignore_ascii_case(host))
            })
            .map_or_else(String::new, |(_, port)| format!(":{port}"));
        format!("https://$host{port}")
    }
}

/// Returns the value of the header `Strict-Transport-Security`.
fn value(hsts: &Hsts) -> String {
    let mut value = format!("max-age={}", hsts.max_age_seconds);
    for (wanted, directive) in [
        (hsts.include_sub_domains, "; includeSubDomains"),
        (hsts.preload, "; preload"),
    ] {
        if wanted {
            value.push_str(directive);
        }
    }
    value
}

/// Returns the volume with the certificate. Only the group of nginx can read the key. A pod waits until the Secret
/// exists.
pub(super) fn certificate(tls: &GatewayTls) -> Volume {
    let mut volume = volume::secret(VOLUME, tls.secret_name.clone(), None);
    if let Some(secret) = &mut volume.secret {
        secret.default_mode = Some(0o440);
    }
    volume
}

/// Returns the mount of the certificate.
pub(super) fn mount() -> VolumeMount {
    volume::read_only(VOLUME, DIRECTORY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stack::minimal_stack;

    #[test]
    fn the_redirect_keeps_the_host_and_the_port_of_the_public_url() {
        for (public_url, origin) in [
            ("https://go.example.com", "https://$host"),
            ("https://go.example.com:8443", "https://$host:8443"),
            ("https://GO.example.com:8443", "https://$host:8443"),
            ("https://example.com:8443", "https://$host:8443"),
            ("http://go.example.com:8080", "https://$host"),
            ("https://go.example.com.evil.test:8443", "https://$host"),
            ("https://other.example.com:8443", "https://$host"),
        ] {
            let mut stack = minimal_stack()
                .standalone()
                .hosts(&["go.example.com", "example.com"])
                .tls("go-tls");
            stack.public_url = public_url.to_owned();
            assert_eq!(Tls::of(&stack).unwrap().origin(), origin, "{public_url}");
        }
    }

    #[test]
    fn the_files_are_read_from_the_folder_where_they_are_mounted() {
        for text in [
            include_str!("nginx/tls.conf"),
            include_str!("nginx/reload.sh"),
        ] {
            let folder = format!("{DIRECTORY}/");
            assert!(text.contains(&folder));
            assert_eq!(text.matches("/etc/").count(), text.matches(&folder).count());
        }
    }
}
