//! The labels and annotations that users who edit a stack may add to its pods: add-ons of a cluster give rights, Secrets and
//! containers to pods that ask for them in this way.

use serde_json::Value;

use super::{super::own::fields, refused};
use crate::model::pod_patch::PatchError;

/// Annotations that are admitted. A name that ends with a slash is a domain with every annotation in it.
const ANNOTATIONS: [&str; 19] = [
    "backup.velero.io/backup-volumes",
    "backup.velero.io/backup-volumes-excludes",
    "cluster-autoscaler.kubernetes.io/",
    "config.linkerd.io/opaque-ports",
    "config.linkerd.io/proxy-cpu-limit",
    "config.linkerd.io/proxy-cpu-request",
    "config.linkerd.io/proxy-memory-limit",
    "config.linkerd.io/proxy-memory-request",
    "config.linkerd.io/skip-inbound-ports",
    "descheduler.alpha.kubernetes.io/",
    "fluentbit.io/exclude",
    "karpenter.sh/do-not-disrupt",
    "kubectl.kubernetes.io/",
    "kubernetes.io/description",
    "linkerd.io/inject",
    "prometheus.io/",
    "sidecar.istio.io/inject",
    "traffic.sidecar.istio.io/excludeInboundPorts",
    "traffic.sidecar.istio.io/includeInboundPorts",
];
/// Labels that are refused, in the same form. The others only select pods, and [`LABELS`] admits some of these.
const REFUSED_LABELS: [&str; 5] = [
    "aadpodidbinding",
    "admission.datadoghq.com/",
    "azure.workload.identity/",
    "sidecar.istio.io/",
    "spiffe.io/",
];
/// Labels that are admitted although their domain is refused.
const LABELS: [&str; 1] = ["sidecar.istio.io/inject"];

/// Checks the metadata of a merged pod template against the operator's.
pub(super) fn check(own: &Value, merged: &Value) -> Result<(), PatchError> {
    for (kind, is_admitted) in [
        ("annotations", is_annotation as fn(&str) -> bool),
        ("labels", is_label),
    ] {
        let mut changed =
            fields(&merged[kind]).filter(|(name, value)| own[kind].get(*name) != Some(*value));
        if let Some((name, _)) = changed.find(|(name, _)| !is_admitted(name)) {
            return refused(&format!("metadata.{kind}.{name}"));
        }
    }
    Ok(())
}

/// Returns true for an annotation that is admitted. Kubernetes leaves names without a domain to users, but container runtimes
/// read some that begin with one.
fn is_annotation(name: &str) -> bool {
    !name.contains(['/', '.']) || is_in(&ANNOTATIONS, name)
}

fn is_label(name: &str) -> bool {
    !is_in(&REFUSED_LABELS, name) || LABELS.contains(&name)
}

fn is_in(list: &[&str], name: &str) -> bool {
    let mut list = list.iter();
    list.any(|entry| *entry == name || entry.ends_with('/') && name.starts_with(entry))
}
