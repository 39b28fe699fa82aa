//! The pooler before the database that CloudNativePG runs: many programs share few sessions of the server.

use k8s_openapi::{
    api::core::v1::{
        Container, Lifecycle, LifecycleHandler, PodSpec, PodTemplateSpec, SleepAction,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use serde_json::{Map, Value, json};

use super::connections;
use crate::{
    api::ShortenerStack,
    model::{
        cloud_native_pg,
        metadata::Component,
        pooler::{Pooler, PoolerSpec, name, selector},
        stack::{StorePooler, ValidatedStack},
    },
    plan::{
        objects::{deployment, pod},
        verdict::View,
    },
};

/// Container of CloudNativePG's that runs PgBouncer.
const CONTAINER: &str = "pgbouncer";
/// Seconds for which a pod that ends accepts connections, until the cluster sends it none.
const LEAVING: i64 = 5;

/// Returns the pooler that a stack asks for, if it asks for one.
pub(in crate::plan) fn wanted(stack: &ShortenerStack) -> Option<StorePooler> {
    let cluster = stack.spec.database.cloud_native_pg.as_deref()?;
    let wanted = cluster.pooler.as_ref()?;
    Some(StorePooler {
        instances: wanted.instances,
    })
}

/// Returns the Pooler of a stack. CloudNativePG fills in everything that is not here, such as the image, the certificate of
/// the servers, and a login of its own to read the passwords of clients.
pub(in crate::plan) fn build(stack: &ValidatedStack) -> Option<Pooler> {
    let wanted = stack.pooler.as_ref()?;
    let identity = &stack.identity;
    Some(Pooler {
        metadata: identity.child(name(&identity.name), Component::Postgres),
        spec: PoolerSpec {
            fields: spec(stack, wanted),
        },
        status: None,
    })
}

fn spec(stack: &ValidatedStack, wanted: &StorePooler) -> Map<String, Value> {
    let spec = json!({
        "cluster": {"name": cloud_native_pg::name(&stack.identity.name)},
        "type": "rw",
        "instances": if stack.stopped { 0 } else { wanted.instances },
        // The sessions of the server are shared with one pod more. The default, a quarter, is two of them from five pods on.
        "deploymentStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": connections::POOLER_SURGE, "maxUnavailable": 0},
        },
        "pgbouncer": {"poolMode": "transaction", "parameters": parameters(stack, wanted)},
        "template": template(stack),
    });
    match spec {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns the settings of PgBouncer, all of which are text.
fn parameters(stack: &ValidatedStack, wanted: &StorePooler) -> Value {
    json!({
        "client_tls_sslmode": "require",
        "default_pool_size": connections::sessions(stack, wanted.instances).to_string(),
        "max_client_conn": connections::OF_POOLER.to_string(),
        // More than the statements that a program prepares on a connection.
        "max_prepared_statements": "200",
        // The programs wait no longer for a statement.
        "query_wait_timeout": "5",
        // A server that takes over is found at once, and one whose node is gone is noticed (seconds, the last one in ms).
        "server_connect_timeout": "5",
        "server_login_retry": "1",
        "tcp_keepcnt": "3",
        "tcp_keepidle": "5",
        "tcp_keepintvl": "5",
        "tcp_user_timeout": "10000",
    })
}

/// Returns the template of the pods, which run where the app's run, and leave a node that does not answer as early as these.
/// CloudNativePG makes them fit the Pod Security Standard `restricted`.
fn template(stack: &ValidatedStack) -> PodTemplateSpec {
    let container = Container {
        name: CONTAINER.to_owned(),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction { seconds: LEAVING }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        // PgBouncer uses one core, and the memory is enough for every connection that it accepts.
        resources: Some(pod::resources(["50m", "64Mi"], ["1", "256Mi"])),
        ..Container::default()
    };
    let spec = PodSpec {
        containers: vec![container],
        topology_spread_constraints: Some(pod::spread_over(&pods(stack))),
        ..PodSpec::default()
    };
    let mut template = pod::placed_as_the_app(
        stack,
        PodTemplateSpec {
            metadata: None,
            spec: Some(spec),
        },
    );
    if let Some(pod) = &mut template.spec {
        deployment::leave_early(pod.tolerations.get_or_insert_default());
    }
    template
}

/// Returns the selector of the pods of a stack's pooler.
pub(in crate::plan) fn pods(stack: &ValidatedStack) -> LabelSelector {
    selector(&stack.identity.name)
}

/// Returns why the pooler of a stack does not run, if CloudNativePG reports that.
pub(super) fn problem(view: View<'_>) -> Option<String> {
    view.stack.pooler.as_ref()?;
    let name = name(&view.stack.identity.name);
    let live = view.live.pooler.as_deref();
    let problem = live.and_then(Pooler::problem)?;
    Some(format!(
        "Pooler {name} does not run as the stack asks: {problem}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::pod_patch::PodPatch,
        testing::{golden, stack::minimal_stack},
    };

    fn pooled(pooler: Value) -> ValidatedStack {
        minimal_stack().cloud_native_pg(json!({"pooler": pooler}))
    }

    #[test]
    fn a_pooler_of_few_fields() {
        golden("pooler", &build(&pooled(json!({}))));
        assert_eq!(build(&minimal_stack().cloud_native_pg(json!({}))), None);
    }

    #[test]
    fn its_pods_stop_with_the_stack() {
        let instances =
            |stack: &ValidatedStack| build(stack).unwrap().spec.fields["instances"].clone();
        let pooled = pooled(json!({"instances": 3}));
        assert_eq!(instances(&pooled), 3);
        assert_eq!(instances(&pooled.stopped()), 0);
    }

    #[test]
    fn its_pods_run_where_the_app_runs() {
        let mut stack = pooled(json!({}));
        let dedicated = json!({"key": "team", "value": "links", "effect": "NoSchedule"});
        let template = json!({"spec": {
            "nodeSelector": {"pool": "links"}, "hostname": "x", "tolerations": [dedicated],
        }});
        let patch = PodPatch::read(template.as_object().unwrap()).unwrap();
        stack.pod_templates.insert(Component::App, patch);
        let spec = &build(&stack).unwrap().spec.fields["template"]["spec"];
        assert_eq!(spec["nodeSelector"], json!({"pool": "links"}));
        assert_eq!(spec["hostname"], Value::Null);
        let tolerations = spec["tolerations"].as_array().unwrap();
        assert_eq!((tolerations.len(), &tolerations[0]), (3, &dedicated));
    }
}
