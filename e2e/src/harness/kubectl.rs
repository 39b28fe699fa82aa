//! Commands of kubectl, such as running a program in a pod, and other commands with input.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::harness::Stack;

/// Runs kubectl in the namespace of a stack and returns its output.
pub async fn kubectl(stack: &Stack, arguments: &[&str]) -> Result<String> {
    kubectl_with_input(stack, arguments, "").await
}

/// Runs a SQL statement without double quotes in the managed database of a stack. Returns the rows, with `|` between columns.
pub async fn psql(stack: &Stack, statement: &str) -> Result<String> {
    let script = format!(r#"psql -U "$POSTGRES_USER" -d "$POSTGRES_DB" -Atc "{statement}""#);
    let pod = format!("{}-postgres-0", stack.name);
    let exec = ["exec", &pod, "-c", "postgres", "--", "sh", "-c", &script];
    kubectl(stack, &exec).await
}

/// Like [`kubectl`] with text on the standard input, where a password belongs.
pub async fn kubectl_with_input(stack: &Stack, arguments: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new("kubectl");
    command.args(["--namespace", &stack.namespace]);
    run(command.args(arguments), input).await
}

/// Runs a program with text on its standard input and returns its output.
pub async fn run(command: &mut Command, input: &str) -> Result<String> {
    let shown = format!("{:?}", command.as_std());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may have exited already.
        stdin.write_all(input.as_bytes()).await.ok();
    }
    let output = child.wait_with_output().await?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{shown} failed: {}{printed}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(printed)
}
