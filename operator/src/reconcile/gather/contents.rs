//! Facts about the Secrets that pods read because the user's settings name them.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use shortener_operator_core::{
    api::ShortenerStackSpec,
    model::{
        checksum::find_of_user,
        facts::{PodContents, ReadSecret, ReadSecrets},
        failure::StepFailure,
        kinds::Deletion,
        metadata::{
            CONFIG_CHECKSUM, Component, StackIdentity, component_name, is_usable_by_stacks,
        },
        ownership::{Ownership, ownership},
        pod_uses::HasPods,
    },
    plan::references,
};

use super::{read_secret, unread};
use crate::{kubernetes::inventory::Child, reconcile::context::Scope};

/// Number of Secrets that are read at the same time: a spec may name hundreds, and the time for all reads is limited.
const READS_AT_ONCE: usize = 16;

/// Reads the content of the Secrets that pods read, each Secret once. `draining` tells that a queue whose profile is off
/// still has its pods.
pub(super) async fn contents(
    scope: &Scope,
    identity: &StackIdentity,
    spec: &ShortenerStackSpec,
    draining: bool,
) -> BTreeMap<Component, Result<PodContents, StepFailure>> {
    let uses = references::contents(spec, &identity.name, draining);
    let names = uses.values().flatten().map(|used| used.secret.clone());
    let names: BTreeSet<String> = names.collect();
    let reads = names.into_iter().map(|name| async move {
        let secret = read_secret(scope, identity, &name).await;
        let read = secret.map(|secret| {
            secret.map(|secret| ReadSecret {
                usable: is_usable_by_stacks(&secret.metadata),
                data: secret.data.unwrap_or_default(),
            })
        });
        (name, read.map_err(|error| unread(&error)))
    });
    let secrets: ReadSecrets = stream::iter(reads)
        .buffer_unordered(READS_AT_ONCE)
        .collect()
        .await;
    let mut contents = BTreeMap::new();
    for (component, uses) in uses {
        let mut found = PodContents::find(&uses, &secrets);
        if let Ok(found) = &mut found
            && found.missing
        {
            found.applied = applied(scope, identity, component);
        }
        contents.insert(component, found);
    }
    contents
}

/// Returns the checksum of the content in the live pod template of a component.
fn applied(scope: &Scope, identity: &StackIdentity, component: Component) -> Option<String> {
    let name = component_name(&identity.name, component);
    let deployment = applied_to::<Deployment>(scope, identity, &name);
    deployment.or_else(|| applied_to::<StatefulSet>(scope, identity, &name))
}

fn applied_to<K: Child<Kept = K> + HasPods>(
    scope: &Scope,
    identity: &StackIdentity,
    name: &str,
) -> Option<String> {
    let live = scope.inventory.kept::<K>(&identity.namespace, name)?;
    let ours = ownership(live.meta(), identity, Deletion::Pruned) == Ownership::Ours;
    let template = live.template().filter(|_| ours)?;
    let annotations = template.metadata.as_ref()?.annotations.as_ref()?;
    find_of_user(annotations.get(CONFIG_CHECKSUM)?).map(str::to_owned)
}
