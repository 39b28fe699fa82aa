//! The settings of the operator in the cluster, which fill in what a stack leaves open. They are read from the flags and
//! the variables of its Deployment.

use std::{collections::BTreeMap, env};

use clap::CommandFactory;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, ResourceExt, api::ListParams};
use shortener_operator_core::api::ShortenerStack;

use super::PlanError;
use crate::{
    cli::{Cli, Command, settings::Settings},
    kubernetes::refusal::sentence,
    reconcile::context::covers,
};

/// Labels of the operator's Deployment in the chart.
const OPERATOR: &str = "app.kubernetes.io/name=shortener-operator";
/// Label of the Deployment with the operator's release.
const RELEASE_LABEL: &str = "app.kubernetes.io/version";
/// The release of this program.
const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// Namespace of the operator where none is known.
const UNKNOWN: &str = "shortener-system";
/// Variables that only the operator's own pod has together.
const OWN_POD: [&str; 3] = ["POD_NAME", "POD_NAMESPACE", "OPERATOR_SELECTOR"];

/// An operator of the cluster.
struct Operator {
    /// Namespace and name of its Deployment.
    title: String,
    /// Its release, if the Deployment tells it.
    release: Option<String>,
    settings: Settings,
}

impl Operator {
    /// Returns true when the operator reconciles the stacks of a class in a namespace.
    fn reconciles(&self, class: &str, namespace: &str) -> bool {
        let mut scopes = self.settings.scopes().into_iter();
        self.settings.operator_class == class
            && scopes.any(|scope| covers(scope.as_deref(), namespace))
    }

    /// Returns a note if the operator is of another release than this program. Default images and pods then differ.
    fn of_another_release(&self) -> Option<String> {
        let release = self.release.as_deref();
        let release = release.filter(|release| *release != RELEASE)?;
        Some(format!(
            "the operator {} is of release {release} and this plan of release {RELEASE}, so images and pods may change here that \
             the operator leaves as they are: run `/operator plan` in its pod",
            self.title
        ))
    }
}

