//! Public routes through an ingress-nginx controller: two Ingresses for links, because a rewrite applies to every path of an
//! Ingress, and one for a console with a host of its own, because annotations that let people sign in must not touch links.
//!
//! A rewrite or `use-regex` makes every path of its host a case-insensitive prefix regex. Exact paths therefore end
//! in `\z` and restore case sensitivity with `(?-i:..)`. `$` would match before a final line break, `%0a`, too. There
//! are no snippets, because many clusters refuse them.

use std::{collections::BTreeMap, slice};

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS, ServiceBackendPort,
};

use super::PORT_NAME;
use crate::model::{
    metadata::{CONSOLE_HOST, Component, component_name},
    stack::{ConsoleRoute, Routing, ValidatedStack},
};

/// Prefix of the controller's annotations.
const ANNOTATIONS: &str = "nginx.ingress.kubernetes.io";
/// Paths with one capturing group each, which the rewrite keeps.
const API_PATHS: [&str; 2] = [
    "/(?-i:api/(health|metrics|shorten|jobs|docs/[A-Za-z0-9_-]+))\\z",
    "/(?-i:api/links)/([A-Za-z0-9_-]+)\\z",
];
/// Paths of the console's own host with their types: its beginning, its files, management, pictures of links, and jobs.
const CONSOLE_PATHS: [(&str, &str); 5] = [
    ("/", "Exact"),
    ("/console", "Prefix"),
    ("/api/admin", "Prefix"),
    ("/api/links", "Prefix"),
    ("/jobs", "Prefix"),
];
const HEALTH_PATH: &str = "/(?-i:gateway-health)\\z";

/// Returns the Ingress `<stack>-gateway-api`: exact routes whose prefix is removed before the request reaches the app.
pub fn api_ingress(stack: &ValidatedStack) -> Option<Ingress> {
    let paths = API_PATHS
        .map(|path| route(stack, path, Component::App))
        .to_vec();
    let mut ingress = routed(stack, "gateway-api", paths)?;
    annotations(&mut ingress).insert(annotation("rewrite-target"), "/$1".to_owned());
    Some(ingress)
}

/// Returns the Ingress `<stack>-gateway`: the gateway's health, and everything else unchanged to the app.
pub fn ingress(stack: &ValidatedStack) -> Option<Ingress> {
    let paths = vec![
        route(stack, HEALTH_PATH, Component::Gateway),
        HTTPIngressPath {
            path_type: "Prefix".to_owned(),
            ..route(stack, "/", Component::App)
        },
    ];
    routed(stack, "gateway", paths)
}

/// Returns the Ingress `<stack>-console`: what the console needs on its own host, unchanged to the app.
pub fn console_ingress(stack: &ValidatedStack) -> Option<Ingress> {
    let ConsoleRoute {
        host,
        annotations: of_user,
    } = stack.gateway.console.as_ref()?;
    let path = |(path, path_type): (&str, &str)| HTTPIngressPath {
        path_type: path_type.to_owned(),
        ..route(stack, path, Component::App)
    };
    let paths = CONSOLE_PATHS.map(path).to_vec();
    let mut ingress = ingress_of(stack, "console", slice::from_ref(host), paths)?;
    annotations(&mut ingress).extend(of_user.clone());
    Some(with_settings(stack, ingress))
}

/// Returns the Ingress `<stack>-<suffix>` of the links with these paths.
fn routed(stack: &ValidatedStack, suffix: &str, paths: Vec<HTTPIngressPath>) -> Option<Ingress> {
    let gateway = &stack.gateway;
    let mut ingress = ingress_of(stack, suffix, &gateway.hosts, paths)?;
    // One certificate is for all hosts, and cert-manager reads the hosts here.
    let tls = ingress.spec.iter_mut().flat_map(|spec| &mut spec.tls);
    for entry in tls.flatten() {
        entry.hosts = Some(gateway.named_hosts());
    }
    if let Routing::IngressNginx {
        annotations: of_user,
        ..
    } = &gateway.routing
    {
        annotations(&mut ingress).extend(of_user.clone());
    }
    annotations(&mut ingress).insert(annotation("use-regex"), "true".to_owned());
    Some(with_settings(stack, ingress))
}

