//! The operator's command line: `run`, `crd` and `plan`. People's machines have another program, `kubectl
//! shortener`, whose command line is in [`kubectl`].

pub mod app_pod;
pub mod cluster;
pub mod dlq;
pub mod drill;
pub mod kubectl;
pub mod observed;
pub mod plan;
pub mod process;
pub mod settings;
pub mod status;
pub mod transfer;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use plan::PlanArguments;
use settings::Settings;

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
        Self::parsed(Self::command(), arguments)
    }

    /// Does the same without the variables of the environment: outside the operator's pod they may be those of another program.
    ///
    /// # Errors
    /// The same.
    pub fn read_alone(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::parsed(Self::without_environment(), arguments)
    }

    fn without_environment() -> clap::Command {
        let without =
            |run: clap::Command| run.mut_args(|argument| argument.env(None::<&'static str>));
        Self::command().mut_subcommand("run", without)
    }

    fn parsed(
        command: clap::Command,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        let about = ["-h", "--help", "-V", "--version"];
        let names_a_command = arguments
            .get(1)
            .and_then(|first| first.to_str())
            .is_some_and(|first| !first.starts_with('-') || about.contains(&first));
        if !names_a_command {
            arguments.insert(arguments.len().min(1), "run".into());
        }
        let matches = command.try_get_matches_from(arguments)?;
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
    /// Print the CustomResourceDefinitions
    Crd {
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: CrdFormat,
    },
    /// Show what a ShortenerStack in a file would change, who restarts and what data is at risk; change nothing
    Plan(PlanArguments),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const POD: [&str; 5] = ["operator", "--pod-name", "op-0", "--pod-namespace", "ops"];

    fn read(arguments: &[&str]) -> Result<Command, clap::Error> {
        Cli::read(arguments.iter().map(OsString::from)).map(|cli| cli.command)
    }

    fn settings(extra: &[&str]) -> Result<Settings, clap::Error> {
        match read(&[&POD, extra].concat())? {
            Command::Run(settings) => Ok(*settings),
            Command::Crd { .. } | Command::Plan(_) => panic!("not the run command"),
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
    fn a_line_that_is_read_alone_takes_nothing_from_the_environment() {
        let variables = |command: clap::Command| {
            let run = command.find_subcommand("run").unwrap();
            let arguments = run.get_arguments();
            arguments
                .filter(|argument| argument.get_env().is_some())
                .count()
        };
        assert!(variables(Cli::command()) > 20);
        assert_eq!(variables(Cli::without_environment()), 0);
        let read = Cli::read_alone(POD.map(OsString::from)).unwrap();
        assert!(matches!(read.command, Command::Run(settings) if settings.pod_name == "op-0"));
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
    fn users_who_edit_stacks_get_no_rights_of_others_unless_an_administrator_says_so() {
        let default = settings(&[]).unwrap().defaults();
        assert!(default.is_restricted());
        let hosts = ["*.ingress-nginx.svc", "*.ingress-nginx.svc.cluster.local"];
        assert_eq!(default.probe_hosts, hosts);
        let set = [
            "--pod-template-policy",
            "Unrestricted",
            "--probe-hosts",
            "*, a.test",
        ];
        let set = settings(&set).unwrap().defaults();
        assert!(!set.is_restricted());
        assert_eq!(set.probe_hosts, ["*", "a.test"]);
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
    fn an_operator_has_no_class_unless_one_is_set() {
        assert_eq!(settings(&[]).unwrap().operator_class, "");
        let canary = settings(&["--operator-class", "canary"]).unwrap();
        assert_eq!(canary.operator_class, "canary");
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
            ("--operator-class", "Canary", "is not a class"),
            ("--pod-template-policy", "restricted", "is not a policy"),
            ("--probe-hosts", "http://a.example", "is not a host"),
            ("--probe-hosts", "*a.example", "is not a host"),
            ("--probe-hosts", "a..example", "is not a host"),
            ("--lease-duration-seconds", "2", "is not in 3..=600"),
            ("--max-concurrent-reconciles", "0", "is not in 1..=256"),
            ("--trace-ratio", "10%", "is not a share"),
            ("--trace-ratio", "1.5", "is not a share"),
            ("--trace-ratio", "NaN", "is not a share"),
        ] {
            let error = settings(&[flag, value]).unwrap_err().to_string();
            assert!(error.contains(reason), "{flag}: {error}");
        }
    }
}
