//! The database: one PostgreSQL server with a volume of its own.

pub(in crate::plan) mod cluster;
mod connections;
mod env;
pub(in crate::plan) mod moving;
pub(in crate::plan) mod pooler;
mod resolve;
mod restore;
mod server;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub(in crate::plan) use connections::smaller_pool;
#[cfg(test)]
pub(super) use resolve::RULE;
pub(in crate::plan) use resolve::resolve;
pub(in crate::plan) use server::capacity;

use super::{DATABASE_CLIENTS, Definition, Port, StoreCondition, common};
use crate::{
    api::ShortenerStackSpec,
    model::{
        access::Part,
        cloud_native_pg,
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        external::ExternalReference,
        metadata::Component,
    },
    plan::objects::pod,
};

/// The database among the stores.
pub(in crate::plan) const STORE: Definition = Definition {
    component: Component::Postgres,
    field: "database",
    noun: "database",
    profile: None,
    keys: &[USERNAME_KEY, PASSWORD_KEY],
    parts: &[
        Part::Host,
        Part::Port,
        Part::Database,
        Part::Username,
        Part::Password,
    ],
    ports: &[Port {
        name: "postgres",
        number: PORT,
        clients: true,
        operator: false,
    }],
    clients: &DATABASE_CLIENTS,
    egress: false,
    wanted: |_| true,
    external,
    store: |stack| stack.database.as_ref(),
    env: env::env,
    rendered_secret: |_| None,
    files: |_| None,
    configuration: |_| None,
    pod: server::pod_spec,
    condition: Some(StoreCondition {
        type_: DATABASE_READY,
        verdict: |view| {
            let moving = view.stack.database_move.as_ref();
            if let Some(moving) = moving.filter(|_| view.stack.takes_no_writes) {
                return moving::verdict(view, moving);
            }
            let without = "while it is unavailable, only cached links redirect";
            let ready = match &view.stack.cluster {
                Some(_) if view.stack.database.is_some() => Some(cluster::verdict(view, without)),
                _ => common::verdict(view, Component::Postgres, without),
            };
            ready.map(|ready| connections::verdict(view.stack, ready))
        },
    }),
};

/// Condition type: the database accepts connections.
pub(in crate::plan) const DATABASE_READY: &str = "DatabaseReady";

pub(in crate::plan) const PORT: i32 = 5432;
/// The user `postgres` in the public image.
pub(in crate::plan) const USER: i64 = 999;
/// Name of the database.
pub(in crate::plan) const DATABASE: &str = "shortener";

/// Returns the references to the Secrets of a database that the operator does not run.
fn external(spec: &ShortenerStackSpec, stack: &str) -> Option<ExternalReference> {
    if let Some(cluster) = &spec.database.cloud_native_pg {
        return Some(cloud_native_pg::reference(cluster, stack));
    }
    let external = spec.database.external.as_ref()?;
    Some(ExternalReference {
        secret: external.secret_ref.clone(),
        tls: external.tls.as_ref().map(|tls| tls.client.clone()),
        by_parts: false,
    })
}

/// Returns the default requests and limits of the server's container.
fn default_resources() -> ResourceRequirements {
    pod::resources(["100m", "128Mi"], ["2", "512Mi"])
}
