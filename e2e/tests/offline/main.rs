//! Checks of files against each other and against what helm makes of them. They need no cluster; `helm`, `git` and `jq`
//! are on the PATH.

mod admission_policies;
mod chart;
mod chart_package;
mod chart_readme;
mod documents;
mod examples;
mod generated;
mod images;
mod workflows;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use shortener_e2e::checkout;

/// The version of the workspace, which everything of a release has.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the text of a file of the checkout.
fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    fs::read_to_string(checkout("..").join(path))
        .with_context(|| format!("cannot read {}", path.display()))
}

/// Returns the files of the checkout that match patterns of git, without what git ignores.
fn files(patterns: &str) -> Result<Vec<String>> {
    let listed = run(&format!(
        "git ls-files --cached --others --exclude-standard -- {patterns}"
    ))?;
    let listed = listed
        .lines()
        .filter(|file| checkout("..").join(file).exists());
    let files: Vec<String> = listed.map(str::to_owned).collect();
    ensure!(!files.is_empty(), "the checkout has no {patterns}");
    Ok(files)
}

/// Runs a command, whose words have no spaces, in the root of the checkout and returns its output.
fn run(command: &str) -> Result<String> {
    let mut words = command.split_whitespace();
    let mut process = Command::new(words.next().context("no command")?);
    let output = process.args(words).current_dir(checkout("..")).output();
    let output = output.with_context(|| format!("cannot run {command}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command} fails: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the lines of a file without comments.
fn lines(path: &str) -> Result<Vec<String>> {
    let text = read(path)?;
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// Returns the documents of a text in YAML that are not empty.
fn documents(text: &str) -> Result<Vec<Value>> {
    let documents = serde_yaml::Deserializer::from_str(text).map(Value::deserialize);
    let documents = documents.filter(|document| !document.as_ref().is_ok_and(Value::is_null));
    Ok(documents.collect::<Result<_, _>>()?)
}

/// Returns every key with its value, at any depth, and the elements of lists with an empty key.
fn entries(value: &Value) -> Vec<(&str, &Value)> {
    let here: Vec<(&str, &Value)> = match value {
        Value::Array(list) => list.iter().map(|value| ("", value)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.as_str(), value))
            .collect(),
        _ => Vec::new(),
    };
    let below = here.iter().flat_map(|(_, value)| entries(value));
    here.iter().copied().chain(below).collect()
}

/// Returns the operator's default images by their variables.
fn default_images() -> Result<BTreeMap<String, String>> {
    let row = Regex::new(r#""([A-Z0-9_]+_IMAGE)", (?:"(.*)"|released_image!\("(.*)"\));"#)?;
    let table = read("operator/src/cli/settings/images.rs")?;
    let image = |row: regex::Captures| match row.get(2) {
        Some(image) => image.as_str().to_owned(),
        None => format!("{}/{}:{VERSION}", env!("IMAGE_REPOSITORY"), &row[3]),
    };
    let images = row
        .captures_iter(&table)
        .map(|row| (row[1].to_owned(), image(row)));
    Ok(images.collect())
}

/// Fails with the first line in which two texts differ.
fn same(left: &str, ours: &str, right: &str, theirs: &str) -> Result<()> {
    let ours = ours.lines().map(Some).chain([None]);
    let theirs = theirs.lines().map(Some).chain([None]);
    for (ours, theirs) in ours.zip(theirs) {
        ensure!(ours == theirs, "{left} has {ours:?}, {right} {theirs:?}");
    }
    Ok(())
}

/// Fails with all complaints, if there is one.
fn report(complaints: &BTreeSet<String>) -> Result<()> {
    let listed: Vec<&str> = complaints.iter().map(String::as_str).collect();
    ensure!(complaints.is_empty(), "{}", listed.join("\n"));
    Ok(())
}
