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
        metadata::{CONFIG_CHECKSUM, Component, StackIdentity, is_usable_by_stacks},
        ownership::is_ours,
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
    let deployment = applied_to::<Deployment>(scope, identity, component);
    deployment.or_else(|| applied_to::<StatefulSet>(scope, identity, component))
}

fn applied_to<K: Child<Kept = K> + HasPods>(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
) -> Option<String> {
    let live = scope.child::<K>(identity, component)?;
    let ours = is_ours(live.meta(), identity, Deletion::Pruned);
    let template = live.template().filter(|_| ours)?;
    let annotations = template.metadata.as_ref()?.annotations.as_ref()?;
    find_of_user(annotations.get(CONFIG_CHECKSUM)?).map(str::to_owned)
}
