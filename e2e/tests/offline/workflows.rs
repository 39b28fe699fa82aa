//! The workflows of the project and of `examples/ci`: a foreign action has a commit, rights are explicit, and every command is
//! one script of this repository, because the tests can run scripts.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::Value;
use shortener_e2e::checkout;

use crate::{documents, entries, files, read, report};

#[test]
fn workflows_run_scripts_of_this_repository_and_pinned_actions() -> Result<()> {
    let pinned = Regex::new("^(\\./|shortenerstack/|[a-z0-9-]+/[a-z0-9/-]+@[0-9a-f]{40}$)")?;
    let (commit, version) = (
        Regex::new("@[0-9a-f]{40}")?,
        Regex::new("@[0-9a-f]{40} # v[0-9]")?,
    );
    let mut complaints = BTreeSet::new();
    // Each has at least one.
    let project = files(".github/workflows/*.yml .github/workflows/*.yaml")?;
    let all = [project, files("examples/ci/*.yml")?].concat();
    for file in all {
        let text = read(&file)?;
        let workflow = documents(&text)?
            .pop()
            .with_context(|| format!("{file} is empty"))?;
        for (key, value) in entries(&workflow) {
            let text_of = value.as_str().unwrap_or_default();
            if key == "run" && !runs_a_script(&file, value) {
                complaints.insert(format!(
                    "{file} must run exactly one script of this repository: {value}"
                ));
            }
            if key == "uses" && !pinned.is_match(text_of) {
                complaints.insert(format!("{file} must name a commit: {value}"));
            }
        }
        if commit.find_iter(&text).count() != version.find_iter(&text).count() {
            complaints.insert(format!(
                "{file} must have `# v<version>` behind each commit"
            ));
        }
        if !file.ends_with("/action.yml") && workflow.get("permissions").is_none() {
            complaints.insert(format!(
                "{file} has no permissions, so it gets those of the repository's settings"
            ));
        }
    }
    report(&complaints)
}

/// Returns true for a script of this repository with its arguments, alone on its line.
fn runs_a_script(file: &str, command: &Value) -> bool {
    let command = command.as_str().unwrap_or_default();
    if command.contains([';', '&', '|', '<', '>', '`', '\n']) || command.contains("$(") {
        return false;
    }
    // While a composite action runs, this expression is its folder.
    let folder = Path::new(file)
        .parent()
        .map(|folder| folder.display().to_string());
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    let command = command.replace("${{ github.action_path }}", &folder.unwrap_or_default());
    let program = checkout("..").join(command.split(' ').next().unwrap_or_default());
    let program = program.metadata();
    program.is_ok_and(|program| program.is_file() && program.permissions().mode() & 0o111 != 0)
}

#[test]
fn the_example_of_a_workflow_shows_how_little_is_needed() -> Result<()> {
    let lines = read("examples/ci/workflow.yml")?;
    let lines = lines.lines().filter(|line| !line.is_empty()).count();
    ensure!(lines < 15, "examples/ci/workflow.yml has {lines} lines");
    Ok(())
}