/// Returns the settings of the operator that reconciles a stack, and notes about what is not certain of them.
pub(super) async fn settings(
    client: &Client,
    searched: Option<&str>,
    stack: &ShortenerStack,
) -> Result<(Settings, Vec<String>), PlanError> {
    let deployments: Api<Deployment> = match searched {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let found = deployments
        .list(&ListParams::default().labels(OPERATOR))
        .await;
    let known = match found {
        Ok(list) => of_stack(&list.items, stack),
        Err(error) => Err(format!(
            "its Deployment cannot be read: {}",
            sentence(&error)
        )),
    };
    let reason = match known {
        Ok(known) => return Ok(known),
        Err(reason) => reason,
    };
    let (settings, place) = assumed()?;
    let note = format!(
        "the settings of the operator are unknown ({reason}), so those of {place} are used: default images and allowed peers may differ (--operator-namespace)"
    );
    Ok((settings, vec![note]))
}

/// Returns the settings of that operator which reconciles a stack, with notes; or the reason why there are none.
fn of_stack(
    deployments: &[Deployment],
    stack: &ShortenerStack,
) -> Result<(Settings, Vec<String>), String> {
    if deployments.is_empty() {
        return Err(format!("no Deployment has the label {OPERATOR}"));
    }
    let class = stack.spec.operator_class.as_deref().unwrap_or_default();
    let namespace = stack.namespace().unwrap_or_default();
    let operators: Vec<Operator> = deployments.iter().filter_map(of_deployment).collect();
    let are_read = operators.len() == deployments.len();
    let mut own = operators
        .into_iter()
        .filter(|operator| operator.reconciles(class, &namespace));
    let Some(operator) = own.next() else {
        return Err(match are_read {
            true => format!(
                "no Deployment has the class {class:?} of the stack and watches its namespace"
            ),
            false => "the settings of its Deployment cannot be read".to_owned(),
        });
    };
    let mut notes: Vec<String> = operator.of_another_release().into_iter().collect();
    let others: Vec<String> = own.map(|other| other.title).collect();
    if !others.is_empty() {
        notes.push(format!(
            "the settings are those of the operator {}, and {} reconciles the stack too: choose one with --operator-namespace",
            operator.title,
            others.join(", ")
        ));
    }
    Ok((operator.settings, notes))
}

/// Returns settings where those of the operator are unknown, and the place that they are from.
pub(super) fn assumed() -> Result<(Settings, &'static str), PlanError> {
    let is_own_pod = OWN_POD.iter().all(|name| env::var_os(name).is_some());
    let (settings, place) = if is_own_pod {
        let read = Cli::read(["operator", "run"].map(Into::into));
        (read.and_then(of_run), "this pod's environment")
    } else {
        (parse(Vec::new(), UNKNOWN), "this release")
    };
    match settings {
        Ok(settings) => Ok((settings, place)),
        Err(error) => Err(format!("cannot use the settings of the operator: {error}").into()),
    }
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
    Cli::read_alone(line.map(Into::into)).and_then(of_run)
}

fn of_run(cli: Cli) -> Result<Settings, clap::Error> {
    match cli.command {
        Command::Run(settings) => Ok(*settings),
        _ => Err(Cli::command().error(
            clap::error::ErrorKind::InvalidSubcommand,
            "the Deployment does not run the operator",
        )),
    }
}

/// Returns the operator of a Deployment; `None` if its settings cannot be read.
fn of_deployment(deployment: &Deployment) -> Option<Operator> {
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
    let namespace = deployment.namespace().unwrap_or_default();
    Some(Operator {
        title: format!("{namespace}/{}", deployment.name_any()),
        release: deployment.labels().get(RELEASE_LABEL).cloned(),
        settings: parse(arguments, &namespace).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{
        api_server::{FakeApiServer, Fault},
        shared::stored_stack,
    };

    fn deployment(name: &str, variables: &[(&str, &str)]) -> Deployment {
        let mut env = json!([
            {"name": "APP_IMAGE", "value": "mirror.test/app:9"},
            {"name": "GATEWAY_IMAGE", "value": "mirror.test/nginx:8"},
            {"name": "OPERATOR_SELECTOR", "value": "app=op"},
            {"name": "RUST_LOG", "value": "info"},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ]);
        let further = variables
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}));
        env.as_array_mut().unwrap().extend(further);
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "operators",
                "labels": {"app.kubernetes.io/name": "shortener-operator"},
            },
            "spec": {"selector": {}, "template": {"spec": {"containers": [{
                "name": "operator",
                "args": ["run", "--gateway-image", "mirror.test/nginx:9"],
                "env": env,
            }]}}},
        }))
        .unwrap()
    }

    fn of_class(name: &str, class: &str) -> Deployment {
        deployment(name, &[("OPERATOR_CLASS", class)])
    }

    /// Returns the settings for a stack of a class, and the notes.
    async fn known(server: &FakeApiServer, class: &str) -> (Settings, Vec<String>) {
        let stack = stored_stack(json!({"operatorClass": class}));
        settings(&server.client(), None, &stack).await.unwrap()
    }

    #[tokio::test]
    async fn the_settings_of_the_operator_in_the_cluster_count() {
        let server = FakeApiServer::default();
        server.create(&of_class("op", "stable"));
        server.create(&of_class("canary", "canary"));
        let (settings, notes) = known(&server, "stable").await;
        assert_eq!(settings.images.app, "mirror.test/app:9");
        assert_eq!(settings.images.gateway, "mirror.test/nginx:9");
        let peer = serde_json::to_value(settings.operator_peer()).unwrap();
        assert_eq!(peer["podSelector"]["matchLabels"], json!({"app": "op"}));
        let namespaces = &peer["namespaceSelector"]["matchLabels"];
        assert_eq!(namespaces["kubernetes.io/metadata.name"], "operators");
        assert_eq!(notes, [] as [String; 0]);
        assert_eq!(settings.operator_class, "stable");
        let (canary, _) = known(&server, "canary").await;
        assert_eq!(canary.operator_class, "canary");
        let (_, notes) = known(&server, "").await;
        assert!(
            notes[0].contains("the class \"\" of the stack"),
            "{notes:?}"
        );
        assert_eq!(server.writes(), []);
    }

    #[tokio::test]
    async fn the_operator_of_another_namespace_is_passed_over_and_two_of_one_are_named() {
        let server = FakeApiServer::default();
        let watching = |name: &str, namespaces: &str, image: &str| {
            let variables = [("WATCH_NAMESPACES", namespaces), ("WORKER_IMAGE", image)];
            server.create(&deployment(name, &variables));
        };
        watching("a", "team-a", "worker:a");
        let (_, notes) = known(&server, "").await;
        assert!(notes[0].contains("watches its namespace"), "{notes:?}");
        watching("b", "team-b,links", "worker:b");
        let (settings, notes) = known(&server, "").await;
        assert_eq!(settings.images.worker, "worker:b");
        assert_eq!(notes, [] as [String; 0]);
        watching("c", "", "worker:c");
        let (_, notes) = known(&server, "").await;
        assert!(
            notes[0].contains("operators/b, and operators/c"),
            "{notes:?}"
        );
    }

    #[tokio::test]
    async fn an_operator_of_another_release_is_noted() {
        let server = FakeApiServer::default();
        let mut operator = deployment("op", &[]);
        for (release, is_other) in [(RELEASE, false), ("0.0.1", true)] {
            let labels = operator.metadata.labels.get_or_insert_default();
            labels.insert(RELEASE_LABEL.to_owned(), release.to_owned());
            server.create(&operator);
            let (_, notes) = known(&server, "").await;
            let is_noted = notes.iter().any(|note| note.contains("of release 0.0.1"));
            assert_eq!(is_noted, is_other, "{notes:?}");
        }
    }

    #[tokio::test]
    async fn settings_that_cannot_be_read_are_those_of_the_release_and_a_note_says_so() {
        let server = FakeApiServer::default();
        let (found, notes) = known(&server, "").await;
        assert_eq!(found.images, assumed().unwrap().0.images);
        assert!(
            notes[0].contains("no Deployment has the label"),
            "{notes:?}"
        );
        server.fail_all(Some(Fault::Refuse(403)));
        let stack = stored_stack(json!({}));
        let refused = settings(&server.client(), Some("ops"), &stack).await;
        let note = refused.unwrap().1.remove(0);
        let reason = "(its Deployment cannot be read: this failure was asked for)";
        assert!(note.contains(reason), "{note}");
    }
}
