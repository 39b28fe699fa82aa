//! Resolution of the job queue.

use super::default_resources;
use crate::{
    model::{
        facts::StoreFacts,
        metadata::Component,
        quantity,
        stack::{Draining, Queue, Workers},
    },
    plan::{
        error::ValidateError,
        pod_settings::pod,
        stores::common::{Surroundings, Wanted, volume},
    },
};

/// Resolves the queue. `workers` take its jobs.
pub(in crate::plan) fn resolve(
    surroundings: &Surroundings<'_>,
    facts: StoreFacts,
    workers: Workers,
    draining: Option<Draining>,
) -> Result<Queue, ValidateError> {
    let spec = &surroundings.stack.spec.queue;
    let managed = spec.managed.clone().unwrap_or_default();
    let server = pod(
        &managed.pod,
        &surroundings.defaults.images.rabbitmq,
        default_resources(),
    );
    let limits = server.resources.limits.clone().unwrap_or_default();
    let memory = limits.get("memory").map(|limit| limit.0.as_str());
    let broker_memory =
        memory
            .and_then(quantity::bytes)
            .ok_or_else(|| ValidateError::NotASize {
                field: "queue.managed.resources.limits.memory",
                value: memory.unwrap_or_default().to_owned(),
            })?;
    let wanted = Wanted {
        component: Component::Rabbitmq,
        pod: server,
        volume: Some(volume(managed.storage, managed.storage_class_name)),
    };
    Ok(Queue {
        store: surroundings.store(wanted, facts)?,
        delivery_limit: spec.delivery_limit,
        broker_memory,
        workers,
        draining,
    })
}
