//! The text of the gateway's `nginx.conf`. The files in `nginx/` are templates: only names between `%` are replaced.
//! They use only directives that nginx 1.22 supports and that nginx 1.30 does not warn about, except in lines with a mark,
//! which `nginx/start.sh` removes for nginx 1.27.3 and later.

use super::{super::app, PORT, TLS_PORT, tls::Tls};
use crate::model::stack::{AuthProxy, Routing, ValidatedStack};

/// The page for browsers while the app cannot be reached, and the policy that it is sent with: the app's own.
const PAGE: &str = include_str!("nginx/unavailable.html");
const POLICY: &str = "default-src 'none'; style-src 'sha256-2uDOqsh/Buyx9ZCUbMXa/IJPWBVXGYodB2CvcsWWY4M='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the configuration, or `None` while the address of the app is unknown.
///
/// The configuration contains the address of the app's Service instead of its name. nginx resolves such a name only when it
/// starts, and would keep a stale address after the Service is recreated.
pub(super) fn render(stack: &ValidatedStack) -> Option<String> {
    let servers = match &stack.gateway.routing {
        Routing::IngressNginx { .. } => include_str!("nginx/health.conf").to_owned(),
        Routing::Standalone { upstream, .. } => routes(stack, upstream.as_deref()?, Front::Clients),
        Routing::GatewayApi { upstream, .. } => {
            routes(stack, upstream.as_deref()?, Front::DataPlane)
        }
    };
    Some(
        include_str!("nginx/main.conf")
            .replace("%SERVERS%", &servers)
            .replace("%PROBLEM%", &problem(""))
            .replace("%PORT%", &PORT.to_string()),
    )
}

/// The senders of the requests that nginx receives.
#[derive(Clone, Copy)]
enum Front {
    /// Clients, or proxies that the user counts in `gateway.trustedHops`.
    Clients,
    /// The data plane of a Gateway, which counts as nginx itself does with clients: the app sees one hop.
    DataPlane,
}

impl Front {
    /// Returns the definitions of the variables that the two other functions name.
    fn definitions(self) -> &'static str {
        match self {
            Self::Clients => "",
            Self::DataPlane => include_str!("nginx/data-plane.conf"),
        }
    }

    /// Returns the address of the client.
    fn client(self) -> &'static str {
        match self {
            Self::Clients => "$remote_addr",
            Self::DataPlane => "$client_address",
        }
    }

    /// Returns the addresses of the client and of the proxies before it.
    fn forwarded_for(self) -> &'static str {
        match self {
            Self::Clients => "$proxy_add_x_forwarded_for",
            Self::DataPlane => "$forwarded_for",
        }
    }
}

fn routes(stack: &ValidatedStack, upstream: &str, front: Front) -> String {
    let hosts = &stack.gateway.hosts;
    let (default_server, names, unknown) = if hosts.is_empty() {
        (" default_server", "_".to_owned(), "")
    } else {
        ("", hosts.join(" "), include_str!("nginx/unknown-host.conf"))
    };
    let tls = Tls::of(stack);
    let tls = tls.as_ref();
    let hsts = tls.map(|tls| tls.hsts("            ")).unwrap_or_default();
    let others = tls.map(Tls::others).unwrap_or_default();
    let directives = tls.map(Tls::directives).unwrap_or_default();
    let console = stack.gateway.console.as_ref();
    let console = console.map(|console| {
        include_str!("nginx/console.conf")
            .replace("%LISTEN%", &addresses("", tls))
            .replace("%CONSOLE%", &console.host)
    });
    let auth = stack.app.auth.as_ref();
    let proxy = auth.and_then(|auth| auth.proxy.as_ref()).map(auth_proxy);
    // HTTP leads to HTTPS on every host.
    let others = others.replace("%SERVER_NAME%", &stack.gateway.named_hosts().join(" "));
    include_str!("nginx/routes.conf")
        .replace("%AUTH_PROXY%", &proxy.unwrap_or_default())
        .replace("%CONSOLE_SERVER%", &console.unwrap_or_default())
        // Only the servers of hosts answer with HSTS. The others keep the mark for problems without it.
        .replace("%PROBLEM%", &problem(&hsts))
        .replace(
            "%OTHERS%",
            &format!("{unknown}{}{others}", front.definitions()),
        )
        .replace("%LISTEN%", &addresses(default_server, tls))
        .replace("%DIRECTIVES%", &directives)
        .replace("%CLIENT%", front.client())
        .replace("%FORWARDED_FOR%", front.forwarded_for())
        .replace("%SERVER_NAME%", &names)
        .replace("%APP%", &socket_address(upstream))
        .replace("%PODS%", &app::pods_host_name(stack))
        .replace("%APP_PORT%", &app::PORT.to_string())
}

