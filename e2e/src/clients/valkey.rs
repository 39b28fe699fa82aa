//! Commands in the managed cache of a stack, by valkey-cli in its pod.

use anyhow::{Result, bail};

use crate::harness::{Stack, kubectl_with_input};

/// Runs a command in the cache and returns its trimmed output.
pub async fn valkey(stack: &Stack, command: &[&str]) -> Result<String> {
    let name = format!("{}-cache", stack.name);
    let password = stack.credential(&name, "password").await?;
    // The password is the first line of the input, because every process can read the arguments.
    let script = "read -r REDISCLI_AUTH; export REDISCLI_AUTH; exec valkey-cli --no-auth-warning \"$@\" </dev/null";
    let pod = format!("{name}-0");
    let mut arguments = vec!["exec", "--stdin", &pod, "--", "sh", "-c", script, "sh"];
    arguments.extend(command);
    let answer = kubectl_with_input(stack, &arguments, &format!("{password}\n")).await?;
    let answer = answer.trim();
    // The client exits with 0 even when the server refuses.
    if ["ERR", "NOAUTH", "WRONGPASS", "Could not"]
        .iter()
        .any(|start| answer.starts_with(start))
    {
        bail!("{command:?}: {answer}");
    }
    Ok(answer.to_owned())
}
