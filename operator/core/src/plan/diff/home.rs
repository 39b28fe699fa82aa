//! Where the data of a store is, as the app's environment names it.

use std::fmt::{Display, Formatter};

use serde_json::Value;

use super::ChildName;
use crate::model::{
    cloud_native_pg,
    kinds::data_name,
    metadata::{Component, component_name},
    rabbitmq_cluster,
};

/// The object with the data of a store.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Home {
    /// The servers; for an external store, the Secret with their address.
    pub(super) holder: ChildName,
    /// Key of the address in that Secret.
    key: Option<String>,
}

impl Display for Home {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        self.holder.fmt(formatter)?;
        match &self.key {
            Some(key) => write!(formatter, " (key {key})"),
            None => Ok(()),
        }
    }
}

/// Returns where the data of a store is that the app of a stack uses. The address of another server, such as a proxy's, tells
/// nothing.
pub(super) fn home(stack: &str, store: Component, app: &Value) -> Option<Home> {
    let settings = match store {
        Component::Postgres => ["DATABASE_URL", "DATABASE_HOST"],
        Component::Rabbitmq => ["QUEUE_URL", "QUEUE_HOST"],
        Component::Qdrant => ["VECTOR_URL", "VECTOR_HOST"],
        _ => return None,
    };
    let containers = app.pointer("/spec/template/spec/containers")?.as_array()?;
    let app = containers
        .iter()
        .find(|container| container["name"] == "app")?;
    let variables = app["env"].as_array()?;
    let address = settings.iter().find_map(|setting| {
        let mut variables = variables.iter();
        variables.find(|variable| variable["name"] == *setting)
    })?;
    if let Some(url) = address["value"].as_str() {
        let holder = ChildName {
            kind: "StatefulSet".to_owned(),
            name: component_name(stack, store),
        };
        return url
            .contains(&format!("//{}:", holder.name))
            .then_some(Home { holder, key: None });
    }
    let reference = &address["valueFrom"]["secretKeyRef"];
    let secret = reference["name"].as_str()?;
    Some(match servers(stack, store, secret) {
        Some(holder) => Home { holder, key: None },
        None => Home {
            holder: ChildName {
                kind: "Secret".to_owned(),
                name: secret.to_owned(),
            },
            key: reference["key"].as_str().map(str::to_owned),
        },
    })
}

/// Returns the servers that another operator runs for a store of the stack, if it makes this Secret for them.
fn servers(stack: &str, store: Component, secret: &str) -> Option<ChildName> {
    let made = [
        (cloud_native_pg::RUNNER.kind, cloud_native_pg::secret(stack)),
        (
            rabbitmq_cluster::RUNNER.kind,
            rabbitmq_cluster::reference(stack).secret.name,
        ),
    ];
    let (kind, _) = made.into_iter().find(|(_, made)| made == secret)?;
    Some(ChildName {
        kind: kind.to_owned(),
        name: data_name(kind, stack, store)?,
    })
}
