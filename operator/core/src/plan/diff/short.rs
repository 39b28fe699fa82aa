//! The short form of a plan, for the status of the stack.

use super::{Changes, ChildName};
use crate::api::PlanStatus;

impl From<&Changes> for PlanStatus {
    fn from(changes: &Changes) -> Self {
        let (blocked, restarts) = (changes.blocked.iter(), changes.restarts.iter());
        let risks = changes.risks.iter();
        Self {
            summary: format!(
                "{} to create, {} to change, {} to delete, {} restart, {} at risk",
                changes.created.len(),
                changes.changed.len(),
                changes.deleted.len(),
                changes.restarts.len(),
                changes.risks.len()
            ),
            created: names(changes.created.iter()),
            changed: names(changes.changed.iter().map(|changed| &changed.child)),
            deleted: names(changes.deleted.iter()),
            blocked: names(blocked.map(|blocked| &blocked.child)),
            restarts: names(restarts.map(|restart| &restart.child)),
            risks: risks
                .map(|risk| format!("{:?} {}: {}", risk.reason, risk.child, risk.message))
                .collect(),
        }
    }
}

fn names<'a>(children: impl Iterator<Item = &'a ChildName>) -> Vec<String> {
    children.map(ToString::to_string).collect()
}
