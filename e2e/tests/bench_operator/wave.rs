//! Stacks without pods, many at once.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{core::v1::ResourceQuota, networking::v1::Ingress};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde_json::json;
use shortener_e2e::{Stack, await_within, child_kinds, conditions_of, stack_resource};

use crate::{
    objects::{REQUEST, apply, count, create_namespace, delete, each, namespace, namespaces},
    progress::step,
};

/// Selects the children of all stacks.
pub(crate) const CHILDREN: &str = "app.kubernetes.io/managed-by=shortener-operator";
/// The Ingresses of a stack: one for the API and one for everything else.
pub(crate) const INGRESSES: usize = 2;

const APPLIED: Duration = Duration::from_secs(30 * 60);
/// The class of the Ingresses. No controller has it, so none competes with the operator for the processor.
const CLASS: &str = "none-in-this-cluster";
const QUOTA: &str = "no-pods";

/// A number of stacks with the smallest spec, in namespaces whose quota allows no pod.
pub(crate) struct Wave<'a> {
    client: &'a Client,
    name: &'static str,
    pub(crate) stacks: usize,
}

impl<'a> Wave<'a> {
    /// Returns the wave of this name, which has no stack yet.
    pub(crate) fn new(client: &'a Client, name: &'static str, stacks: usize) -> Self {
        Self {
            client,
            name,
            stacks,
        }
    }

    /// Returns its name with the number of its stacks.
    pub(crate) fn title(&self) -> String {
        match self.stacks {
            1 => self.name.to_owned(),
            stacks => format!("{} wave of {stacks}", self.name),
        }
    }

    /// Returns a stack by its number.
    pub(crate) fn stack(&self, number: usize) -> Stack {
        let namespace = namespace(self.name, number);
        Stack::new(self.client, &namespace, &format!("stack-{number:04}"))
    }

    /// Creates the namespaces, then the stacks, and returns the time from the first stack to the last child of all.
    pub(crate) async fn create(&self) -> Result<Duration> {
        for namespace in namespaces(self.name, self.stacks) {
            create_namespace(self.client, self.name, &namespace).await?;
            self.forbid_pods(&namespace).await?;
        }
        let (applied, written) = (Cell::new(0_usize), Cell::new(0_usize));
        let all = self.stacks;
        let shown = || {
            let (applied, written) = (applied.get(), written.get() / INGRESSES);
            format!("{applied} of {all} stacks are created, {written} have their last child")
        };
        let what = format!("Create {all} stacks ({})", self.name);
        let work = self.apply_all(&applied, &written);
        let ((), time) = step(&what, APPLIED, shown, work).await?;
        Ok(time)
    }

    /// Applies every stack, and waits until each has its Ingresses, the kind that is written last.
    async fn apply_all(&self, applied: &Cell<usize>, written: &Cell<usize>) -> Result<()> {
        let before = count::<Ingress>(self.client).await?;
        each(self.stacks, applied, |number| self.apply(number)).await?;
        let wanted = self.stacks * INGRESSES;
        await_within(APPLIED, "every stack has its Ingresses", async || {
            let now = count::<Ingress>(self.client).await?;
            written.set(now.saturating_sub(before));
            let written = written.get();
            ensure!(written == wanted, "{written} of {wanted} Ingresses exist");
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn apply(&self, number: usize) -> Result<()> {
        let stack = self.stack(number);
        let host = format!("{}.{}.test", stack.name, stack.namespace);
        let spec = json!({
            "publicUrl": format!("http://{host}"),
            "gateway": {"hosts": [host], "ingressClassName": CLASS},
        });
        await_within(REQUEST, "the stack is applied", async || {
            stack.apply(&spec).await
        })
        .await?;
        Ok(())
    }

    async fn forbid_pods(&self, namespace: &str) -> Result<()> {
        let quotas = Api::<ResourceQuota>::namespaced(self.client.clone(), namespace);
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA},
            "spec": {"hard": {"pods": "0"}},
        });
        apply(&quotas, QUOTA, &quota).await?;
        // A quota limits nothing until its status has the limit.
        await_within(REQUEST, "the quota is in force", async || {
            let status = quotas.get(QUOTA).await?.status.unwrap_or_default();
            let limits = status.hard.unwrap_or_default();
            limits.get("pods").context("its status has no limit yet")?;
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Returns the number of children of all stacks.
    pub(crate) async fn children(&self) -> Result<usize> {
        let selected = ListParams::default().labels(CHILDREN);
        let mut children = 0;
        for namespace in namespaces(self.name, self.stacks) {
            for kind in child_kinds() {
                let api = self.api(&namespace, &kind);
                children += api.list_metadata(&selected).await?.items.len();
            }
        }
        Ok(children)
    }

    /// Returns how many stacks are ready or not for which reason. Fails if a status is older than its spec.
    pub(crate) async fn states(&self) -> Result<String> {
        let mut states = BTreeMap::<String, usize>::new();
        for namespace in namespaces(self.name, self.stacks) {
            let stacks = self.api(&namespace, &stack_resource());
            for stack in stacks.list(&ListParams::default()).await? {
                let name = stack.name_any();
                let mut conditions = conditions_of(&stack)?.into_iter();
                let ready = conditions.find(|condition| condition.kind == "Ready");
                let ready = ready.with_context(|| format!("stack {name} has no Ready"))?;
                let current = ready.observed_generation == stack.metadata.generation;
                ensure!(current, "the status of stack {name} is older than its spec");
                let state = format!("Ready={} {}", ready.status, ready.reason);
                *states.entry(state).or_default() += 1;
            }
        }
        let states = states.iter();
        let states: Vec<_> = states
            .map(|(state, stacks)| format!("{stacks} {state}"))
            .collect();
        Ok(states.join(", "))
    }

    /// Deletes the stacks with their namespaces, and returns the time until they are gone.
    pub(crate) async fn delete(&self) -> Result<Duration> {
        delete(self.client, Some(self.name)).await
    }

    fn api(&self, namespace: &str, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }
}
