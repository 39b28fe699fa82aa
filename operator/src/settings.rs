//! Settings of the process: parses the command line and the environment into typed [`Settings`].

mod registry;
mod values;

use std::{collections::BTreeMap, ffi::OsString, net::SocketAddr, time::Duration};

use clap::{
    ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::RangedU64ValueParser, parser::ValueSource,
};
use k8s_openapi::{
    api::networking::v1::NetworkPolicyPeer, apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use crate::dlq::Dlq;
pub use registry::Registry;
pub use values::{Labels, Namespaces, Peers, SettingsError};

/// Label that Kubernetes sets on every namespace, with the namespace's name as its value.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The operator's command line.
#[derive(Debug, Parser)]
#[command(
    name = "operator",
    version,
    about = "Runs link-shortening services from ShortenerStack resources"
)]
pub struct Cli {
    /// Command to run; `run` if absent
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses a command line that starts with the program's name. The command `run` may be omitted.
    ///
    /// # Errors
    /// The command line is invalid, or it asks for `--help` or `--version`.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        let about = ["-h", "--help", "-V", "--version"];
        let names_a_command = arguments
            .get(1)
            .and_then(|first| first.to_str())
            .is_some_and(|first| !first.starts_with('-') || about.contains(&first));
        if !names_a_command {
            arguments.insert(arguments.len().min(1), "run".into());
        }
        let matches = Self::command().try_get_matches_from(arguments)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        if let (Command::Run(settings), Some((_, given))) = (&mut cli.command, matches.subcommand())
        {
            settings.follow_registry(given);
        }
        Ok(cli)
    }
}

/// The commands of the operator.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator against the cluster of the kubeconfig or of its own pod (the default)
    Run(Box<Settings>),
    /// Print the CustomResourceDefinition
    Crd {
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: CrdFormat,
    },
    /// List, show, replay or delete dead letters, the jobs that failed for good
    Dlq(Dlq),
}

/// The output formats of `crd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CrdFormat {
    /// YAML for `kubectl apply`
    #[default]
    Yaml,
    /// Markdown for readers, with a table for each object
    Markdown,
}

/// Settings of a running operator, from flags or environment variables.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Default images, used for components whose image a stack does not set
    #[command(flatten)]
    pub images: Images,
    /// Registry (`host:port/path`) with copies of the default images under their full paths; not used for an image
    /// that its own flag or variable sets
    #[arg(long, env = "IMAGE_REGISTRY")]
    pub image_registry: Option<Registry>,
    /// Namespaces to watch, separated by commas; empty for all
    #[arg(long, env = "WATCH_NAMESPACES", default_value = "")]
    pub watch_namespaces: Namespaces,
    /// Peers that may connect to the stacks' gateways by default: a JSON list of NetworkPolicyPeer
    #[arg(long, env = "GATEWAY_ALLOW_FROM", default_value = INGRESS_NGINX)]
    pub gateway_allow_from: Peers,
    /// Address of /livez, /readyz and /metrics; `[::]` means every IPv6 and IPv4 address
    #[arg(long, env = "LISTEN", default_value = "[::]:8080")]
    pub listen: SocketAddr,
    /// Name of the operator's pod, its identity in the Lease
    #[arg(long, env = "POD_NAME")]
    pub pod_name: String,
    /// Namespace of the operator's pod and of the Lease
    #[arg(long, env = "POD_NAMESPACE")]
    pub pod_namespace: String,
    /// Labels that select the operator's pods, as key=value separated by commas
    #[arg(
        long,
        env = "OPERATOR_SELECTOR",
        default_value = "app.kubernetes.io/name=shortener-operator"
    )]
    pub operator_selector: Labels,
    /// Name of the Lease for leader election
    #[arg(long, env = "LEASE_NAME", default_value = "shortener-operator")]
    pub lease_name: String,
    /// Seconds without a renewal of the Lease after which another replica takes over
    #[arg(long, env = "LEASE_DURATION_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..=600))]
    pub lease_duration_seconds: u16,
    /// Maximum number of stacks that are reconciled at the same time
    #[arg(long, env = "MAX_CONCURRENT_RECONCILES", default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub max_concurrent_reconciles: usize,
}

