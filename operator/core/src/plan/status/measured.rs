//! The conditions that probes measure beside the reconciles.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::plan::conditions::{self, END_TO_END, Verdict, View};

/// Returns the conditions that are measured.
pub(super) fn results(
    view: View<'_>,
    previous: &[Condition],
    stamp: impl Fn((&'static str, Verdict)) -> Condition,
) -> Vec<Condition> {
    let found = conditions::measured(view).into_iter();
    let found = found.filter_map(|(type_, verdict)| {
        let old = previous.iter().find(|old| old.type_ == type_);
        measured(old, verdict.map(|verdict| stamp((type_, verdict))))
    });
    found.collect()
}

/// Returns a condition that is measured, from the earlier one and the new one, if it is known.
fn measured(old: Option<&Condition>, new: Option<Condition>) -> Option<Condition> {
    match (old, new) {
        // This process has not measured yet.
        (old, None) => old.cloned(),
        // Each end-to-end probe has a time and a trace of its own. Those of the first one with this result stay.
        (Some(old), Some(new)) if new.type_ == END_TO_END => {
            let same = old.status == new.status && old.reason == new.reason;
            let message = if same {
                old.message.clone()
            } else {
                new.message
            };
            Some(Condition { message, ..new })
        }
        (_, new) => new,
    }
}
