//! A right that the operator lacks (F10) is named by the part that needs it and holds up nothing else, and the part goes
//! on once the right is back.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::ConfigMap,
    rbac::v1::{ClusterRole, PolicyRule},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use shortener_e2e::{
    OPERATOR_NAMESPACE, Operator, Space, Stack, await_condition, is_allowed, with_env,
};

use crate::alone;

const VARIABLE: &str = "E2E_RIGHTS";

#[tokio::test]
async fn a_right_that_is_missing_is_named_and_holds_up_nothing_else() -> Result<()> {
    let _alone = alone().await?;
    Space::with("rights", async |space| {
        let stack = space.apply_echo(json!({"stopped": true})).await?;
        stack.until("Ready", "False").await?;
        let operator = Operator::find(&space.client).await?;
        let rights = Rights::of(&space.client, &operator).await?;
        let outcome = without_a_right(space, &stack, &rights).await;
        // The next tests need the right, whatever becomes of this one.
        rights.give_back().await?;
        outcome?;
        await_condition("the Deployment of the app has the edit", async || {
            ensure!(has_edit(space).await?, "it lacks {VARIABLE}");
            stack.current("Degraded", "False").await.map(|_| ())
        })
        .await
    })
    .await
}

async fn without_a_right(space: &Space, stack: &Stack, rights: &Rights) -> Result<()> {
    rights.take("deployments", "patch").await?;
    let env = json!([{"name": VARIABLE, "value": "edited"}]);
    stack.edit(json!({"app": with_env("app", &env)})).await?;
    let refused = stack.until_reason("AppReady", "False", "Forbidden").await?;
    println!("{}", refused.message);
    for part in ["acme-app", "patch", "deployments"] {
        ensure!(
            refused.message.contains(part),
            "{part} is not named: {}",
            refused.message
        );
    }
    stack.current("Degraded", "True").await?;
    ensure!(!has_edit(space).await?, "the Deployment has the edit");
    let config_maps = Api::<ConfigMap>::namespaced(space.client.clone(), &space.name);
    config_maps
        .delete("acme-gateway", &DeleteParams::default())
        .await?;
    await_condition("the gateway is repaired meanwhile", async || {
        config_maps.get("acme-gateway").await?;
        Ok(())
    })
    .await
}

async fn has_edit(space: &Space) -> Result<bool> {
    let deployments = Api::<Deployment>::namespaced(space.client.clone(), &space.name);
    let spec = deployments.get("acme-app").await?.spec;
    let pod = spec.and_then(|spec| spec.template.spec);
    let container = pod.and_then(|pod| pod.containers.into_iter().next());
    let env = container.and_then(|container| container.env);
    let mut env = env.unwrap_or_default().into_iter();
    Ok(env.any(|variable| variable.name == VARIABLE))
}

/// The operator's rights, as its chart gives them.
struct Rights {
    client: Client,
    roles: Api<ClusterRole>,
    name: String,
    /// User that the operator is to the API server.
    user: String,
    role: ClusterRole,
}

impl Rights {
    async fn of(client: &Client, operator: &Operator) -> Result<Self> {
        let roles = Api::<ClusterRole>::all(client.clone());
        let account = &operator.service_account;
        Ok(Self {
            client: client.clone(),
            role: roles.get(&operator.name).await?,
            name: operator.name.clone(),
            user: format!("system:serviceaccount:{OPERATOR_NAMESPACE}:{account}"),
            roles,
        })
    }

    /// Takes a right away and waits until the API server knows it.
    async fn take(&self, resource: &str, verb: &str) -> Result<()> {
        let mut rules = self.role.rules.clone().context("the role has no rules")?;
        let about = |rule: &PolicyRule| {
            let mut resources = rule.resources.iter().flatten();
            resources.any(|name| name == resource)
        };
        for rule in rules.iter_mut().filter(|rule| about(rule)) {
            rule.verbs.retain(|known| known != verb);
        }
        self.patch(json!({"rules": rules})).await?;
        let question = json!({
            "user": self.user,
            "resourceAttributes": {"group": "apps", "resource": resource, "verb": verb},
        });
        await_condition("the right is gone", async || {
            let allowed = is_allowed(&self.client, &question).await?;
            ensure!(!allowed, "the operator may still {verb} {resource}");
            Ok(())
        })
        .await
    }

    /// Gives every right back. The owners of the fields are those of before as well: a field that a test owns is in the
    /// way of the next upgrade of the chart.
    async fn give_back(&self) -> Result<()> {
        self.patch(json!({"rules": self.role.rules})).await?;
        let owners = &self.role.metadata.managed_fields;
        self.patch(json!({"metadata": {"managedFields": owners}}))
            .await
    }

    async fn patch(&self, change: Value) -> Result<()> {
        self.roles
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .with_context(|| format!("cannot edit ClusterRole {}", self.name))?;
        Ok(())
    }
}
