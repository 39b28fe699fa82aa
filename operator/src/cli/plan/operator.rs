//! The settings of the operator in the cluster, which fill in what a stack leaves open. They are read from the flags and
//! the variables of its Deployment.

use std::collections::BTreeMap;

use clap::CommandFactory;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::PlanError;
use crate::cli::{Cli, Command, settings::Settings};

/// Labels of the operator's Deployment in the chart.
const OPERATOR: &str = "app.kubernetes.io/name=shortener-operator";
/// Namespace of the operator where none is known.
const UNKNOWN: &str = "shortener-system";

/// Returns the settings of the operator of a class, which is empty if the stack has none, and a note if they had to be guessed.
pub(super) async fn settings(
    client: &Client,
    namespace: Option<&str>,
    class: &str,
) -> Result<(Settings, Option<String>), PlanError> {
    let deployments: Api<Deployment> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let found = deployments
        .list(&ListParams::default().labels(OPERATOR))
        .await;
    let reason = match found {
        Ok(list) if list.items.is_empty() => format!("no Deployment has the label {OPERATOR}"),
        Ok(list) => {
            let read = list.items.iter().filter_map(of_deployment);
            let read: Vec<Settings> = read.filter_map(Result::ok).collect();
            let are_read = read.len() == list.items.len();
            match read.into_iter().find(|found| found.operator_class == class) {
                Some(settings) => return Ok((settings, None)),
                None if are_read => format!("no Deployment has the class {class:?} of the stack"),
                None => "the settings of its Deployment cannot be read".to_owned(),
            }
        }
        Err(error) => format!("its Deployment cannot be read: {error}"),
    };
    let note = format!(
        "the settings of the operator are unknown ({reason}), so those of this release are used: default images and allowed peers may differ (--operator-namespace)"
    );
    Ok((of_this_release()?, Some(note)))
}

/// Returns the settings of an operator of this release without flags.
pub(super) fn of_this_release() -> Result<Settings, PlanError> {
    let settings = parse(Vec::new(), UNKNOWN);
    settings.map_err(|error| format!("cannot use the settings of the operator: {error}").into())
}

/// Returns the settings of an operator with these arguments.
fn parse(arguments: Vec<String>, namespace: &str) -> Result<Settings, clap::Error> {
    let required = [
        "operator".to_owned(),
        "run".to_owned(),
        "--pod-name=plan".to_owned(),
        format!("--pod-namespace={namespace}"),
    ];
    let line = required.into_iter().chain(arguments);
    match Cli::read(line.map(Into::into))?.command {
        Command::Run(settings) => Ok(*settings),
        _ => Err(Cli::command().error(
            clap::error::ErrorKind::InvalidSubcommand,
            "the Deployment does not run the operator",
        )),
    }
}

/// Returns the settings of a Deployment of the operator; `None` if it has no container.
fn of_deployment(deployment: &Deployment) -> Option<Result<Settings, clap::Error>> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let container = pod.containers.first()?;
    let given = container.args.iter().flatten().map(String::as_str);
    let given: Vec<&str> = given.skip_while(|argument| *argument == "run").collect();
    let variables = container.env.iter().flatten();
    let variables: BTreeMap<&str, &str> = variables
        .filter_map(|variable| Some((variable.name.as_str(), variable.value.as_deref()?)))
        .collect();
    let command = Cli::command();
    let flags = command.find_subcommand("run")?.get_arguments();
    let of_variables = flags.filter_map(|flag| {
        let (name, variable) = (flag.get_long()?, flag.get_env()?.to_str()?);
        let value = variables.get(variable)?;
        let flag = format!("--{name}");
        let is_it = |argument: &&str| {
            let rest = argument.strip_prefix(flag.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        let required = name == "pod-name" || name == "pod-namespace";
        let is_given = given.iter().any(is_it);
        (!required && !is_given).then(|| format!("{flag}={value}"))
    });
    let arguments = of_variables.chain(given.iter().map(|argument| (*argument).to_owned()));
    let arguments = arguments.collect();
    Some(parse(
        arguments,
        &deployment.namespace().unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::api_server::{FakeApiServer, Fault};

    fn deployment(name: &str, class: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "operators",
                "labels": {"app.kubernetes.io/name": "shortener-operator"},
            },
            "spec": {"selector": {}, "template": {"spec": {"containers": [{
                "name": "operator",
                "args": ["run", "--gateway-image", "mirror.test/nginx:9"],
                "env": [
                    {"name": "APP_IMAGE", "value": "mirror.test/app:9"},
                    {"name": "GATEWAY_IMAGE", "value": "mirror.test/nginx:8"},
                    {"name": "OPERATOR_SELECTOR", "value": "app=op"},
                    {"name": "RUST_LOG", "value": "info"},
                    {"name": "OPERATOR_CLASS", "value": class},
                    {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                ],
            }]}}},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn the_settings_of_the_operator_in_the_cluster_count() {
        let server = FakeApiServer::default();
        server.create(&deployment("op", "stable"));
        server.create(&deployment("canary", "canary"));
        let (settings, note) = settings(&server.client(), None, "stable").await.unwrap();
        assert_eq!(settings.images.app, "mirror.test/app:9");
        assert_eq!(settings.images.gateway, "mirror.test/nginx:9");
        let peer = serde_json::to_value(settings.operator_peer()).unwrap();
        assert_eq!(peer["podSelector"]["matchLabels"], json!({"app": "op"}));
        let namespaces = &peer["namespaceSelector"]["matchLabels"];
        assert_eq!(namespaces["kubernetes.io/metadata.name"], "operators");
        assert_eq!(note, None);
        assert_eq!(settings.operator_class, "stable");
        let (canary, _) = self::settings(&server.client(), None, "canary")
            .await
            .unwrap();
        assert_eq!(canary.operator_class, "canary");
        let (_, note) = self::settings(&server.client(), None, "").await.unwrap();
        assert!(note.unwrap().contains("the class \"\" of the stack"));
        assert_eq!(server.writes(), []);
    }

    #[tokio::test]
    async fn settings_that_cannot_be_read_are_those_of_the_release_and_a_note_says_so() {
        let server = FakeApiServer::default();
        let (found, note) = settings(&server.client(), None, "").await.unwrap();
        assert_eq!(found.images, of_this_release().unwrap().images);
        assert!(note.unwrap().contains("no Deployment has the label"));
        server.fail_all(Some(Fault::Refuse(403)));
        let (_, note) = settings(&server.client(), Some("ops"), "").await.unwrap();
        assert!(note.unwrap().contains("its Deployment cannot be read"));
    }
}
