//! The objects of a move: the managed database without writes, and the import into the Cluster.

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PodTemplateSpec};
use serde_json::{Map, Value, json};

use crate::{
    model::{
        cloud_native_pg::SOURCE,
        credentials::PASSWORD_KEY,
        facts::{READ_ONLY, SERVER},
        metadata::{Component, component_name},
        stack::{MoveStep, ValidatedStack},
    },
    plan::stores::{common::with_template, postgres::DATABASE},
};

/// Adds the import of the managed database to the spec of a Cluster.
pub(in crate::plan::stores::postgres) fn add_import(
    spec: &mut Map<String, Value>,
    stack: &ValidatedStack,
) {
    let Some(moving) = &stack.database_move else {
        return;
    };
    let server = component_name(&stack.identity.name, Component::Postgres);
    let import = json!({
        "type": "microservice",
        "databases": [DATABASE],
        "source": {"externalCluster": SOURCE},
    });
    // The template may have been edited since it was checked.
    let mut bootstrap = json!({"initdb": {"database": DATABASE, "owner": DATABASE}});
    let own = spec.remove("bootstrap").filter(|own| {
        let initdb = own.get("initdb").is_none_or(Value::is_object);
        own.is_object() && initdb
    });
    if let Some(own) = own {
        json_patch::merge(&mut bootstrap, &own);
    }
    json_patch::merge(&mut bootstrap, &json!({"initdb": {"import": import}}));
    spec.insert("bootstrap".to_owned(), bootstrap);
    let source = json!({
        "name": SOURCE,
        "connectionParameters": {"host": server, "user": moving.username, "dbname": DATABASE},
        "password": {"name": server, "key": PASSWORD_KEY},
    });
    let sources = spec.entry("externalClusters").or_insert_with(|| json!([]));
    if let Some(sources) = sources.as_array_mut() {
        sources.push(source);
    }
}

/// Returns the StatefulSet of the managed database while its links move: as it is, but without writes. Its settings are no
/// longer in the spec.
pub(in crate::plan) fn stateful_set(stack: &ValidatedStack) -> Option<StatefulSet> {
    let moving = stack.database_move.as_ref()?;
    let live = moving.server.as_ref()?.spec.as_ref()?;
    let replicas = match moving.step {
        MoveStep::Freezing | MoveStep::Importing | MoveStep::Comparing => !stack.stopped,
        MoveStep::Stopping => false,
        // It stays as it is until the programs have the Cluster, and then it goes.
        MoveStep::Switching => return None,
    };
    let template = frozen(live.template.clone());
    let component = Component::Postgres;
    Some(with_template(
        &stack.identity,
        component,
        replicas.into(),
        template,
    ))
}

/// Returns the pod template of a server that takes no writes. Only the password of the Secret is still set.
fn frozen(mut template: PodTemplateSpec) -> PodTemplateSpec {
    let pod = template.spec.iter_mut();
    let mut containers = pod.flat_map(|pod| &mut pod.containers);
    let Some(server) = containers.find(|container| container.name == SERVER) else {
        return template;
    };
    let arguments = server.args.get_or_insert_default();
    if arguments.iter().any(|argument| argument == READ_ONLY) {
        return template;
    }
    arguments.extend(["-c", READ_ONLY].map(str::to_owned));
    let start = server
        .lifecycle
        .as_mut()
        .and_then(|lifecycle| lifecycle.post_start.as_mut());
    let command = start.and_then(|start| start.exec.as_mut()?.command.as_mut()?.last_mut());
    if let Some(script) = command {
        let writes = "export PGOPTIONS='-c default_transaction_read_only=off'\n";
        script.insert_str(0, writes);
    }
    template
}
