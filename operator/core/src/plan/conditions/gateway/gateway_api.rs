//! The attachment of a stack to a Gateway of the Gateway API.
//!
//! Controllers leave conditions that were true behind: on a route whose Gateway is gone or was changed, and while they do
//! not run. So an entry counts only if it is about our Gateway and our last change of the route, and the Gateway itself
//! must be there and programmed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Verdict, View};
use crate::model::{
    gateway_api::{
        CertificateReference, GATEWAY, GROUP, Gateway, HttpRoute, LiveGateway, PROGRAMMED,
        ParentReference, RouteParentStatus,
    },
    stack::{Parent, ValidatedStack},
};

/// Conditions of a route that decide if it is served. Controllers add others.
const DECISIVE: [&str; 2] = ["Accepted", "ResolvedRefs"];

/// Returns a verdict if the cluster lacks the kinds of the Gateway API.
pub(super) fn kinds_missing(view: View<'_>) -> Option<Verdict> {
    let served = view.stack.has_gateway_kinds && !view.live.gateway_kinds_gone;
    (!served).then(|| {
        Verdict::fault(
            "GatewayAPIMissing",
            "the cluster does not serve the kinds HTTPRoute and ReferenceGrant of gateway.networking.k8s.io: install the \
             Gateway API, or choose another gateway.provider",
        )
    })
}

/// Returns the first problem of the attachment: of the Gateway, of the route, or of the certificate in the Secret.
pub(super) fn problem(view: View<'_>, parent: &Parent, secret: Option<&str>) -> Option<Verdict> {
    gateway_problem(parent)
        .or_else(|| route_problem(view, parent))
        .or_else(|| certificate_unused(view.stack, parent, secret?))
}

fn gateway_problem(parent: &Parent) -> Option<Verdict> {
    let title = parent.title();
    let gateway = match &parent.live {
        LiveGateway::Unknown => return None,
        LiveGateway::Missing => {
            return Some(Verdict::no(
                "GatewayNotFound",
                format!(
                    "gateway.parentRefs: Gateway {title} does not exist: create it, or name another one"
                ),
            ));
        }
        LiveGateway::Found(gateway) => gateway,
    };
    let conditions = gateway.status.iter().flat_map(|status| &status.conditions);
    let why = refusal(conditions, PROGRAMMED)?;
    Some(Verdict::no(
        "GatewayNotProgrammed",
        format!(
            "Gateway {title} takes no requests ({why}): look at its status, and whether the controller of its \
             GatewayClass runs"
        ),
    ))
}

/// Returns the first problem of the routes, or that there is none yet.
fn route_problem(view: View<'_>, parent: &Parent) -> Option<Verdict> {
    let routes = &view.live.http_routes;
    if routes.is_empty() {
        return state_problem(&[], parent);
    }
    let mut problems = routes.iter().filter_map(|route| {
        let states: Vec<&RouteParentStatus> = entries(route, parent).collect();
        state_problem(&states, parent)
    });
    problems.next()
}

/// Returns the problem of a route whose controllers have written this about it.
fn state_problem(states: &[&RouteParentStatus], parent: &Parent) -> Option<Verdict> {
    let title = parent.title();
    // Several controllers may write about one Gateway; the one that serves it decides.
    let served = |state: &&RouteParentStatus| {
        let holds = |type_: &&str| refusal(&state.conditions, type_).is_none();
        DECISIVE.iter().all(holds)
    };
    if states.iter().any(served) {
        return None;
    }
    let Some(state) = states.first() else {
        return Some(Verdict::no(
            "RoutePending",
            format!(
                "no controller has taken the HTTPRoute up for Gateway {title}: check that the controller of its \
                 GatewayClass runs"
            ),
        ));
    };
    Some(match refusal(&state.conditions, "Accepted") {
        Some(why) => Verdict::fault(
            "RouteNotAccepted",
            format!(
                "Gateway {title} does not accept the HTTPRoute ({why}): compare its listeners and their allowedRoutes \
                 with gateway.parentRefs[].sectionName, gateway.hosts and the stack's namespace"
            ),
        ),
        None => Verdict::no(
            "RouteRefsUnresolved",
            format!(
                "the controller of Gateway {title} does not find the Service of the gateway ({})",
                refusal(&state.conditions, "ResolvedRefs").unwrap_or_default()
            ),
        ),
    })
}

