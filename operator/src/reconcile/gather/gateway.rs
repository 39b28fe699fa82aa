//! Facts about the surroundings of the gateway.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Secret, Service},
    networking::v1::{Ingress, IngressClass},
};
use kube::Api;
use shortener_operator_core::{
    api::{GatewayProvider, ShortenerStack, ShortenerStackSpec},
    model::{
        facts::{GatewayFacts, Referenced, parents},
        failure::StepFailure,
        gateway_api::{Gateway, LiveGateway},
        kinds::Deletion,
        metadata::{Component, StackIdentity},
        stack::HostConflict,
    },
    plan::{conditions::has_address, references},
};

use super::store;
use crate::{kubernetes::refusal, reconcile::context::Scope};

pub(super) async fn facts(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
) -> GatewayFacts {
    GatewayFacts {
        upstream: upstream(scope, identity),
        host_conflict: host_conflict(scope, stack),
        missing_certificate: missing_certificate(scope, stack, identity),
        probe_key: probe_key(scope, identity, &stack.spec).await,
        missing_class: lacks_class(scope, stack, identity).await,
        has_ingress: !ingresses(scope, identity).is_empty(),
        parents: live_parents(scope, stack),
    }
}

/// Returns the stack that holds the host of this one.
fn host_conflict(scope: &Scope, stack: &ShortenerStack) -> Option<HostConflict> {
    let known = scope.context.known_stacks();
    let parsed = known.iter().filter_map(|known| known.0.as_ref().ok());
    let parsed: Vec<&ShortenerStack> = parsed.collect();
    scope.context.hosts.conflict(stack, &parsed)
}

/// Reads the key for the end-to-end probe through the gateway. Nothing else waits for it.
async fn probe_key(
    scope: &Scope,
    identity: &StackIdentity,
    spec: &ShortenerStackSpec,
) -> Option<Result<Referenced, StepFailure>> {
    let reference = references::probe_key(spec)?;
    let key = store::entry(scope, identity, reference).await;
    Some(key.map_err(|error| StepFailure {
        reason: refusal::reason(&error, "ReadFailed"),
        message: format!(
            "gateway.endToEndProbe.keySecretRef: cannot read Secret {}: {}: check the API server and the operator's right to get Secrets; nothing is tried without the key, and the operator retries",
            reference.name,
            refusal::sentence(&error)
        ),
        needs_an_edit: false,
        waits: false,
    }))
}

/// Returns the name of the Secret with the gateway's certificate if the spec refers to one that does not exist. Its
/// content stays unread, because only the gateway needs the key.
fn missing_certificate(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
) -> Option<String> {
    let name = references::certificate_secret(&stack.spec)?;
    let exists = scope
        .inventory
        .contains::<Secret>(&identity.namespace, name);
    (!exists).then(|| name.to_owned())
}

/// Returns true when the IngressClass of the spec does not exist. It is read only while no Ingress of the stack has an
/// address, and counts as existing where the operator may not read it.
async fn lacks_class(scope: &Scope, stack: &ShortenerStack, identity: &StackIdentity) -> bool {
    let gateway = &stack.spec.gateway;
    let mut ingresses = ingresses(scope, identity).into_iter();
    let has_address = ingresses.any(|ingress| has_address(&ingress));
    if gateway.provider != GatewayProvider::IngressNginx || has_address {
        return false;
    }
    let classes: Api<IngressClass> = Api::all(scope.context.client.clone());
    let class = classes.get_opt(&gateway.ingress_class_name).await;
    class.is_ok_and(|class| class.is_none())
}

fn ingresses(scope: &Scope, identity: &StackIdentity) -> Vec<Arc<Ingress>> {
    let (namespace, stack) = (&identity.namespace, &identity.name);
    scope.inventory.of_stack::<Ingress>(namespace, stack)
}

/// Returns the Gateways that the spec names. The operator watches Gateways in its own namespaces only.
fn live_parents(scope: &Scope, stack: &ShortenerStack) -> Vec<LiveGateway> {
    let live = |(namespace, name): (&str, &str)| {
        if !scope.inventory.covers::<Gateway>(namespace) {
            return LiveGateway::Unknown;
        }
        let found = scope.inventory.kept::<Gateway>(namespace, name);
        found.map_or(LiveGateway::Missing, LiveGateway::Found)
    };
    parents(stack).map(live).collect()
}

fn upstream(scope: &Scope, identity: &StackIdentity) -> Option<String> {
    let service = scope.own_child::<Service>(identity, Component::App, Deletion::Pruned)?;
    service.spec.as_ref()?.cluster_ip.clone()
}
