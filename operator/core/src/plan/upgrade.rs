//! After `build`: keeps the pods of a stack as an earlier release of the operator rendered them, until its spec changes.
//! Pure.
//!
//! Only what differs because of the release waits. Secrets that were rotated restart the pods as they are. What has to
//! restart anyway because the surroundings of the stack changed, such as the address that the gateway sends requests
//! to, restarts as the new release renders it: the old release is not there to render it.

mod checksum;
mod fields;
mod moment;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ConfigMap, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    api::PendingChange,
    model::{
        desired::Children,
        metadata::{Component, component_name, component_of},
        record::{Look, PodRecord, RenderedPods},
        stack::ValidatedStack,
    },
};
use checksum::Checksum;
pub(super) use moment::Moment;

/// Replaces the pods of each workload by those of its record as long as they are held, and renews the records. Returns
/// what waits.
pub(super) fn hold(
    children: &mut Children,
    recorded: &BTreeMap<Component, PodRecord>,
    stack: &ValidatedStack,
    now: &Moment,
) -> Vec<PendingChange> {
    let sets = children.stateful_sets.iter_mut().filter_map(|set| {
        let template = &mut set.spec.as_mut()?.template;
        Some(("StatefulSet", &mut set.metadata, template))
    });
    let deployments = children.deployments.iter_mut().filter_map(|deployment| {
        let template = &mut deployment.spec.as_mut()?.template;
        Some(("Deployment", &mut deployment.metadata, template))
    });
    let cron_jobs = children.cron_jobs.iter_mut().filter_map(|cron_job| {
        let template = &mut cron_job.spec.as_mut()?.job_template.spec.as_mut()?.template;
        Some(("CronJob", &mut cron_job.metadata, template))
    });
    let mut pending = Vec::new();
    for (kind, metadata, template) in sets.chain(deployments).chain(cron_jobs) {
        let component = component_of(metadata);
        let record = recorded.get(&component);
        if stack.kept_templates.contains_key(&component) {
            // The program waits for a part that it reads. What is rendered is its live template.
            keep(metadata, template, record);
            continue;
        }
        let name = metadata.name.as_deref();
        let config = config_of(&mut children.config_maps, name);
        let new = RenderedPods {
            template: template.clone(),
            config: config.as_deref().cloned().unwrap_or_default(),
        };
        let (record, fields) = decide(new, record, now);
        record.write(metadata);
        *template = record.pods.template;
        if let Some(config) = config {
            *config = record.pods.config;
        }
        if !fields.is_empty() {
            let name = metadata.name.as_deref().unwrap_or_default();
            pending.push(PendingChange {
                workload: format!("{kind}/{name}"),
                fields,
            });
        }
    }
    for component in &stack.refused_templates {
        let name = component_name(&stack.identity.name, *component);
        let config = config_of(&mut children.config_maps, Some(&name));
        if let (Some(config), Some(record)) = (config, recorded.get(component)) {
            keep_config(config, record, now);
        }
    }
    pending
}

/// Keeps a workload as it is recorded.
fn keep(metadata: &mut ObjectMeta, template: &mut PodTemplateSpec, record: Option<&PodRecord>) {
    if let Some(record) = record {
        record.write(metadata);
        *template = record.pods.template.clone();
    }
}

/// Keeps the configuration of pods that stay as they are because the changes of their template are refused: those that
/// start anew read the same as the others. An address of the app that is gone is no use to any of them.
fn keep_config(config: &mut BTreeMap<String, String>, record: &PodRecord, now: &Moment) {
    let address = &record.seen.address;
    if address.is_none() || *address == now.address {
        config.clone_from(&record.pods.config);
    }
}

/// Returns the data of the ConfigMap that the pods of a workload mount. It has the name of the workload.
fn config_of<'a>(
    config_maps: &'a mut [ConfigMap],
    workload: Option<&str>,
) -> Option<&'a mut BTreeMap<String, String>> {
    let mut config_maps = config_maps.iter_mut();
    let found = config_maps.find(|config_map| config_map.metadata.name.as_deref() == workload)?;
    found.data.as_mut()
}

/// Returns the new record of a workload with the pods that are to be applied, and the fields in which the running
/// release would change them.
fn decide(
    new: RenderedPods,
    recorded: Option<&PodRecord>,
    now: &Moment,
) -> (PodRecord, Vec<String>) {
    let mut seen = now.look(&new);
    let renewed = |pods, seen| PodRecord {
        release: now.release.clone(),
        pods,
        seen,
    };
    let Some(recorded) = recorded else {
        return (renewed(new, seen), Vec::new());
    };
    let released = is_released(recorded, &seen);
    if recorded.seen.spec == seen.spec {
        // Scaling moves the generation as well. Its number would otherwise be written to every workload.
        seen.generation = recorded.seen.generation;
    }
    let held = with_secrets(recorded, &seen);
    if released || held == new {
        return (renewed(new, seen), Vec::new());
    }
    let fields = fields::differences(&held, &new);
    let record = PodRecord {
        release: recorded.release.clone(),
        pods: held,
        seen,
    };
    (record, fields)
}

/// Returns true when the pods become what the running release renders.
fn is_released(recorded: &PodRecord, now: &Look) -> bool {
    let was = &recorded.seen;
    // The generation alone would count scaling, the spec alone a release that writes a spec in another way.
    let edited = was.generation != now.generation && was.spec != now.spec;
    let asked = now.asked.is_some() && was.asked != now.asked;
    // One release renders one spec in two ways only if the surroundings differ. That an address is gone is seen by every
    // release.
    let differs = was.release == now.release && was.rendered != now.rendered;
    let moved = was.address.is_some() && was.address != now.address;
    recorded.release == now.release || edited || asked || differs || moved
}

/// Returns the recorded pods with the checksums of today's Secrets, if these were rotated since the last look.
fn with_secrets(recorded: &PodRecord, now: &Look) -> RenderedPods {
    let mut pods = recorded.pods.clone();
    let applied = Checksum::of(&pods.template);
    let rotated = if recorded.seen.release == now.release {
        recorded.seen.secrets != now.secrets
    } else {
        // Another release may use other Secrets. Only as many can be compared.
        applied.is_comparable(&now.secrets) && applied.secrets != now.secrets
    };
    if rotated {
        let secrets = now.secrets.clone();
        Checksum { secrets, ..applied }.write(&mut pods.template);
    }
    pods
}

#[cfg(test)]
mod tests;