/// Default images, used for components whose image a stack does not set.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Images {
    /// Image of the app
    #[arg(id = "app_image", long = "app-image", env = "APP_IMAGE", default_value = APP_IMAGE)]
    pub app: String,
    /// Image of the gateway
    #[arg(
        id = "gateway_image",
        long = "gateway-image",
        env = "GATEWAY_IMAGE",
        default_value = "nginx:1.30.6"
    )]
    pub gateway: String,
    /// Image of a managed database whose volume is new or was created by PostgreSQL 18
    #[arg(
        id = "postgres_image",
        long = "postgres-image",
        env = "POSTGRES_IMAGE",
        default_value = "postgres:18.6"
    )]
    pub postgres: String,
    /// Image of a managed database whose volume was created by PostgreSQL 17
    #[arg(
        id = "postgres_17_image",
        long = "postgres-17-image",
        env = "POSTGRES_17_IMAGE",
        default_value = "postgres:17.11"
    )]
    pub postgres_17: String,
    /// Image of the managed cache
    #[arg(
        id = "cache_image",
        long = "cache-image",
        env = "CACHE_IMAGE",
        default_value = "valkey/valkey:9.1.2"
    )]
    pub cache: String,
    /// Image of the managed broker; it must contain the management plugin
    #[arg(
        id = "rabbitmq_image",
        long = "rabbitmq-image",
        env = "RABBITMQ_IMAGE",
        default_value = "rabbitmq:4.3.6-management"
    )]
    pub rabbitmq: String,
    /// Image of the workers
    #[arg(id = "worker_image", long = "worker-image", env = "WORKER_IMAGE", default_value = WORKER_IMAGE)]
    pub worker: String,
    /// Image of the managed collector of traces and logs
    #[arg(
        id = "otel_image",
        long = "otel-image",
        env = "OTEL_IMAGE",
        default_value = "otel/opentelemetry-collector-contrib:0.162.0"
    )]
    pub otel: String,
    /// Image of the managed backend of traces, logs and metrics
    #[arg(
        id = "telemetry_image",
        long = "telemetry-image",
        env = "TELEMETRY_IMAGE",
        default_value = "grafana/otel-lgtm:0.31.0"
    )]
    pub telemetry: String,
    /// Image of the managed vector store
    #[arg(
        id = "qdrant_image",
        long = "qdrant-image",
        env = "QDRANT_IMAGE",
        default_value = "qdrant/qdrant:v1.19.0"
    )]
    pub qdrant: String,
}

/// Expands to the name of an image that is released together with this operator. The repository comes from
/// `.cargo/config.toml`.
macro_rules! released_image {
    ($name:literal) => {
        concat!(
            env!("IMAGE_REPOSITORY"),
            "/",
            $name,
            ":",
            env!("CARGO_PKG_VERSION")
        )
    };
}

const APP_IMAGE: &str = released_image!("app");
const WORKER_IMAGE: &str = released_image!("worker");

/// Peers that select the ingress-nginx controller by the labels of its own manifests.
const INGRESS_NGINX: &str = r#"[{
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}},
    "podSelector": {"matchLabels": {
        "app.kubernetes.io/name": "ingress-nginx",
        "app.kubernetes.io/component": "controller"
    }}
}]"#;

impl Settings {
    /// Replaces every default image with its copy in the configured registry, if there is one. An image that was set
    /// explicitly stays as it is.
    fn follow_registry(&mut self, given: &ArgMatches) {
        if let Some(registry) = &self.image_registry {
            self.images.take_defaults_from(registry, |argument| {
                given.value_source(argument) == Some(ValueSource::DefaultValue)
            });
        }
    }

    /// Returns one entry per controller: a namespace each, or a single `None` for all namespaces.
    pub fn scopes(&self) -> Vec<Option<String>> {
        if self.watch_namespaces.0.is_empty() {
            return vec![None];
        }
        self.watch_namespaces.0.iter().cloned().map(Some).collect()
    }

    /// Returns the operator's own pods as a peer of a NetworkPolicy.
    pub fn operator_peer(&self) -> NetworkPolicyPeer {
        let own_namespace =
            BTreeMap::from([(NAMESPACE_NAME_LABEL.to_owned(), self.pod_namespace.clone())]);
        NetworkPolicyPeer {
            namespace_selector: Some(match_labels(own_namespace)),
            pod_selector: Some(match_labels(self.operator_selector.0.clone())),
            ip_block: None,
        }
    }

    /// Returns the duration for which the Lease protects its holder.
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration_seconds.into())
    }
}

