//! Allowed and denied connections, on a network that enforces NetworkPolicies.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use shortener_e2e::{
    Provider, SharedStack, Space, observed_stack, pods_of, real_stack, run_script,
};

/// Specification: 4.3, 7.
#[tokio::test]
async fn a_foreign_pod_reaches_neither_app_nor_database_behind_ingress_nginx() -> Result<()> {
    let shared = real_stack(Provider::IngressNginx).await?;
    Space::with("foreign", async |space| {
        let mut closed = inner_endpoints(&shared).await?;
        closed.push(service(&shared, "gateway", 80));
        probe(space, "stranger", json!({}), &closed, &[]).await
    })
    .await
}

/// Specification: 4.3, 7.
#[tokio::test]
async fn a_foreign_pod_reaches_a_standalone_gateway_and_nothing_behind_it() -> Result<()> {
    let shared = real_stack(Provider::Standalone).await?;
    let open = [service(&shared, "gateway", 80)];
    Space::with("foreign", async |space| {
        let closed = inner_endpoints(&shared).await?;
        probe(space, "stranger", json!({}), &closed, &open).await
    })
    .await
}

#[tokio::test]
async fn pods_of_another_stack_count_as_foreign() -> Result<()> {
    let shared = real_stack(Provider::Standalone).await?;
    let closed = inner_endpoints(&shared).await?;
    for component in ["app", "gateway"] {
        let labels = json!({
            "app.kubernetes.io/name": "shortener",
            "app.kubernetes.io/instance": "another",
            "app.kubernetes.io/component": component,
        });
        let name = format!("another-{component}-{}", std::process::id());
        let neighbour = async |space: &Space| probe(space, &name, labels, &closed, &[]).await;
        shared.space.check(neighbour).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_foreign_pod_reaches_neither_cache_nor_broker_nor_vector_store_nor_collector()
-> Result<()> {
    // The stack is reserved, so no other test stops a store, which would refuse connections then.
    let (shared, _reservation) = observed_stack().await?;
    let mut closed = Vec::new();
    closed.extend(endpoints_of(&shared, "cache", &[6379]).await?);
    closed.extend(endpoints_of(&shared, "rabbitmq", &[5672, 15672, 15692]).await?);
    // No client, not even a worker, needs the ports of Erlang's distribution.
    closed.push(format!("{} 25672", pod_address(&shared, "rabbitmq").await?));
    closed.push(format!("{} 9090", pod_address(&shared, "worker").await?));
    closed.extend(endpoints_of(&shared, "qdrant", &[6333, 6334]).await?);
    closed.extend(endpoints_of(&shared, "otel", &[4317, 4318, 8888]).await?);
    Space::with("foreign", async |space| {
        probe(space, "stranger", json!({}), &closed, &[]).await
    })
    .await
}

/// Returns the ports of a component, by Service and by pod.
async fn endpoints_of(shared: &SharedStack, component: &str, ports: &[u16]) -> Result<Vec<String>> {
    let address = pod_address(shared, component).await?;
    let endpoints = ports.iter().flat_map(|port| {
        [
            service(shared, component, *port),
            format!("{address} {port}"),
        ]
    });
    Ok(endpoints.collect())
}

/// Returns every port behind the gateway, by Service and by pod.
async fn inner_endpoints(shared: &SharedStack) -> Result<Vec<String>> {
    let mut endpoints = vec![
        service(shared, "app", 3000),
        service(shared, "postgres", 5432),
    ];
    for (component, port) in [("app", 3000), ("app", 9090), ("postgres", 5432)] {
        let address = pod_address(shared, component).await?;
        endpoints.push(format!("{address} {port}"));
    }
    Ok(endpoints)
}

fn service(shared: &SharedStack, component: &str, port: u16) -> String {
    let (name, namespace) = (&shared.stack.name, &shared.stack.namespace);
    format!("{name}-{component}.{namespace}.svc {port}")
}

async fn pod_address(shared: &SharedStack, component: &str) -> Result<String> {
    let pod = pods_of(&shared.stack, component).await?.into_iter().next();
    let pod = pod.with_context(|| format!("the {component} has no pod"))?;
    let name = pod.name_any();
    pod.status
        .and_then(|status| status.pod_ip)
        .with_context(|| format!("pod {name} has no address"))
}

/// Tries to open each connection from a new pod. A policy causes silence: a name that does not resolve, or a server that does
/// not listen and so refuses, would prove nothing. A refusal is asked again: kube-proxy refuses as well, while no pod of a
/// Service is ready.
async fn probe(
    space: &Space,
    name: &str,
    labels: Value,
    closed: &[String],
    open: &[String],
) -> Result<()> {
    let names: Vec<String> = closed.iter().chain(open).cloned().collect();
    let script = format!(
        "probe() {{
            if [[ $1 == *.svc ]] && ! getent hosts $1 >/dev/null; then echo \"$1 $2 unresolved\"; return; fi
            for _ in 1 2 3 4 5; do
                timeout 4 bash -c \"exec 3<>/dev/tcp/$1/$2\" 2>/dev/null
                case $? in 0) echo \"$1 $2 open\"; return ;; 124) echo \"$1 $2 closed\"; return ;; esac
                sleep 2
            done
            echo \"$1 $2 refused\"
        }}
        {}
        wait",
        names
            .iter()
            .map(|endpoint| format!("probe {endpoint} &\n"))
            .collect::<String>()
    );
    let printed = run_script(space, name, labels, &script).await?;
    for (endpoints, state) in [(closed, "closed"), (open, "open")] {
        for endpoint in endpoints {
            let line = format!("{endpoint} {state}");
            ensure!(
                printed.lines().any(|found| found == line),
                "expected {line:?} in:\n{printed}"
            );
        }
    }
    Ok(())
}
