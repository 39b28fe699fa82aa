//! The text of the gateway's `nginx.conf`. The files in `nginx/` are templates: only names between `%` are replaced.
//! They use only directives that nginx 1.22 supports and that nginx 1.30 does not warn about.

use super::{super::app, PORT};
use crate::model::stack::Routing;

/// Returns the configuration, or `None` while the address of the app is unknown.
///
/// The configuration contains the app's address instead of its host name. nginx resolves a name only when it starts,
/// and would keep a stale address after the Service is recreated.
pub(super) fn render(routing: &Routing) -> Option<String> {
    let servers = match routing {
        Routing::IngressNginx { .. } => include_str!("nginx/health.conf").to_owned(),
        Routing::Standalone { host, upstream, .. } => standalone(host, upstream.as_deref()?),
    };
    Some(
        include_str!("nginx/main.conf")
            .replace("%SERVERS%", &servers)
            .replace("%PROBLEM%", include_str!("nginx/problem.conf"))
            .replace("%PORT%", &PORT.to_string()),
    )
}

fn standalone(host: &str, upstream: &str) -> String {
    let (default_server, name, others) = if host.is_empty() {
        (" default_server", "_", "")
    } else {
        ("", host, include_str!("nginx/unknown-host.conf"))
    };
    include_str!("nginx/routes.conf")
        .replace("%OTHERS%", others)
        .replace("%DEFAULT_SERVER%", default_server)
        .replace("%SERVER_NAME%", name)
        .replace("%APP%", &socket_address(upstream))
}

/// Returns an address with the app's port. An IPv6 address before a port requires brackets.
fn socket_address(address: &str) -> String {
    if address.contains(':') {
        format!("[{address}]:{}", app::PORT)
    } else {
        format!("{address}:{}", app::PORT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden_text, stack::minimal_stack};

    fn rendered(routing: &Routing) -> String {
        let config = render(routing).unwrap();
        let mut after_marks = config.split('%').skip(1);
        let is_name = |text: &str| text.starts_with(|first: char| first.is_ascii_uppercase());
        assert!(
            !after_marks.any(is_name),
            "a name is not filled in: {config}"
        );
        config
    }

    #[test]
    fn behind_a_controller_the_gateway_answers_for_its_health_only() {
        let stack = minimal_stack();
        golden_text("nginx-health", &rendered(&stack.gateway.routing));
    }

    #[test]
    fn on_its_own_the_gateway_routes_every_host() {
        let stack = minimal_stack().standalone();
        golden_text("nginx-standalone", &rendered(&stack.gateway.routing));
    }

    #[test]
    fn with_a_host_the_gateway_refuses_the_others() {
        let stack = minimal_stack().standalone().host("go.example.com");
        golden_text("nginx-standalone-host", &rendered(&stack.gateway.routing));
    }

    #[test]
    fn every_server_listens_on_both_families_and_keeps_one_where_ipv6_is_taken_out() {
        let stack = minimal_stack();
        let routed = minimal_stack().standalone().host("go.example.com");
        for routing in [&stack.gateway.routing, &routed.gateway.routing] {
            let config = rendered(routing);
            let lines: Vec<&str> = config
                .lines()
                .filter(|line| line.contains("listen "))
                .collect();
            assert!(!lines.is_empty());
            for pair in lines.chunks(2) {
                // The second line of each pair is the one that start.sh removes.
                assert_eq!(pair[0].replace("listen 8080", "listen [::]:8080"), pair[1]);
            }
        }
    }

    #[test]
    fn an_address_of_ip_version_6_stands_in_brackets() {
        assert_eq!(socket_address("fd00::7"), "[fd00::7]:3000");
    }
}
