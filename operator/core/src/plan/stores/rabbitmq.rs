//! The broker: one RabbitMQ server with a volume of its own and its management UI, or the members that RabbitMQ's operator
//! runs.

pub(in crate::plan) mod cluster;
mod condition;
mod config_map;
mod definitions;
mod env;
mod resolve;
mod server;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub(in crate::plan) use condition::DRAINING;
#[cfg(test)]
pub(super) use resolve::RULE;
pub(in crate::plan) use resolve::resolve;

use super::{Definition, JOB_CLIENTS, Port, StoreCondition};
use crate::{
    api::{Profile, ShortenerStackSpec},
    model::{
        access::Part,
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        external::ExternalReference,
        metadata::Component,
        rabbitmq_cluster,
        topology::{MANAGEMENT_PORT, METRICS_PORT},
    },
    plan::objects::pod,
};

/// The broker among the stores.
pub(in crate::plan) const STORE: Definition = Definition {
    component: Component::Rabbitmq,
    field: "queue",
    noun: "broker",
    profile: Some(Profile::Queue),
    keys: &[USERNAME_KEY, PASSWORD_KEY],
    parts: &[
        Part::Host,
        Part::Port,
        Part::VirtualHost,
        Part::Username,
        Part::Password,
    ],
    ports: &PORTS,
    clients: &JOB_CLIENTS,
    egress: false,
    wanted: |_| true,
    external,
    store: |stack| Some(&stack.queue.as_ref()?.store),
    env: env::env,
    rendered_secret: definitions::secret_data,
    files: config_map::files,
    configuration: server::configuration,
    pod: server::pod_spec,
    condition: Some(StoreCondition {
        type_: "QueueReady",
        verdict: condition::ready,
    }),
};

pub(in crate::plan) const PORT: i32 = 5672;
const PORTS: [Port; 3] = [
    Port {
        name: PORT_NAME,
        number: PORT,
        clients: true,
        operator: false,
    },
    Port {
        name: "management",
        number: MANAGEMENT_PORT as i32,
        clients: false,
        operator: true,
    },
    Port {
        name: "prometheus",
        number: METRICS_PORT as i32,
        clients: false,
        operator: true,
    },
];
/// Name of the server's port.
const PORT_NAME: &str = "amqp";

/// Returns the references to the Secrets of a broker that the operator does not run.
fn external(spec: &ShortenerStackSpec, stack: &str) -> Option<ExternalReference> {
    if spec.queue.rabbitmq_cluster.is_some() {
        return Some(rabbitmq_cluster::reference(stack));
    }
    let external = spec.queue.external.as_ref()?;
    Some(ExternalReference {
        secret: external.secret_ref.clone(),
        tls: external.tls.clone(),
        by_parts: false,
    })
}

/// Returns the default requests and limits of the server's container.
fn default_resources() -> ResourceRequirements {
    pod::resources(["100m", "256Mi"], ["2", "512Mi"])
}