fn match_labels(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: [&str; 5] = ["operator", "--pod-name", "op-0", "--pod-namespace", "ops"];

    fn read(arguments: &[&str]) -> Result<Command, clap::Error> {
        Cli::read(arguments.iter().map(OsString::from)).map(|cli| cli.command)
    }

    fn settings(extra: &[&str]) -> Result<Settings, clap::Error> {
        match read(&[&POD, extra].concat())? {
            Command::Run(settings) => Ok(*settings),
            Command::Crd { .. } | Command::Dlq(_) => panic!("not the run command"),
        }
    }

    #[test]
    fn without_a_subcommand_the_operator_runs() {
        assert_eq!(settings(&[]).unwrap().pod_name, "op-0");
        let spelled_out = [
            "operator",
            "run",
            "--pod-name",
            "op-0",
            "--pod-namespace",
            "ops",
        ];
        assert!(matches!(read(&spelled_out), Ok(Command::Run(_))));
    }

    #[test]
    fn the_crd_can_be_printed_without_any_setting() {
        assert!(matches!(
            read(&["operator", "crd"]),
            Ok(Command::Crd {
                format: CrdFormat::Yaml
            })
        ));
    }

    #[test]
    fn help_tells_the_commands() {
        let help = read(&["operator", "--help"]).unwrap_err().to_string();
        assert!(help.contains("crd") && help.contains("run"), "{help}");
    }

    #[test]
    fn a_missing_pod_name_is_refused_by_name() {
        let error = read(&["operator", "--pod-namespace", "ops"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("--pod-name"), "{error}");
    }

    #[test]
    fn defaults_watch_all_namespaces_and_let_ingress_nginx_in() {
        let settings = settings(&[]).unwrap();
        assert_eq!(settings.scopes(), vec![None]);
        assert_eq!(settings.lease_duration(), Duration::from_secs(15));
        assert_eq!(
            settings.images.app,
            concat!(env!("IMAGE_REPOSITORY"), "/app:", env!("CARGO_PKG_VERSION"))
        );
        let peer = &settings.gateway_allow_from.0[0];
        let labels = peer
            .pod_selector
            .as_ref()
            .unwrap()
            .match_labels
            .as_ref()
            .unwrap();
        assert_eq!(labels["app.kubernetes.io/component"], "controller");
    }

    #[test]
    fn a_list_of_namespaces_gives_one_scope_each() {
        let settings = settings(&["--watch-namespaces", "team-b, team-a,team-b,"]).unwrap();
        assert_eq!(
            settings.scopes(),
            vec![Some("team-a".to_owned()), Some("team-b".to_owned())]
        );
    }

    #[test]
    fn a_registry_is_put_in_front_of_every_default_image_and_of_no_other() {
        let public = settings(&[]).unwrap().images;
        let registry = ["--image-registry", "mirror.example:5000/hub"];
        let copies = settings(&registry).unwrap().images;
        let named = ["--postgres-image", public.postgres.as_str()];
        let images = settings(&[&registry[..], &named].concat()).unwrap().images;
        assert_eq!(images.postgres, public.postgres);
        assert_eq!(images.gateway, copies.gateway);

        let text = format!("{copies:?}");
        let images = text.matches(": \"").count();
        let from_mirror = text.matches(": \"mirror.example:5000/hub/").count();
        assert_eq!(from_mirror, images, "{text}");
        let version = env!("CARGO_PKG_VERSION");
        assert!(copies.app.ends_with(&format!("/app:{version}")), "{text}");
        assert!(copies.gateway.contains("/library/nginx:"), "{text}");
    }

    #[test]
    fn the_operator_is_named_by_its_namespace_and_its_labels() {
        let settings = settings(&["--operator-selector", "app=op,tier=control"]).unwrap();
        let expected = serde_json::json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}},
            "podSelector": {"matchLabels": {"app": "op", "tier": "control"}},
        });
        assert_eq!(
            serde_json::to_value(settings.operator_peer()).unwrap(),
            expected
        );
    }

    #[test]
    fn values_that_cannot_be_used_are_refused_with_a_reason() {
        for (flag, value, reason) in [
            ("--operator-selector", "app", "is not a label"),
            ("--operator-selector", "", "is empty"),
            ("--gateway-allow-from", "{}", "is not a JSON list"),
            (
                "--watch-namespaces",
                "Team",
                "is not the name of a namespace",
            ),
            ("--image-registry", "https://r.example", "is not a registry"),
            ("--lease-duration-seconds", "2", "is not in 3..=600"),
            ("--max-concurrent-reconciles", "0", "is not in 1..=256"),
        ] {
            let error = settings(&[flag, value]).unwrap_err().to_string();
            assert!(error.contains(reason), "{flag}: {error}");
        }
    }
}
