//! A summary as a tree on the terminal. Pure.

use super::summary::{ComponentSummary, ConditionSummary, Summary};

/// A line of the tree with the lines below it.
struct Branch {
    line: String,
    below: Vec<Branch>,
}

impl Branch {
    fn new(line: impl Into<String>, below: Vec<Self>) -> Self {
        let line = line.into();
        Self { line, below }
    }

    fn leaf(line: impl Into<String>) -> Self {
        Self::new(line, Vec::new())
    }

    fn draw(&self, indent: &str, out: &mut String) {
        for (place, branch) in self.below.iter().enumerate() {
            let (arm, deeper) = match place + 1 == self.below.len() {
                true => ("└─ ", "   "),
                false => ("├─ ", "│  "),
            };
            out.push_str(&format!("{indent}{arm}{}\n", printable(&branch.line)));
            branch.draw(&format!("{indent}{deeper}"), out);
        }
    }
}

/// Renders the tree of a stack.
pub fn of(summary: &Summary) -> String {
    let Summary {
        name,
        namespace,
        url,
        ..
    } = summary;
    let mut below = Vec::new();
    if !summary.observed {
        below.push(Branch::leaf(
            "the operator has not seen the last edit: check that it runs and watches this namespace",
        ));
    }
    let conditions = summary.conditions.iter().map(condition).collect();
    below.push(Branch::new("conditions", conditions));
    let components = summary.components.iter().map(component).collect();
    below.push(Branch::new("components", components));
    let jobs = |state: &str| summary.queue[state].as_i64();
    if let (Some(ready), Some(unacked)) = (jobs("ready"), jobs("unacked")) {
        below.push(Branch::leaf(format!(
            "queue: {ready} waiting, {unacked} with a worker"
        )));
    }
    for (title, names) in [
        ("services", &summary.services),
        ("secrets", &summary.secrets),
    ] {
        below.push(Branch::leaf(format!("{title}: {}", names.join(", "))));
    }
    let changes = summary.changes.iter().map(|change| {
        Branch::leaf(format!(
            "{} {}: {}",
            change.time, change.object, change.what
        ))
    });
    below.push(Branch::new("last changes", changes.collect()));
    if !summary.unread.is_empty() {
        let unread = summary.unread.iter().map(Branch::leaf).collect();
        below.push(Branch::new("not shown", unread));
    }
    let mut out = printable(format!("{namespace}/{name} {url}").trim_end());
    out.push('\n');
    Branch::new("", below).draw("", &mut out);
    out
}

fn condition(condition: &ConditionSummary) -> Branch {
    let ConditionSummary {
        type_,
        status,
        reason,
        message,
        good,
    } = condition;
    let mark = if *good { "" } else { "! " };
    Branch::leaf(format!("{mark}{type_} is {status} ({reason}): {message}"))
}

fn component(component: &ComponentSummary) -> Branch {
    let ComponentSummary {
        name,
        ready,
        desired,
        updated,
        version,
        images,
        containers,
    } = component;
    let mark = if ready < desired { "! " } else { "" };
    let mut line = format!("{mark}{name}: {ready} of {desired} ready");
    if updated < desired {
        line.push_str(&format!(", {updated} of {desired} with the last settings"));
    }
    if !version.is_empty() {
        line.push_str(&format!(", version {version}"));
    }
    let images = images.iter().map(|image| format!("image {image}"));
    let below = images.chain(containers.iter().cloned());
    Branch::new(line, below.map(Branch::leaf).collect())
}

/// Returns a text on one line, without control characters: messages come from programs and clients.
fn printable(line: &str) -> String {
    line.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{
        observed::ObservedStack,
        status::summary::{self, tests::busy_stack},
    };

    #[test]
    fn the_tree_tells_reasons_versions_restarts_queue_and_changes() {
        let expected = "\
links/acme https://go.example.com
├─ conditions
│  ├─ ! Progressing is True (RollingOut): 1 of 2 pods are new
│  ├─ ! CacheReady is False (PodsStarting): 0 of 1 pods
│  ├─ Degraded is False (NoFault): no fault is known
│  └─ AppReady is True (RollingOut): 1 of 2 pods are new
├─ components
│  └─ app: 2 of 2 ready, 1 of 2 with the last settings, version 0.2.0
│     ├─ image registry.test:5000/shortener/app:0.2.0@sha256:00
│     ├─ acme-app-1, container app waits: CrashLoopBackOff
│     └─ acme-app-1, container app was restarted 3 times, the last time after OOMKilled (exit code 137) at 2026-01-01T00:00:07Z
├─ queue: 3 waiting, 1 with a worker
├─ services: acme-app
├─ secrets: acme-postgres
├─ last changes
│  ├─ 2026-01-01T00:00:08Z Pod acme-app-1: BackOff: Back-off restarting failed container of the pod
│  └─ 2026-01-01T00:00:05Z ShortenerStack acme: written by kubectl
└─ not shown
   └─ cannot read ingresses in namespace links: no right
";
        assert_eq!(of(&summary::of(&busy_stack())), expected);
    }

    #[test]
    fn a_stack_that_the_operator_has_not_seen_says_so() {
        let stack =
            serde_json::json!({"metadata": {"name": "new", "namespace": "links", "generation": 1}});
        let summary = summary::of(&ObservedStack {
            stack,
            ..ObservedStack::default()
        });
        let tree = of(&summary);
        assert!(
            tree.starts_with("links/new\n├─ the operator has not seen the last edit"),
            "{tree}"
        );
    }
}
