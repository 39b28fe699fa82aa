//! A user who may edit stacks, and nothing else, gets no rights and no Secrets of others by the operator.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret, rbac::v1::RoleBinding};
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use shortener_e2e::{Operator, Provider, Space, Stack, await_condition, echo_spec, is_allowed};

const USER: &str = "e2e-editor";
const LABEL: &str = "shortener.dev/usable-by-stacks";
const VICTIM: &str = "victim";

/// Returns the client of a user who has the chart's role for editing stacks in the namespace.
async fn editor(space: &Space) -> Result<Client> {
    let operator = Operator::find(&space.client).await?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": USER},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": format!("{}-stacks-edit", operator.name),
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    }))?;
    Api::<RoleBinding>::namespaced(space.client.clone(), &space.name)
        .create(&PostParams::default(), &binding)
        .await?;
    let mut config = Config::infer().await?;
    config.auth_info.impersonate = Some(USER.to_owned());
    // The API server reads bindings from a cache, so a new one counts only some moments later.
    let right = json!({
        "verb": "patch", "group": "shortener.dev", "resource": "shortenerstacks",
        "namespace": space.name,
    });
    let question = json!({"user": USER, "resourceAttributes": right});
    await_condition("the user may edit stacks", async || {
        ensure!(is_allowed(&space.client, &question).await?, "not yet");
        Ok(())
    })
    .await?;
    Ok(Client::try_from(config)?)
}

/// Creates a Secret that nobody has labelled.
async fn create_victim(space: &Space) -> Result<Api<Secret>> {
    let secrets = Api::<Secret>::namespaced(space.client.clone(), &space.name);
    let victim = serde_json::from_value(json!({
        "metadata": {"name": VICTIM}, "stringData": {"api-key": "k".repeat(32)},
    }))?;
    secrets.create(&PostParams::default(), &victim).await?;
    Ok(secrets)
}

/// Starts a stack of the editor.
async fn edited(space: &Space, provider: Provider) -> Result<(Stack, Stack)> {
    space.unused_database().await?;
    let editor = editor(space).await?;
    let secrets = Api::<Secret>::namespaced(editor.clone(), &space.name);
    let listed = secrets.list(&ListParams::default()).await;
    ensure!(
        listed.is_err(),
        "the user reads Secrets without the operator"
    );
    let (theirs, stack) = (
        Stack::new(&editor, &space.name, "acme"),
        space.stack("acme"),
    );
    theirs.apply(&echo_spec(space, provider)).await?;
    stack.ready().await?;
    Ok((theirs, stack))
}

/// Returns a container with these fields that complies with the namespace's level.
fn container(mut fields: Value) -> Value {
    fields["name"] = json!("mine");
    fields["image"] = json!("mine:1");
    fields["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    fields
}

/// Returns changes of a pod that an editor may not make, with the reason. The last one reads the Secret.
fn changes() -> Vec<(Value, &'static str)> {
    let token = json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}});
    let volume = |mut volume: Value| {
        volume["name"] = json!("mine");
        json!({"volumes": [volume]})
    };
    let group = json!({"envFrom": [{"secretRef": {"name": VICTIM}}]});
    vec![
        (
            json!({"serviceAccountName": "default"}),
            "PodTemplateRefused",
        ),
        (volume(token), "PodTemplateRefused"),
        (
            volume(json!({"hostPath": {"path": "/"}})),
            "PodTemplateRefused",
        ),
        (
            json!({"containers": [{"name": "nginx", "securityContext": {"privileged": true}}]}),
            "PodTemplateRefused",
        ),
        (json!({"containers": [container(group)]}), "SecretNotUsable"),
        (
            volume(json!({"secret": {"secretName": VICTIM}})),
            "SecretNotUsable",
        ),
    ]
}

#[tokio::test]
async fn no_pod_template_of_an_editor_has_the_rights_or_secrets_of_others() -> Result<()> {
    Space::with("deputy", async |space| {
        let (theirs, stack) = edited(space, Provider::IngressNginx).await?;
        let secrets = create_victim(space).await?;
        let deployments = Api::<Deployment>::namespaced(space.client.clone(), &space.name);
        let before = deployments.get("acme-gateway").await?.spec;
        for (change, reason) in changes() {
            let template = json!({"gateway": {"podTemplate": {"spec": change}}});
            theirs
                .edit(json!({"gateway": {"podTemplate": null}}))
                .await?;
            theirs.edit(template).await?;
            let refused = stack.until_reason("Degraded", "True", reason).await?;
            println!("{}", refused.message);
            let after = deployments.get("acme-gateway").await?.spec;
            ensure!(after == before, "the pods have {change}");
        }
        // The last change of the table reads the Secret, whose owner now admits it.
        let label = json!({"metadata": {"labels": {LABEL: "true"}}});
        let now = PatchParams::default();
        secrets.patch(VICTIM, &now, &Patch::Merge(label)).await?;
        await_condition("the pods have the volume", async || {
            let live = deployments.get("acme-gateway").await?.spec;
            let pod = live.and_then(|spec| spec.template.spec).context("no pod")?;
            let mut volumes = pod.volumes.iter().flatten();
            ensure!(volumes.any(|volume| volume.name == "mine"), "they lack it");
            Ok(())
        })
        .await?;
        stack.ready().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn no_probe_of_an_editor_sends_a_secret_or_goes_elsewhere() -> Result<()> {
    Space::with("deputy-probe", async |space| {
        let (theirs, stack) = edited(space, Provider::Standalone).await?;
        create_victim(space).await?;
        let probe = async |probe: Value| {
            theirs
                .edit(json!({"gateway": {"endToEndProbe": probe}}))
                .await
        };
        probe(json!({"intervalSeconds": 30, "keySecretRef": {"name": VICTIM}})).await?;
        stack
            .until_reason("EndToEnd", "False", "SecretNotUsable")
            .await?;
        let elsewhere = format!("http://acme-app.{}.svc:3000", space.name);
        probe(json!({"keySecretRef": null, "probeUrl": elsewhere})).await?;
        stack
            .until_reason("EndToEnd", "False", "AddressNotAllowed")
            .await?;
        stack.until("Ready", "True").await?;
        Ok(())
    })
    .await
}
