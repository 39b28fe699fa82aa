//! Questions to the API server about the rights of a user.

use anyhow::Result;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

/// Returns what the API server answers to a spec of a `SubjectAccessReview`.
pub async fn is_allowed(client: &Client, question: &Value) -> Result<bool> {
    let review = serde_json::from_value(json!({"spec": question}))?;
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
