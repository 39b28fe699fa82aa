//! The expressions of the chart's admission policies, evaluated without an API server. It alone has the `authorizer`, so
//! that expression is compiled only.

use anyhow::{Context, Result, ensure};
use kube_cel::{AdmissionRequest, VapEvaluator, VapExpression};
use serde_json::{Value, json};

use crate::chart::template;

const AUTHORIZER: &str = "authorizer.";
const ANNOTATION: &str = "shortener.dev/confirm-delete";

/// Returns the expressions in a list of a policy of the chart.
fn expressions(policy: &str, list: &str) -> Result<Vec<VapExpression>> {
    let objects = template("--set admissionPolicies.enabled=true")?;
    let mut policies = objects.into_iter().filter(|object| {
        object["kind"] == "ValidatingAdmissionPolicy" && object["metadata"]["name"] == policy
    });
    let found = policies.next().context("the chart has no such policy")?;
    let list = found["spec"][list].as_array().context("no list")?;
    // The evaluator has no schema, so it takes the keys of annotations for names of fields and escapes them.
    let escaped = |text: &str| {
        text.replace(
            ANNOTATION,
            "shortener__dot__dev__slash__confirm__dash__delete",
        )
    };
    let expression = |item: &Value| VapExpression {
        expression: escaped(item["expression"].as_str().unwrap_or_default()),
        message: None,
        message_expression: None,
    };
    Ok(list.iter().map(expression).collect())
}

fn stack(spec: &Value, annotations: &Value) -> Value {
    json!({"metadata": {"name": "demo", "namespace": "links", "annotations": annotations}, "spec": spec})
}

/// Returns the outcome of each expression; an error is one.
fn outcomes(
    expressions: &[VapExpression],
    object: Option<Value>,
    before: Option<Value>,
    user: &str,
) -> Result<Vec<bool>> {
    let request = AdmissionRequest {
        username: user.to_owned(),
        namespace: "links".to_owned(),
        ..AdmissionRequest::default()
    };
    let mut evaluator = VapEvaluator::builder().request(request);
    if let Some(object) = object {
        evaluator = evaluator.object(object);
    }
    if let Some(before) = before {
        evaluator = evaluator.old_object(before);
    }
    let mut outcomes = Vec::new();
    for result in evaluator.build().evaluate(expressions) {
        let message = result.message.unwrap_or_default();
        let is_false = message.contains("evaluated to false");
        ensure!(
            result.passed || is_false,
            "{}: {message}",
            result.expression
        );
        outcomes.push(result.passed);
    }
    Ok(outcomes)
}

/// Returns specs that choose programs beside those that the operator runs.
fn for_programs_of_others() -> [Value; 3] {
    [
        json!({"gateway": {"auth": {"proxy": {"secretRef": {"name": "x"}}}}}),
        json!({"database": {"cloudNativePG": {"template": {"imageName": "x"}}}}),
        json!({"queue": {"rabbitmqCluster": {"template": {"image": "x"}}}}),
    ]
}

#[test]
fn the_policy_of_pods_concerns_changes_of_programs_secrets_and_places_of_data_alone() -> Result<()>
{
    let conditions = expressions("test-shortener-operator-pods", "matchConditions")?;
    let template = json!({"spec": {"containers": [{"name": "app", "env": []}]}});
    let mut protected =
        vec![json!({"gateway": {"endToEndProbe": {"keySecretRef": {"name": "x"}}}})];
    for component in [
        "app", "gateway", "workers", "database", "cache", "queue", "vector",
    ] {
        for (field, value) in [("image", json!("x")), ("podTemplate", template.clone())] {
            let settings = json!({field: value});
            let is_managed = ["database", "cache", "queue", "vector"].contains(&component);
            let settings = if is_managed {
                json!({"managed": settings})
            } else {
                settings
            };
            protected.push(json!({component: settings}));
        }
    }
    let external = json!({"external": {"secretRef": {"name": "x"}}});
    for part in ["collector", "backend"] {
        protected.push(json!({"observability": {part: {"managed": {"podTemplate": template}}}}));
        protected.push(json!({"observability": {part: external}}));
    }
    for store in ["database", "cache", "queue", "vector"] {
        protected.push(json!({store: external}));
    }
    let s3 = json!({"s3": {"endpoint": "https://s3.test", "secretRef": {"name": "x"}}});
    for field in ["backup", "restoreFrom"] {
        protected.push(json!({"database": {field: s3}}));
    }
    protected.push(json!({"gateway": {"auth": {"secretRef": {"name": "x"}}}}));
    protected.extend(for_programs_of_others());
    protected.push(json!({"links": {"webhooks": [{"name": "x", "secretRef": {"name": "x"}}]}}));
    let other = json!({"app": {"replicas": 3}, "gateway": {"endToEndProbe": {}, "auth": {}}, "database": {"cloudNativePG": {}}});
    let none = json!({});
    let concerns = |object: &Value, before: Option<&Value>| -> Result<bool> {
        let before = before.map(|spec| stack(spec, &none));
        Ok(
            outcomes(&conditions, Some(stack(object, &none)), before, "ann")?
                .iter()
                .all(|is| *is),
        )
    };
    for spec in &protected {
        ensure!(concerns(spec, None)?, "creation: {spec}");
        ensure!(concerns(spec, Some(&other))?, "addition: {spec}");
        ensure!(concerns(&other, Some(spec))?, "removal: {spec}");
        ensure!(!concerns(spec, Some(spec))?, "nothing: {spec}");
    }
    let mut edited = protected[1].clone();
    edited["app"]["image"] = json!("y");
    ensure!(concerns(&edited, Some(&protected[1]))?, "another image");
    edited = protected[1].clone();
    edited["app"]["replicas"] = json!(4);
    ensure!(!concerns(&edited, Some(&protected[1]))?, "another scale");
    ensure!(!concerns(&other, None)? && !concerns(&other, Some(&none))?);
    Ok(())
}

#[test]
fn the_right_of_the_policy_of_pods_compiles() -> Result<()> {
    let validations = expressions("test-shortener-operator-pods", "validations")?;
    ensure!(
        validations
            .iter()
            .all(|one| one.expression.starts_with(AUTHORIZER))
    );
    let evaluator = VapEvaluator::builder().build();
    for compiled in evaluator.compile_expressions(&validations) {
        compiled?;
    }
    Ok(())
}

#[test]
fn data_is_deleted_with_a_confirmation_or_with_its_namespace() -> Result<()> {
    let conditions = expressions("test-shortener-operator-deletion", "matchConditions")?;
    let validations = expressions("test-shortener-operator-deletion", "validations")?;
    let controller = "system:serviceaccount:kube-system:namespace-controller";
    let (none, no, yes) = (
        json!({}),
        json!({ANNOTATION: "false"}),
        json!({ANNOTATION: "true"}),
    );
    let (delete, retain) = (
        json!({"deletionPolicy": "Delete"}),
        json!({"deletionPolicy": "Retain"}),
    );
    for (spec, annotations, user, admitted) in [
        (&delete, &none, "ann", false),
        (&delete, &no, "ann", false),
        (&delete, &yes, "ann", true),
        (&delete, &none, controller, true),
        (&retain, &none, "ann", true),
        (&none, &none, "ann", true),
    ] {
        let before = stack(spec, annotations);
        let concerned = outcomes(&conditions, None, Some(before.clone()), user)?;
        let valid = outcomes(&validations, None, Some(before), user)?;
        let is = !concerned.iter().all(|is| *is) || valid.iter().all(|is| *is);
        ensure!(is == admitted, "{spec} {annotations} {user}");
    }
    Ok(())
}
