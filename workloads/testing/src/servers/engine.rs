//! The container engine and the images of the stores, which are the same as in a stack.

use std::{
    io::ErrorKind,
    path::Path,
    process::{Command, Output},
};

use anyhow::{Context, Result, bail, ensure};

use super::lifetime::UNTIL_INPUT_CLOSES;

/// The root of the checkout.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The script that provides the servers of the tests, and prints the name of each image.
const STORES: &str = "e2e/checks/stores.sh";

/// Returns the image of a store, by the variable of the operator that selects it, or by `POOLER_IMAGE`. A public image
/// is pulled.
pub(super) fn image(variable: &str) -> Result<String> {
    let engine = docker(&["version", "--format", "{{.Server.Version}}"])?;
    ensure!(
        engine.status.success(),
        "no Docker engine answers: run {STORES}, which starts one, or start it yourself ({})",
        message(&engine)
    );
    let image = script(STORES, &["image", variable])?;
    if docker(&["image", "inspect", &image])?.status.success() {
        return Ok(image);
    }
    ensure!(
        !image.starts_with("localhost/"),
        "the image {image} is missing: run {STORES}, which builds it"
    );
    eprintln!("pulling the image {image} for the tests");
    let pulled = docker(&["pull", "--quiet", &image])?;
    ensure!(
        pulled.status.success(),
        "the image {image} is missing and cannot be pulled: check that this machine reaches its registry, or on Debian \
         run SHORTENER_CLOSED=yes {STORES}, which builds a stand-in ({})",
        message(&pulled)
    );
    Ok(image)
}

/// Returns the command that runs a container until its standard input closes. It is on the network of this machine,
/// which adds no overhead.
pub(super) fn container(image: &str, options: &[&str], command: &[&str]) -> Command {
    let mut run = Command::new("docker");
    run.args(["run", "--rm", "--interactive", "--network", "host"])
        .args(options)
        .args(["--entrypoint", "sh", image, "-c", UNTIL_INPUT_CLOSES, "sh"])
        .args(command);
    run
}

/// Returns the output of a script of this repository, without the end of its last line.
pub(super) fn script(path: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(Path::new(REPOSITORY).join(path))
        .args(arguments)
        .output()
        .with_context(|| format!("{path} cannot be run"))?;
    ensure!(
        output.status.success(),
        "{path} failed: {}",
        message(&output)
    );
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

fn docker(arguments: &[&str]) -> Result<Output> {
    match Command::new("docker").args(arguments).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no command `docker`: install Docker (https://docs.docker.com/engine/install/), or on Debian run \
             {STORES} as root, which does"
        ),
        output => output.context("`docker` cannot be run"),
    }
}

/// Returns what a failed command wrote about its failure.
fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
