//! The command line of `kubectl shortener`, a plugin of kubectl. It has the rights of its user and needs no running
//! operator.

mod words;

use std::{error::Error, io::Write, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use super::{
    CrdFormat,
    cluster::Location,
    dlq::{self, Dlq},
    drill::{self, DrillArguments},
    plan::{self, PlanArguments},
    process,
    status::{self, StatusArguments},
    transfer::{self, ExportArguments, ImportArguments},
};

/// Name of the program, which kubectl runs as its command `shortener`.
const PROGRAM: &str = "kubectl-shortener";

/// The plugin's command line.
#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    bin_name = "kubectl shortener",
    version,
    about = "Shows and repairs the link-shortening services of ShortenerStack resources"
)]
pub struct Plugin {
    /// Place of the stack, before or behind the command, whose arguments of the same names get it
    #[command(flatten)]
    pub location: Location,
    /// Command to run
    #[command(subcommand)]
    pub command: PluginCommand,
}

/// The commands of the plugin.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Show stacks: conditions, components, restarts, queue and last changes
    Status(StatusArguments),
    /// Show what a ShortenerStack in a file would change, who restarts and what data is at risk; change nothing
    Plan(PlanArguments),
    /// List, show, replay or delete dead letters, the jobs that failed for good
    Dlq(Dlq),
    /// Take a store of a stack away for a while, and show what users saw
    Drill(DrillArguments),
    /// Write all links of a stack to a file, one JSON object on each line
    Export(ExportArguments),
    /// Create links of an export, or of another shortener, with their codes and creation times
    Import(ImportArguments),
    /// Print the CustomResourceDefinition
    Crd {
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: CrdFormat,
    },
    /// Print a script that completes the command line of kubectl-shortener in a shell
    Completion {
        /// Shell of the script
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print completions of the last word in the form that kubectl reads
    #[command(name = "__complete", hide = true)]
    Complete {
        /// Words after `kubectl shortener`
        #[arg(last = true)]
        words: Vec<String>,
    },
}

/// Runs a command and prints its result. Returns the exit code of the process.
///
/// # Errors
/// The error of the command, a sentence for people.
pub fn run(command: PluginCommand) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = process::output();
    match command {
        PluginCommand::Status(arguments) => {
            process::runtime()?.block_on(status::run(arguments, &mut out))?;
        }
        PluginCommand::Plan(arguments) => {
            let planned = process::runtime()?.block_on(plan::run(arguments, &mut out))?;
            return Ok(planned.into());
        }
        PluginCommand::Dlq(command) => {
            process::runtime()?.block_on(dlq::run(command, &mut out))?;
        }
        PluginCommand::Drill(arguments) => {
            let drilled = process::runtime()?.block_on(drill::run(arguments, &mut out))?;
            return Ok(drilled.into());
        }
        PluginCommand::Export(arguments) => {
            process::runtime()?.block_on(transfer::export(arguments, &mut out))?;
        }
        PluginCommand::Import(arguments) => {
            let imported = process::runtime()?.block_on(transfer::import(arguments, &mut out))?;
            return Ok(u8::from(!imported.is_complete()).into());
        }
        PluginCommand::Crd { format } => process::print_crd(format, &mut out)?,
        PluginCommand::Completion { shell } => out.write_all(&script(shell))?,
        PluginCommand::Complete { words } => {
            out.write_all(words::answer(&Plugin::command(), &words).as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> Vec<u8> {
    // The generator panics when its output is refused, and a buffer refuses nothing.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Plugin::command(), PROGRAM, &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn parse(words: &[&str]) -> Result<PluginCommand, clap::Error> {
        let words = [PROGRAM].iter().chain(words);
        Plugin::try_parse_from(words).map(|plugin| plugin.command)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Plugin::command().debug_assert();
    }

    #[test]
    fn help_speaks_of_kubectl_and_tells_the_commands() {
        let help = parse(&["--help"]).unwrap_err().to_string();
        for word in [
            "kubectl shortener",
            "status",
            "plan",
            "dlq",
            "drill",
            "export",
            "import",
            "crd",
            "completion",
        ] {
            assert!(help.contains(word), "{word}: {help}");
        }
        assert!(!help.contains("__complete"), "{help}");
        let version = parse(&["--version"]).unwrap_err().to_string();
        let expected = concat!("kubectl-shortener ", env!("CARGO_PKG_VERSION"), "\n");
        assert_eq!(version, expected);
    }

    #[test]
    fn all_namespaces_leave_no_room_for_a_name_or_a_namespace() {
        assert!(parse(&["status"]).is_ok());
        assert!(parse(&["status", "demo", "-n", "links", "-o", "json"]).is_ok());
        assert!(parse(&["status", "-A", "--context", "production"]).is_ok());
        assert!(parse(&["status", "-A", "demo"]).is_err());
        assert!(parse(&["status", "-A", "-n", "links"]).is_err());
    }

    #[test]
    fn the_place_of_a_stack_may_stand_before_the_command() {
        let place = ["-n", "links", "--context", "production"];
        for command in [
            &["status", "demo"][..],
            &["plan", "-f", "-"],
            &["dlq", "ls", "demo"],
        ] {
            for words in [[&place, command].concat(), [command, &place].concat()] {
                let location = match parse(&words).unwrap() {
                    PluginCommand::Status(status) => status.location,
                    PluginCommand::Plan(plan) => plan.location,
                    PluginCommand::Dlq(Dlq {
                        action: dlq::Action::Ls { stack, .. },
                    }) => stack.location,
                    other => panic!("{other:?}"),
                };
                assert_eq!(location.namespace.as_deref(), Some("links"), "{words:?}");
                assert_eq!(location.context.as_deref(), Some("production"), "{words:?}");
            }
        }
    }

    #[test]
    fn a_drill_needs_a_store_and_lasts_ten_minutes_at_most() {
        assert!(parse(&["drill", "demo", "--store", "Cache"]).is_ok());
        assert!(parse(&["drill", "demo", "--store", "queue", "--seconds", "600"]).is_ok());
        for words in [
            &["drill", "demo"][..],
            &["drill", "demo", "--store", "app"],
            &["drill", "demo", "--store", "cache", "--seconds", "601"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn every_shell_gets_a_script_for_the_program() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for word in [PROGRAM, "status", "all-namespaces"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
