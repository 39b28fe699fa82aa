//! Validation of the job queue and its workers.

use super::{
    ValidateError,
    pod::pod,
    store::{Surroundings, Wanted, volume},
};
use crate::{
    model::{
        facts::StoreFacts,
        metadata::Component,
        quantity,
        stack::{Draining, Queue, Workers},
    },
    plan::build::{rabbitmq, worker},
};

/// Resolves the queue.
pub(super) fn queue(
    surroundings: &Surroundings<'_>,
    facts: StoreFacts,
    draining: Option<Draining>,
) -> Result<Queue, ValidateError> {
    let spec = &surroundings.stack.spec;
    let images = &surroundings.defaults.images;
    let managed = spec.queue.managed.clone().unwrap_or_default();
    let server = pod(
        &managed.pod,
        &images.rabbitmq,
        rabbitmq::default_resources(),
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
        field: "queue",
        pod: server,
        volume: Some(volume(managed.storage, managed.storage_class_name)),
    };
    let replicas = spec.workers.replicas;
    Ok(Queue {
        store: surroundings.store(wanted, facts)?,
        delivery_limit: spec.queue.delivery_limit,
        broker_memory,
        workers: Workers {
            replicas: if spec.stopped { 0 } else { replicas },
            pod: pod(
                &spec.workers.pod,
                &images.worker,
                worker::default_resources(),
            ),
        },
        draining,
    })
}