/// Returns the Ingress `<stack>-<suffix>` with these paths for these hosts, or `None` if no controller routes or if another
/// stack holds a host.
fn ingress_of(
    stack: &ValidatedStack,
    suffix: &str,
    hosts: &[String],
    paths: Vec<HTTPIngressPath>,
) -> Option<Ingress> {
    let gateway = &stack.gateway;
    let Routing::IngressNginx { class, .. } = &gateway.routing else {
        return None;
    };
    if gateway.is_shut_out() {
        return None;
    }
    let rule = |host| IngressRule {
        host,
        http: Some(HTTPIngressRuleValue {
            paths: paths.clone(),
        }),
    };
    let name = format!("{}-{suffix}", stack.identity.name);
    let mut rules: Vec<_> = hosts.iter().cloned().map(Some).map(rule).collect();
    if rules.is_empty() {
        rules.push(rule(None));
    }
    Some(Ingress {
        metadata: stack.identity.child(name, Component::Gateway),
        spec: Some(IngressSpec {
            ingress_class_name: Some(class.clone()),
            tls: gateway.tls.as_ref().map(|tls| {
                vec![IngressTLS {
                    hosts: Some(hosts.to_vec()),
                    secret_name: Some(tls.secret_name.clone()),
                }]
            }),
            rules: Some(rules),
            ..IngressSpec::default()
        }),
        ..Ingress::default()
    })
}

/// Adds the operator's own annotations, which go before those of the user.
fn with_settings(stack: &ValidatedStack, mut ingress: Ingress) -> Ingress {
    let gateway = &stack.gateway;
    let redirects = gateway.tls.as_ref().is_some_and(|tls| tls.redirect);
    let console = gateway.console.as_ref().map(|console| console.host.clone());
    let console = console.map(|host| (CONSOLE_HOST.to_owned(), host));
    annotations(&mut ingress).extend(console);
    annotations(&mut ingress).extend([
        (annotation("proxy-body-size"), "128k".to_owned()),
        // Room for a Location of 8 KiB, as in the gateway of its own. The second size is nginx's own default for the
        // first one. Some versions of the controller set a smaller one, with which nginx refuses its configuration.
        (annotation("proxy-buffer-size"), "12k".to_owned()),
        (annotation("proxy-busy-buffers-size"), "24k".to_owned()),
        (annotation("proxy-connect-timeout"), "1".to_owned()),
        (annotation("proxy-send-timeout"), "15".to_owned()),
        (annotation("proxy-read-timeout"), "15".to_owned()),
        // Without a certificate of its own, the host would redirect to TLS with the controller's certificate.
        (annotation("ssl-redirect"), redirects.to_string()),
    ]);
    ingress
}

fn route(stack: &ValidatedStack, path: &str, component: Component) -> HTTPIngressPath {
    HTTPIngressPath {
        path: Some(path.to_owned()),
        path_type: "ImplementationSpecific".to_owned(),
        backend: IngressBackend {
            service: Some(IngressServiceBackend {
                name: component_name(&stack.identity.name, component),
                port: Some(ServiceBackendPort {
                    name: Some(PORT_NAME.to_owned()),
                    ..ServiceBackendPort::default()
                }),
            }),
            ..IngressBackend::default()
        },
    }
}

fn annotation(name: &str) -> String {
    format!("{ANNOTATIONS}/{name}")
}

fn annotations(ingress: &mut Ingress) -> &mut BTreeMap<String, String> {
    ingress.metadata.annotations.get_or_insert_default()
}

#[cfg(test)]
mod tests {
    use shortener_app::target::MAX_LOCATION;