/// Returns the directives by which only a proxy that signs people in names them to the app.
fn auth_proxy(proxy: &AuthProxy) -> String {
    let settings = &proxy.settings;
    let (user, groups) = (&settings.user_header, &settings.groups_header);
    let variable = |header: &str| header.to_ascii_lowercase().replace('-', "_");
    let peers = settings.trusted_peers.iter();
    let peers: String = peers.map(|peer| format!("        {peer} 1;\n")).collect();
    include_str!("nginx/auth-proxy.conf")
        .replace("%PEERS%", &peers)
        .replace("%USER%", &variable(user))
        .replace("%GROUPS%", &variable(groups))
        .replace("%USER_HEADER%", user)
        .replace("%GROUPS_HEADER%", groups)
}

/// Returns the directives by which the server of the host listens: for HTTP, for HTTPS, or for both.
fn addresses(default_server: &str, tls: Option<&Tls<'_>>) -> String {
    let http = listen(PORT, default_server);
    let Some(tls) = tls.filter(|tls| tls.is_own()) else {
        return http;
    };
    let https = listen(TLS_PORT, " ssl");
    if tls.redirects() {
        https
    } else {
        http + &https
    }
}

/// Returns the directives by which a server listens on both address families. `nginx/start.sh` removes the second one
/// where there is no IPv6.
fn listen(port: i32, suffix: &str) -> String {
    format!("        listen {port}{suffix};\n        listen [::]:{port}{suffix};\n")
}

