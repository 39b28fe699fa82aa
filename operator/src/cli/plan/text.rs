//! A plan as text: what is dangerous first, what is many last.

use std::io::{self, Write};

use serde_json::Value;
use shortener_operator_core::{model::drift::FieldChange, plan::diff::ChildName};

use super::PlanReport;

/// Longest value that is shown whole, in characters.
const LONGEST: usize = 100;

pub(super) fn print(report: &PlanReport, out: &mut impl Write) -> io::Result<()> {
    let PlanReport {
        namespace,
        name,
        exists,
        changes,
        held,
        notes,
    } = report;
    let new = if *exists { "" } else { " (new)" };
    writeln!(
        out,
        "ShortenerStack {namespace}/{name}{new}: {} to create, {} to change, {} to delete, {} unchanged",
        changes.created.len(),
        changes.changed.len(),
        changes.deleted.len(),
        changes.unchanged.len()
    )?;
    let risks = changes.risks.iter();
    let risks = risks.map(|risk| format!("! {:?} {}: {}", risk.reason, risk.child, risk.message));
    group(out, "Data at risk", risks)?;
    let blocked = changes.blocked.iter();
    let blocked = blocked.map(|found| format!("! {}: {}", found.child, found.message));
    group(out, "In the way", blocked)?;
    let held = held
        .iter()
        .map(|held| format!("! {}: {}", held.component, held.message));
    group(out, "Held as they are", held)?;
    let restarts = changes.restarts.iter().flat_map(|restart| {
        let pods = match restart.pods {
            1 => "1 pod".to_owned(),
            pods => format!("{pods} pods"),
        };
        let reasons = restart.reasons.iter().map(|reason| format!("    {reason}"));
        std::iter::once(format!("* {}, {pods}", restart.child)).chain(reasons)
    });
    group(out, "Pods that restart or end", restarts)?;
    group(
        out,
        "To delete",
        changes.deleted.iter().map(|child| line('-', child)),
    )?;
    let changed = changes.changed.iter().flat_map(|changed| {
        let fields = changed.fields.iter().map(field);
        std::iter::once(line('~', &changed.child)).chain(fields)
    });
    group(out, "To change", changed)?;
    group(
        out,
        "To create",
        changes.created.iter().map(|child| line('+', child)),
    )?;
    group(out, "Notes", notes.iter().cloned())
}

/// Prints the lines below a title, or nothing if there are none.
fn group(out: &mut impl Write, title: &str, lines: impl Iterator<Item = String>) -> io::Result<()> {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        writeln!(out, "\n{title}:")?;
    }
    for line in lines {
        writeln!(out, "  {}", printable(&line))?;
    }
    Ok(())
}

fn line(sign: char, child: &ChildName) -> String {
    format!("{sign} {child}")
}

fn field(field: &FieldChange) -> String {
    let path = &field.path;
    match (&field.before, &field.after) {
        (Some(before), Some(after)) if before == after => format!("    {path}: {}", value(after)),
        (Some(before), Some(after)) => format!("    {path}: {} -> {}", value(before), value(after)),
        (Some(before), None) => format!("    {path}: {} -> (removed)", value(before)),
        (None, Some(after)) => format!("    {path}: (none) -> {}", value(after)),
        (None, None) => format!("    {path}"),
    }
}

/// Returns a value in one line of limited length.
fn value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let lines = text.lines().count();
    let length = text.chars().count();
    match (lines, length) {
        (lines, _) if lines > 1 => format!("({lines} lines)"),
        (_, length) if length > LONGEST => {
            let start: String = text.chars().take(LONGEST).collect();
            format!("{start}… ({length} characters)")
        }
        _ => text,
    }
}

/// Replaces control characters: others chose some of the values, so they must not reach the terminal unchanged.
fn printable(line: &str) -> String {
    line.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shortener_operator_core::plan::diff::{
        BlockedChild, ChangedChild, Changes, Restart, Risk, RiskReason,
    };

    use super::*;

    fn child(kind: &str, name: &str) -> ChildName {
        ChildName {
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }

    fn printed(changes: Changes, notes: &[&str]) -> String {
        let report = PlanReport {
            namespace: "links".to_owned(),
            name: "acme".to_owned(),
            exists: true,
            changes,
            held: Vec::new(),
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        };
        let mut out = Vec::new();
        print(&report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_plan_without_changes_is_one_line() {
        let changes = Changes {
            unchanged: vec![child("Deployment", "acme-app")],
            ..Changes::default()
        };
        assert_eq!(
            printed(changes, &[]),
            "ShortenerStack links/acme: 0 to create, 0 to change, 0 to delete, 1 unchanged\n"
        );
    }

    /// Returns changes with an entry in every group.
    fn everything() -> Changes {
        let app = child("Deployment", "acme-app");
        let change = |path: &str, before: Option<Value>, after: Option<Value>| FieldChange {
            path: path.to_owned(),
            before,
            after,
        };
        Changes {
            created: vec![child("Secret", "acme-cache")],
            changed: vec![ChangedChild {
                child: app.clone(),
                fields: vec![
                    change("spec.replicas", Some(json!(2)), Some(json!(3))),
                    change("spec.x", None, Some(json!("a\nb"))),
                    change("spec.y", Some(json!("\u{1b}[2J")), None),
                ],
            }],
            deleted: vec![child("Service", "acme-otel")],
            unchanged: Vec::new(),
            blocked: vec![BlockedChild {
                child: child("Service", "acme-app"),
                message: "not ours".to_owned(),
            }],
            restarts: vec![Restart {
                child: app,
                pods: 2,
                reasons: vec!["spec.x changes".to_owned()],
            }],
            risks: vec![Risk {
                reason: RiskReason::VolumeDeleted,
                child: child("PersistentVolumeClaim", "acme-qdrant"),
                message: "gone".to_owned(),
            }],
        }
    }

    #[test]
    fn what_is_dangerous_comes_first_and_every_group_has_its_title() {
        assert_eq!(
            printed(everything(), &["a note"]),
            "\
ShortenerStack links/acme: 1 to create, 1 to change, 1 to delete, 0 unchanged

Data at risk:
  ! VolumeDeleted PersistentVolumeClaim/acme-qdrant: gone

In the way:
  ! Service/acme-app: not ours

Pods that restart or end:
  * Deployment/acme-app, 2 pods
      spec.x changes

To delete:
  - Service/acme-otel

To change:
  ~ Deployment/acme-app
      spec.replicas: 2 -> 3
      spec.x: (none) -> (2 lines)
      spec.y: ?[2J -> (removed)

To create:
  + Secret/acme-cache

Notes:
  a note
"
        );
    }
}
