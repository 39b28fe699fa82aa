//! The stacks that a change of an object concerns.

use k8s_openapi::api::{
    autoscaling::v2::HorizontalPodAutoscaler, core::v1::Secret, networking::v1::Ingress,
};
use kube::{
    Resource,
    runtime::reflector::{ObjectRef, Store},
};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        facts::{parents, waits_for_host},
        gateway_api::{Gateway, HttpRoute},
    },
    plan::references,
};

use super::context::{GuardedStack, is_of};
use crate::kubernetes::inventory::Change;

/// The stacks of a scope, of which those of one class are this operator's.
#[derive(Clone)]
pub(super) struct Stacks {
    pub(super) store: Store<GuardedStack>,
    /// Class of the operator.
    pub(super) class: String,
}

impl Stacks {
    /// Returns the stacks that are due for a reconcile after a change.
    pub(super) fn concerned(&self, change: &Change) -> Vec<ObjectRef<GuardedStack>> {
        let Change::Object {
            kind,
            namespace,
            name,
            stack,
            ..
        } = change
        else {
            return self.all();
        };
        // Its labels are those of its owner.
        if *kind == Gateway::kind(&()) {
            let gateway = (namespace.as_str(), name.as_str());
            return self.users(|stack| parents(stack).any(|parent| parent == gateway));
        }
        // One that a user made may scale the app of any stack beside it.
        if *kind == HorizontalPodAutoscaler::kind(&()) && stack.is_none() {
            return self.inside(Some(namespace));
        }
        // Retained volumes and credentials may carry the label of a stack that is gone.
        let known = stack
            .iter()
            .filter_map(|stack| self.known(namespace, stack));
        let mut concerned: Vec<ObjectRef<GuardedStack>> = known.collect();
        // A Secret of one stack, or of a Helm release of that name, may be used by others.
        if *kind == Secret::kind(&()) {
            let mut readers = self.users(|stack| {
                stack.metadata.namespace.as_ref() == Some(namespace)
                    && references::secrets(stack).contains(name)
            });
            readers.retain(|reader| !concerned.contains(reader));
            concerned.extend(readers);
        }
        if *kind == Ingress::kind(&()) || *kind == HttpRoute::kind(&()) {
            // Its host may be free now.
            concerned.extend(self.users(waits_for_host));
        }
        concerned
    }

    /// Returns the reference of a stack, if this scope contains it.
    pub(super) fn known(&self, namespace: &str, name: &str) -> Option<ObjectRef<GuardedStack>> {
        let stack = self.store.get(&ObjectRef::new(name).within(namespace))?;
        is_of(&self.class, &stack).then(|| ObjectRef::from_obj(&*stack))
    }

    /// Returns true when a stack exists and this operator reconciles it.
    pub(super) fn has(&self, stack: &ObjectRef<GuardedStack>) -> bool {
        let found = self.store.get(stack);
        found.is_some_and(|found| is_of(&self.class, &found))
    }

    pub(super) fn all(&self) -> Vec<ObjectRef<GuardedStack>> {
        let stacks = self.store.state_filter(|stack| is_of(&self.class, stack));
        let references = stacks.iter().map(|stack| ObjectRef::from_obj(&**stack));
        references.collect()
    }

    /// Returns the stacks of a namespace, or all of them.
    pub(super) fn inside(&self, namespace: Option<&str>) -> Vec<ObjectRef<GuardedStack>> {
        self.users(|stack| namespace.is_none() || stack.metadata.namespace.as_deref() == namespace)
    }

    /// Returns the stacks that parse and match.
    fn users(&self, matches: impl Fn(&ShortenerStack) -> bool) -> Vec<ObjectRef<GuardedStack>> {
        let parsed = |stack: &GuardedStack| stack.0.as_ref().is_ok_and(&matches);
        let is_user = |stack: &GuardedStack| is_of(&self.class, stack) && parsed(stack);
        let users = self.store.state_filter(is_user);
        let references = users.iter().map(|stack| ObjectRef::from_obj(&**stack));
        references.collect()
    }
}