    use super::*;
    use crate::{
        api::RESERVED_ANNOTATIONS,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_ingresses_of_a_minimal_stack() {
        golden("ingress-api", &api_ingress(&minimal_stack()));
        golden("ingress", &ingress(&minimal_stack()));
    }

    #[test]
    fn a_console_on_its_own_host_has_an_ingress_of_its_own() {
        let stack = minimal_stack().host("go.example.com");
        assert_eq!(console_ingress(&stack), None);
        let auth = annotation("auth-url");
        let stack = stack
            .tls("go-tls")
            .console(&[(auth.as_str(), "https://sign-in.example.com/auth")]);
        golden("ingress-console", &console_ingress(&stack));
        for ingress in [api_ingress(&stack), ingress(&stack)] {
            let ingress = ingress.unwrap();
            let annotations = ingress.metadata.annotations.unwrap();
            assert!(!annotations.contains_key(&auth), "links need no sign-in");
            assert_eq!(annotations[CONSOLE_HOST], "console.example.com");
            let spec = ingress.spec.unwrap();
            assert_eq!(spec.rules.unwrap().len(), 1);
            let hosts = spec.tls.unwrap().remove(0).hosts.unwrap();
            assert_eq!(hosts, ["go.example.com", "console.example.com"]);
        }
        assert_eq!(
            console_ingress(&stack.clone().conflict("links/older")),
            None
        );
        let standalone = minimal_stack().standalone().host("go.example.com");
        assert_eq!(console_ingress(&standalone.console(&[])), None);
    }

    #[test]
    fn hosts_with_a_certificate_are_served_by_tls() {
        let stack = minimal_stack()
            .hosts(&["go.example.com", "example.com"])
            .tls("go-tls");
        golden("ingress-api-tls", &api_ingress(&stack));
        golden("ingress-tls", &ingress(&stack));
    }

    #[test]
    fn http_is_served_beside_https_if_the_user_wants_it() {
        let stack = minimal_stack()
            .host("go.example.com")
            .tls("go-tls")
            .without_redirect();
        for ingress in [api_ingress(&stack), ingress(&stack)] {
            let annotations = ingress.unwrap().metadata.annotations.unwrap();
            assert_eq!(annotations[&annotation("ssl-redirect")], "false");
        }
    }

    #[test]
    fn annotations_of_the_user_are_added_and_never_replace_those_of_the_operator() {
        let issuer = "cert-manager.io/cluster-issuer";
        let limit = annotation("proxy-body-size");
        let stack = minimal_stack().annotated(&[(issuer, "letsencrypt"), (limit.as_str(), "1g")]);
        for ingress in [api_ingress(&stack), ingress(&stack)] {
            let annotations = ingress.unwrap().metadata.annotations.unwrap();
            assert_eq!(annotations[issuer], "letsencrypt");
            assert_eq!(annotations[&limit], "128k");
        }
    }

    #[test]
    fn the_longest_location_fits_into_a_buffer_and_nginx_accepts_its_size() {
        // The other fields of a response, and the buffers of a controller by default.
        const FIELDS: usize = 2 * 1024;
        const BUFFERS: usize = 4;
        let stack = minimal_stack();
        for ingress in [api_ingress(&stack), ingress(&stack)] {
            let annotations = ingress.unwrap().metadata.annotations.unwrap();
            let size = |name: &str| {
                let kibibytes = annotations[&annotation(name)].strip_suffix('k').unwrap();
                kibibytes.parse::<usize>().unwrap() * 1024
            };
            let (one, busy) = (size("proxy-buffer-size"), size("proxy-busy-buffers-size"));
            assert!(one >= MAX_LOCATION + FIELDS, "{one}");
            assert!(busy >= one && busy <= (BUFFERS - 1) * one, "{busy}");
        }
    }

    #[test]
    fn the_schema_refuses_every_annotation_that_the_operator_sets() {
        let stack = minimal_stack();
        for ingress in [api_ingress(&stack), ingress(&stack)] {
            for key in ingress.unwrap().metadata.annotations.unwrap().keys() {
                assert!(RESERVED_ANNOTATIONS.contains(&key.as_str()), "{key}");
            }
        }
    }

    #[test]
    fn a_host_that_another_stack_holds_is_left_to_it() {
        let stack = minimal_stack().conflict("links/older");
        assert_eq!(api_ingress(&stack), None);
        assert_eq!(ingress(&stack), None);
    }

    #[test]
    fn the_ingresses_of_the_host_before_stay_while_another_stack_holds_the_new_one() {
        let stack = minimal_stack().conflict("links/older").keeping("go.test");
        for ingress in [api_ingress(&stack), ingress(&stack)] {
            let rules = ingress.unwrap().spec.unwrap().rules.unwrap();
            assert_eq!(rules[0].host.as_deref(), Some("go.test"));
        }
    }

    #[test]
    fn every_exact_path_ends_at_the_end_of_the_text() {
        for path in API_PATHS.into_iter().chain([HEALTH_PATH]) {
            assert!(path.ends_with(r"\z") && !path.contains('$'), "{path}");
        }
    }

    #[test]
    fn every_rewritten_path_captures_once() {
        for path in API_PATHS {
            let groups = path.matches('(').count() - path.matches("(?").count();
            assert_eq!(groups, 1, "{path}");
        }
    }
}