/// Returns the answers of a server itself, with the directive of a header for its problems.
fn problem(header: &str) -> String {
    include_str!("nginx/problem.conf")
        .replace("%HSTS%", header)
        .replace("%POLICY%", POLICY)
        .replace("%PAGE%", PAGE)
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
    use std::collections::BTreeSet;

    use shortener_app::code::Code;

    use super::*;
    use crate::{
        model::quantity,
        testing::{golden_text, stack::minimal_stack},
    };

    fn rendered(stack: &ValidatedStack) -> String {
        let config = render(stack).unwrap();
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
        golden_text("nginx-health", &rendered(&stack));
    }

    #[test]
    fn on_its_own_the_gateway_routes_every_host() {
        let stack = minimal_stack().standalone();
        golden_text("nginx-standalone", &rendered(&stack));
    }

    #[test]
    fn with_a_host_the_gateway_refuses_the_others() {
        let stack = minimal_stack().standalone().host("go.example.com");
        golden_text("nginx-standalone-host", &rendered(&stack));
    }

    #[test]
    fn a_console_on_its_own_host_is_there_and_nowhere_else() {
        let stack = minimal_stack().standalone().host("go.example.com");
        golden_text("nginx-console", &rendered(&stack.console(&[])));
        let stack = minimal_stack().gateway_api().host("go.example.com");
        let stack = stack.tls("go-tls").hsts().console(&[]);
        let config = rendered(&stack);
        let servers: Vec<&str> = config.split("    server {").skip(1).collect();
        let of_console = servers
            .iter()
            .filter(|server| server.contains("server_name console.example.com;"));
        assert_eq!(of_console.count(), 1);
        let secure = minimal_stack().standalone().host("go.example.com");
        let config = rendered(&secure.tls("go-tls").console(&[]));
        let names = "server_name go.example.com console.example.com;";
        let (_, redirecting) = config.split_once(names).unwrap();
        assert!(redirecting.contains("return 308"));
    }

    #[test]
    fn the_headers_of_a_proxy_that_signs_people_in_come_from_its_addresses_only() {
        let stack = minimal_stack().standalone().keys();
        golden_text("nginx-auth-proxy", &rendered(&stack));
    }

    #[test]
    fn every_server_listens_on_both_families_and_keeps_one_where_ipv6_is_taken_out() {
        let stack = minimal_stack();
        let routed = minimal_stack().standalone().host("go.example.com");
        let secure = routed.clone().tls("go-tls");
        for stack in [&stack, &routed, &secure, &secure.clone().without_redirect()] {
            let config = rendered(stack);
            let lines: Vec<&str> = config
                .lines()
                .filter(|line| line.contains("listen "))
                .collect();
            assert!(!lines.is_empty());
            for pair in lines.chunks(2) {
                // The second line of each pair is the one that start.sh removes.
                assert_eq!(pair[0].replace("listen ", "listen [::]:"), pair[1]);
            }
        }
    }

    #[test]
    fn with_a_certificate_http_leads_to_https() {
        let stack = minimal_stack().standalone().host("go.example.com");
        golden_text("nginx-standalone-tls", &rendered(&stack.tls("go-tls")));
    }

    #[test]
    fn without_a_redirect_both_are_served() {
        let stack = minimal_stack().standalone().host("go.example.com");
        let config = rendered(&stack.tls("go-tls").without_redirect());
        assert!(!config.contains("return 308"), "{config}");
        let (_, server) = config.rsplit_once("    server {").unwrap();
        for port in ["listen 8080;", "listen 8443 ssl;"] {
            assert!(server.contains(port), "{port}: {server}");
        }
    }

    #[test]
    fn browsers_are_told_to_use_https_only_if_the_user_wants_it_and_only_by_https() {
        const HEADER: &str = "add_header Strict-Transport-Security";
        let stack = minimal_stack().standalone().host("go.example.com");
        let stack = stack.tls("go-tls");
        assert!(!rendered(&stack).contains(HEADER));
        let config = rendered(&stack.hsts());
        let value = "\"max-age=31536000; includeSubDomains; preload\" always;";
        for server in config.split("    server {").skip(1) {
            // The server of the host, and its own answers for programs and for people.
            let expected = if server.contains("proxy_pass") { 3 } else { 0 };
            assert_eq!(server.matches(HEADER).count(), expected, "{server}");
            assert_eq!(server.matches(value).count(), expected, "{server}");
        }
    }

    /// Returns the first number of a directive, in bytes if it is a size.
    fn number(config: &str, directive: &str) -> u64 {
        let mut lines = config.lines().map(str::trim);
        let prefix = format!("{directive} ");
        let value = lines.find_map(|line| line.strip_prefix(prefix.as_str()));
        let value = value.unwrap_or_else(|| panic!("{directive} is missing"));
        let value = value.trim_end_matches(';').rsplit(' ').next().unwrap();
        match value.strip_suffix('k') {
            Some(kibibytes) => kibibytes.parse::<u64>().unwrap() * 1024,
            None => value.parse().unwrap(),
        }
    }

    #[test]
    fn all_connections_together_fit_the_memory_limit() {
        // What nginx allocates for a request head and copies for the app: four large buffers, at most.
        const HEAD: u64 = 4 * 8 * 1024;
        // Its pools, and the first buffer of the head.
        const REQUEST: u64 = 6 * 1024;
        // The programs, the configuration and the connections themselves.
        const FIXED: u64 = 16 * 1024 * 1024;
        let config = rendered(&minimal_stack().standalone());
        let connections =
            number(&config, "worker_processes") * number(&config, "worker_connections");
        let response =
            number(&config, "proxy_buffer_size") + 4 * number(&config, "proxy_buffers 4");
        let body = number(&config, "client_body_buffer_size");
        // A request that is passed on takes two connections.
        let passed_on = connections / 2 * (REQUEST + 2 * HEAD + body + response);
        let slow_heads = connections * (REQUEST + HEAD);
        let limits = super::super::default_resources().limits.unwrap();
        let limit = quantity::bytes(&limits["memory"].0).unwrap();
        for used in [passed_on, slow_heads] {
            assert!(FIXED + used <= limit, "{used} bytes of {limit}");
        }
        // Nothing waits in files instead.
        assert!(config.contains("proxy_request_buffering off;"));
        assert_eq!(number(&config, "proxy_max_temp_file_size"), 0);
    }

    #[test]
    fn the_longest_names_of_the_spec_fit_the_tables_of_nginx() {
        // A bucket takes the name with its length, aligned, behind a pointer, and a pointer that ends the bucket.
        let bucket = |name: u64| (name + 2).next_multiple_of(8) + 8 + 8;
        let config = rendered(&minimal_stack().standalone());
        for (table, longest) in [("server_names", 253), ("proxy_headers", 64)] {
            let size = number(&config, &format!("{table}_hash_bucket_size"));
            // nginx rounds the size up to lines of the processor's cache.
            assert!(
                size >= bucket(longest) && size.is_multiple_of(128),
                "{table}"
            );
        }
    }

    #[test]
    fn slow_bodies_leave_connections_of_a_worker_to_redirects() {
        let config = rendered(&minimal_stack().standalone());
        // All of them can meet on one worker, and each takes a second connection to the app.
        let taken = 2 * number(&config, "limit_conn with_body");
        let connections = number(&config, "worker_connections");
        assert!(taken <= connections * 3 / 4, "{taken} of {connections}");
    }

    #[test]
    fn behind_a_gateway_the_last_address_that_its_data_plane_tells_is_the_client() {
        let stack = minimal_stack().gateway_api().host("go.example.com");
        golden_text("nginx-gateway-api", &rendered(&stack));
    }

    #[test]
    fn behind_a_gateway_that_terminates_tls_its_data_plane_tells_the_scheme() {
        let stack = minimal_stack().gateway_api().host("go.example.com");
        let config = rendered(&stack.tls("go-tls").hsts());
        golden_text("nginx-gateway-api-tls", &config);
        assert!(!config.contains("ssl"), "{config}");
    }

    #[test]
    fn behind_a_gateway_http_is_served_too_if_the_user_wants_it() {
        let stack = minimal_stack().gateway_api().host("go.example.com");
        let config = rendered(&stack.tls("go-tls").without_redirect());
        for absent in ["return 308", "$insecure", "$hsts"] {
            assert!(!config.contains(absent), "{absent}: {config}");
        }
    }

    #[test]
    fn the_page_of_the_gateway_is_that_of_the_app() {
        let unavailable = http::StatusCode::SERVICE_UNAVAILABLE;
        let page = shortener_app::page::of_status(unavailable, "");
        assert_eq!(page.as_deref(), Some(PAGE));
        assert_eq!(POLICY, shortener_app::page::policy());
        // One word of the configuration has at most 4,096 bytes, and these signs would end or change it.
        assert!(PAGE.len() < 4096 && !PAGE.contains(['\'', '$', '\\', '%']));
    }

    #[test]
    fn errors_that_nginx_finds_itself_are_problems() {
        let config = rendered(&minimal_stack().standalone());
        let lines = config.lines().map(str::trim);
        let pages = lines.filter_map(|line| line.strip_prefix("error_page "));
        let answered: BTreeSet<&str> = pages.flat_map(|page| page.split([' ', '='])).collect();
        // The last one is the default.
        for status in [400, 404, 405, 413, 414, 431, 501, 502, 503, 504, 505, 500] {
            let status = status.to_string();
            assert!(answered.contains(status.as_str()), "{status}");
            let has_problem = config.contains(&format!(" {status} '\"type\":"));
            assert!(has_problem || status == "500", "{status}");
        }
    }

    #[test]
    fn no_location_takes_the_place_of_a_link() {
        let config = rendered(&minimal_stack().standalone());
        let locations = config.split("location = /").skip(1);
        let paths: Vec<&str> = locations
            .filter_map(|location| location.split(' ').next())
            .collect();
        assert!(paths.contains(&"gateway-problem/json"), "{paths:?}");
        for path in paths {
            assert!(Code::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn an_address_of_ip_version_6_stands_in_brackets() {
        assert_eq!(socket_address("fd00::7"), "[fd00::7]:3000");
    }
}