/// Returns the entries about our Gateway and the present generation of the route.
fn entries<'a>(
    route: &'a HttpRoute,
    parent: &'a Parent,
) -> impl Iterator<Item = &'a RouteParentStatus> {
    let generation = route.metadata.generation;
    let namespace = route.metadata.namespace.as_deref();
    let entries = route.status.iter().flat_map(|status| &status.parents);
    entries.filter(move |entry| {
        let conditions = entry.conditions.iter();
        let mut decisive = conditions
            .filter(|condition| DECISIVE.contains(&condition.type_.as_str()))
            .peekable();
        is_about(&entry.parent_ref, parent, namespace)
            && decisive.peek().is_some()
            && decisive.all(|condition| condition.observed_generation == generation)
    })
}

/// Returns true when a reference in a route of a namespace is the one to our Gateway.
fn is_about(reference: &ParentReference, parent: &Parent, own: Option<&str>) -> bool {
    let ParentReference {
        group,
        kind,
        namespace,
        name,
        section_name,
        port,
    } = reference;
    group.as_deref().unwrap_or(GROUP) == GROUP
        && kind.as_deref().unwrap_or(GATEWAY) == GATEWAY
        && namespace.as_deref().or(own) == Some(parent.namespace.as_str())
        && *name == parent.name
        && *section_name == parent.section
        && *port == parent.port
}

/// Returns reason and message of a condition that is not true, or that it is missing.
fn refusal<'a>(conditions: impl IntoIterator<Item = &'a Condition>, type_: &str) -> Option<String> {
    let found = conditions
        .into_iter()
        .find(|condition| condition.type_ == type_);
    match found {
        Some(condition) if condition.status == "True" => None,
        Some(Condition {
            reason, message, ..
        }) if message.is_empty() => Some(format!("{type_}: {reason}")),
        Some(Condition {
            reason, message, ..
        }) => Some(format!("{type_}: {reason}, {message}")),
        None => Some(format!("it has no condition {type_}")),
    }
}

fn certificate_unused(stack: &ValidatedStack, parent: &Parent, secret: &str) -> Option<Verdict> {
    let LiveGateway::Found(gateway) = &parent.live else {
        return None;
    };
    let own = &stack.identity.namespace;
    (!uses(gateway, parent, own, secret)).then(|| {
        let listener = match &parent.section {
            Some(section) => format!("listener {section}"),
            None => "no listener".to_owned(),
        };
        let verb = if parent.section.is_some() {
            "does not name"
        } else {
            "names"
        };
        Verdict::fault(
            "CertificateNotUsed",
            format!(
                "gateway.tls.secretName: {listener} of Gateway {} {verb} Secret {own}/{secret} in its \
                 tls.certificateRefs: add it there, or remove gateway.tls if the Gateway has a certificate of its own",
                parent.title()
            ),
        )
    })
}

/// Returns true when a listener that our route may be attached to has the certificate in a Secret.
fn uses(gateway: &Gateway, parent: &Parent, namespace: &str, secret: &str) -> bool {
    let names_it = |reference: &CertificateReference| {
        let CertificateReference {
            group,
            kind,
            namespace: of,
            name,
        } = reference;
        group.as_deref().unwrap_or_default().is_empty()
            && kind.as_deref().unwrap_or("Secret") == "Secret"
            && of.as_deref().unwrap_or(&parent.namespace) == namespace
            && name == secret
    };
    let mut listeners = gateway.spec.listeners.iter();
    listeners.any(|listener| {
        let is_ours = parent
            .section
            .as_ref()
            .is_none_or(|it| *it == listener.name);
        let mut references = listener.tls.iter().flat_map(|tls| &tls.certificate_refs);
        is_ours && references.any(names_it)
    })
}

#[cfg(test)]
mod tests;
