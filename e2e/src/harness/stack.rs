//! A `ShortenerStack`, as a user sees it with kubectl.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::FORCE_DISABLE;

use crate::harness::await_condition;

/// A condition in a status, without its time, because a test may write one there that does not parse.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The cause in one word.
    pub reason: String,
    /// The cause in sentences.
    pub message: String,
    /// The generation that it describes.
    pub observed_generation: Option<i64>,
}

/// Returns the API resource of the stacks.
pub fn stack_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("shortener.dev", "v1alpha1", "ShortenerStack");
    ApiResource::from_gvk_with_plural(&kind, "shortenerstacks")
}

#[derive(Clone)]
pub struct Stack {
    pub name: String,
    pub namespace: String,
    pub client: Client,
    /// The stacks of the namespace.
    pub api: Api<DynamicObject>,
}

impl Stack {
    /// Returns the stack of this name, even if it does not exist.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            client: client.clone(),
            api: Api::namespaced_with(client.clone(), namespace, &stack_resource()),
        }
    }

    /// Creates or updates the stack.
    pub async fn apply(&self, spec: &Value) -> Result<()> {
        self.apply_annotated(spec, json!({})).await
    }

    /// Creates or updates the stack with the annotation that switches the queue off at once. A stopped stack needs it:
    /// the number of jobs that are left is not known without a broker.
    pub async fn apply_undrained(&self, spec: &Value) -> Result<()> {
        self.apply_annotated(spec, json!({FORCE_DISABLE: "queue"}))
            .await
    }

    async fn apply_annotated(&self, spec: &Value, annotations: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerStack",
            "metadata": {"name": self.name, "annotations": annotations},
            "spec": spec,
        });
        let parameters = PatchParams::apply("e2e").force().validation_strict();
        self.api
            .patch(&self.name, &parameters, &Patch::Apply(object))
            .await
            .with_context(|| format!("cannot apply stack {}", self.name))?;
        Ok(())
    }

    /// Edits the spec by a merge patch.
    pub async fn edit(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.api
            .patch(&self.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Deletes the stack and waits until its object is gone.
    pub async fn delete(&self) -> Result<()> {
        self.api
            .delete(&self.name, &DeleteParams::background())
            .await?;
        await_condition("the stack is gone", async || {
            ensure!(
                self.api.get_opt(&self.name).await?.is_none(),
                "the stack still exists"
            );
            Ok(())
        })
        .await
    }

    /// Returns the live object.
    pub async fn get(&self) -> Result<DynamicObject> {
        Ok(self.api.get(&self.name).await?)
    }

    /// Returns a value of a Secret in the stack's namespace.
    pub async fn credential(&self, secret: &str, key: &str) -> Result<String> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let data = secrets.get(secret).await?.data.unwrap_or_default();
        let value = data.get(key);
        let value = value.with_context(|| format!("Secret {secret} has no {key}"))?;
        Ok(String::from_utf8(value.0.clone())?)
    }

    /// Waits until a condition has this status for the current generation, and returns the condition.
    pub async fn until(&self, kind: &str, status: &str) -> Result<Condition> {
        let what = format!("stack {} shows {kind}={status}", self.name);
        await_condition(&what, async || self.current(kind, status).await).await
    }

    /// Waits until a condition has this status and reason for the current generation, and returns the condition.
    pub async fn until_reason(&self, kind: &str, status: &str, reason: &str) -> Result<Condition> {
        let what = format!("stack {} shows {kind}={status}, reason {reason}", self.name);
        await_condition(&what, async || {
            let condition = self.current(kind, status).await?;
            ensure!(condition.reason == reason, "{}", shown(&condition));
            Ok(condition)
        })
        .await
    }

    /// Returns the condition if it has this status for the current generation.
    pub async fn current(&self, kind: &str, status: &str) -> Result<Condition> {
        let object = self.get().await?;
        let condition = condition_of(&object, kind)?;
        let generation = object.metadata.generation;
        if condition.status != status || condition.observed_generation != generation {
            bail!(
                "{} (the stack has generation {generation:?})",
                shown(&condition)
            );
        }
        Ok(condition)
    }

    /// Waits until the stack is ready, and every component as well: `Ready` alone says that requests are served. A backup may
    /// be due once a year.
    pub async fn ready(&self) -> Result<()> {
        self.until("Ready", "True").await?;
        let what = format!("every component of stack {} is ready", self.name);
        await_condition(&what, async || {
            let object = self.get().await?;
            let generation = object.metadata.generation;
            for condition in conditions_of(&object)? {
                let component =
                    condition.kind.ends_with("Ready") && condition.kind != "BackupReady";
                let ready =
                    condition.status == "True" && condition.observed_generation == generation;
                ensure!(ready || !component, "{}", shown(&condition));
            }
            Ok(())
        })
        .await
    }
}

/// Returns the condition of this type.
pub fn condition_of(stack: &DynamicObject, kind: &str) -> Result<Condition> {
    conditions_of(stack)?
        .into_iter()
        .find(|condition| condition.kind == kind)
        .with_context(|| format!("the stack has no condition {kind} yet"))
}

/// Returns every condition of a stack.
pub fn conditions_of(stack: &DynamicObject) -> Result<Vec<Condition>> {
    let conditions = stack.data.pointer("/status/conditions");
    let conditions = conditions.context("the stack has no conditions yet")?;
    Ok(serde_json::from_value(conditions.clone())?)
}

fn shown(condition: &Condition) -> String {
    let Condition {
        kind,
        status,
        reason,
        message,
        observed_generation,
    } = condition;
    format!("{kind}={status}, reason {reason}, generation {observed_generation:?}: {message}")
}
