//! The commands of a page of docs/, as users paste them.

use std::fs;

use anyhow::{Result, ensure};
use tokio::process::Command;

use crate::harness::{Stack, checkout, run};

/// Returns the blocks of commands of a section of a page. `heading` is the line of its heading.
pub fn commands(page: &str, heading: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(checkout("../docs").join(page))?;
    let blocks = blocks(&text, heading);
    ensure!(!blocks.is_empty(), "{page} has no commands in {heading}");
    Ok(blocks)
}

/// Runs commands for a stack in place of the `demo` of the pages, and returns what they print.
pub async fn paste(stack: &Stack, commands: &str) -> Result<String> {
    let (namespace, commands) = (&stack.namespace, commands.replace("demo", &stack.name));
    let script =
        format!("kubectl() {{ command kubectl --namespace {namespace} \"$@\"; }}\n{commands}");
    run(Command::new("bash").args(["-c", &script]), "").await
}

/// A section ends at the next heading.
fn blocks(text: &str, heading: &str) -> Vec<String> {
    let section = text.split_once(&format!("\n{heading}\n"));
    let section = section.map_or("", |(_, rest)| rest);
    let section = section.split("\n#").next().unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1);
    blocks
        .filter_map(|block| Some(block.split_once("```")?.0.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_the_blocks_up_to_the_next_heading() {
        let text = "# Page\n\n```sh\na\n```\n\n### Here\n\n```sh\nb # b\n```\n\nText\n\n```yaml\nc: 1\n```\n```sh\nd\n```\n\n## Next\n```sh\ne\n```\n";
        assert_eq!(blocks(text, "### Here"), ["b # b\n", "d\n"]);
        assert!(blocks(text, "### There").is_empty());
    }
}
