//! An operator with a list of namespaces works there with Roles alone; elsewhere it does nothing and may read nothing.

use anyhow::{Result, ensure};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use serde_json::json;
use shortener_e2e::{OPERATOR_NAMESPACE, Operator, Release, Space, conditions_of, is_allowed};

use crate::{alone, appears, unready_stack};

#[tokio::test]
async fn an_operator_with_a_list_of_namespaces_works_there_alone() -> Result<()> {
    let _alone = alone().await?;
    Space::with("outside", async |outside| {
        Space::with("inside", async |inside| {
            let release = Release::installed().await?;
            let list = format!("watchNamespaces={{{}}}", inside.name);
            let outcome = match release.upgrade_with(&list).await {
                Ok(()) => works_there_alone(inside, outside).await,
                Err(error) => Err(error),
            };
            // The next tests need the operator as it was, whatever becomes of this one.
            release.put_back().await?;
            outcome
        })
        .await
    })
    .await
}

async fn works_there_alone(inside: &Space, outside: &Space) -> Result<()> {
    // It is first, so an operator that saw it would write its status before the other's.
    let ignored = unready_stack(outside, "scoped").await?;
    appears(&unready_stack(inside, "scoped").await?).await?;
    let conditions = conditions_of(&ignored.get().await?);
    ensure!(
        conditions.is_err(),
        "the operator wrote {conditions:?} in {}",
        outside.name
    );
    has_roles_alone(inside, outside).await
}

async fn has_roles_alone(inside: &Space, outside: &Space) -> Result<()> {
    let client = &inside.client;
    let operator = Operator::find(client).await?;
    let ours = ListParams::default().labels("app.kubernetes.io/instance=shortener-operator");
    let roles = Api::<ClusterRole>::all(client.clone())
        .list(&ours)
        .await?
        .items
        .len();
    let bindings = Api::<ClusterRoleBinding>::all(client.clone())
        .list(&ours)
        .await?
        .items
        .len();
    ensure!(
        (roles, bindings) == (0, 0),
        "it has {roles} ClusterRoles and {bindings} bindings"
    );
    let user = format!(
        "system:serviceaccount:{OPERATOR_NAMESPACE}:{}",
        operator.service_account
    );
    for (verb, group, resource, space, expected) in [
        ("patch", "apps", "deployments", inside, true),
        ("list", "", "secrets", outside, false),
    ] {
        let place = &space.name;
        let right = json!({"verb": verb, "group": group, "resource": resource, "namespace": place});
        let allowed =
            is_allowed(client, &json!({"user": user, "resourceAttributes": right})).await?;
        ensure!(
            allowed == expected,
            "{verb} {resource} in {place}: {allowed}"
        );
    }
    for pod in operator.running().await? {
        let log = operator
            .pods
            .logs(&pod.name_any(), &LogParams::default())
            .await?;
        let refused = log
            .lines()
            .find(|line| line.to_lowercase().contains("forbidden"));
        ensure!(
            refused.is_none(),
            "the API server refused a request: {refused:?}"
        );
    }
    Ok(())
}
