//! The chart's README: a description, and a table of the values from the comments in `values.yaml`.

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::Value;

use crate::{chart::CHART, read};

/// Returns the page.
pub fn page() -> Result<String> {
    let chart: Value = serde_yaml::from_str(&read(format!("{CHART}/Chart.yaml"))?)?;
    let field = |name: &str| {
        chart[name]
            .as_str()
            .with_context(|| format!("Chart.yaml has no {name}"))
    };
    let (name, version, description) = (field("name")?, field("version")?, field("description")?);
    let kubernetes = Regex::new(r"^>=(\d+\.\d+)")?.captures(field("kubeVersion")?);
    let kubernetes = &kubernetes.context("kubeVersion has no lowest version")?[1];
    let registry = env!("IMAGE_REPOSITORY");
    let table = table(&read(format!("{CHART}/values.yaml"))?)?;
    Ok(format!(
        "<!-- Written by `make readme` from values.yaml. -->
# {name}

{description} Kubernetes {kubernetes} or later.

```sh
helm install shortener-definition oci://{registry}/charts/shortener-definition --version {version} \\
  --namespace shortener-system --create-namespace
helm install {name} oci://{registry}/charts/{name} --version {version} --namespace shortener-system
helm test {name} --namespace shortener-system
```

The notes that Helm prints list the next commands. Misspelt values and values of the wrong type are refused.

| value | default | meaning |
| --- | --- | --- |
{table}"
    ))
}

/// Returns one row for each value: its path, its default, and the comment above it, which every value must have. Each
/// value is on one line, and each level is indented by two spaces; anything else is an error.
fn table(values: &str) -> Result<String> {
    let key = Regex::new("^((?:  )*)([A-Za-z0-9]+):(?: +(.*))?$")?;
    let (mut rows, mut path, mut comment) = (String::new(), Vec::new(), Vec::new());
    let mut is_parent = false;
    for (index, line) in values.lines().enumerate() {
        let at = || format!("values.yaml, line {}: {line}", index + 1);
        let text = line.trim_start_matches(' ');
        if let Some(text) = text.strip_prefix("# ") {
            comment.push(text);
            continue;
        }
        if !text.is_empty() {
            let key = key.captures(line);
            let key =
                key.with_context(|| format!("{}: write a key and its value on one line", at()))?;
            let depth = key[1].len() / 2;
            ensure!(
                depth < path.len().max(1) + usize::from(is_parent),
                "{}: this key has no parent",
                at()
            );
            path.truncate(depth);
            path.push(key[2].to_owned());
            let value = key.get(3).map_or("", |value| value.as_str());
            is_parent = value.is_empty();
            ensure!(
                is_parent || !comment.is_empty(),
                "{}: explain it in a comment above it",
                at()
            );
            if !comment.is_empty() {
                let default = if is_parent {
                    String::new()
                } else {
                    format!("`{value}`")
                };
                let meaning = comment.join(" ").replace('|', "\\|");
                rows += &format!("| `{}` | {default} | {meaning} |\n", path.join("."));
            }
        }
        comment.clear();
    }
    Ok(rows)
}
