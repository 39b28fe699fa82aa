//! Facts about an upgrade of the operator: the pods as they were applied last.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, StatefulSet},
        batch::v1::CronJob,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use shortener_operator_core::{
    api::{ShortenerStack, UpgradePolicy},
    model::{
        kinds::Deletion,
        metadata::{Component, StackIdentity},
        ownership::is_ours,
        record::PodRecord,
    },
};

use crate::{kubernetes::inventory::Child, reconcile::context::Scope};

/// Returns the record of each workload of a stack that holds back the changes of a release. A watch that lags shows the
/// record from before the last write, and the same decision follows from it.
pub(super) fn records(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
) -> BTreeMap<Component, PodRecord> {
    if stack.spec.upgrade_policy == UpgradePolicy::Automatic {
        return BTreeMap::new();
    }
    let record = |component| {
        let live = metadata::<Deployment>(scope, identity, component)
            .or_else(|| metadata::<StatefulSet>(scope, identity, component))
            .or_else(|| metadata::<CronJob>(scope, identity, component))?;
        let ours = is_ours(&live, identity, Deletion::Pruned);
        let record = PodRecord::of(&live).filter(|_| ours)?;
        Some((component, record))
    };
    Component::WITH_PODS
        .into_iter()
        .filter_map(record)
        .collect()
}

fn metadata<K: Child>(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
) -> Option<ObjectMeta> {
    let live = scope.child::<K>(identity, component)?;
    Some(live.meta().clone())
}
