//! Requests of the user in annotations of the stack, which no schema checks.

use kube_core::ResourceExt;

use crate::{
    api::ShortenerStack,
    model::metadata::{CONFIRM_DELETE, FORCE_DISABLE, PLAN_ONLY, RELEASE},
    plan::error::ValidateError,
};

/// Prefix of the annotations that this operator defines.
const PREFIX: &str = "shortener.dev/";

/// Checks the annotations of a stack that begin with the operator's prefix.
///
/// # Errors
/// One of them does not exist or has another value than it takes. Nothing may be written then: a misspelt `plan-only`
/// asks for just that.
pub(super) fn check(stack: &ShortenerStack) -> Result<(), ValidateError> {
    let own = stack
        .annotations()
        .iter()
        .filter(|(name, _)| name.starts_with(PREFIX));
    for (name, value) in own {
        let remedy = match name.as_str() {
            PLAN_ONLY | CONFIRM_DELETE if !matches!(value.as_str(), "true" | "false") => {
                "write true or false"
            }
            FORCE_DISABLE if value != "queue" => "write queue",
            PLAN_ONLY | FORCE_DISABLE | RELEASE | CONFIRM_DELETE => continue,
            _ => {
                "remove it, or correct its name: there are plan-only, force-disable, release and confirm-delete"
            }
        };
        return Err(ValidateError::UnknownRequest {
            annotation: format!("{name}={value}"),
            remedy,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shared::stored_stack;

    #[test]
    fn a_request_that_is_misspelt_is_refused_and_annotations_of_others_are_not_read() {
        for (name, value, part) in [
            ("shortener.dev/plan-only", "true", None),
            ("shortener.dev/plan-only", "yes", Some("true or false")),
            ("shortener.dev/planonly", "true", Some("plan-only")),
            ("shortener.dev/force-disable", "queue", None),
            ("shortener.dev/force-disable", "vector", Some("queue")),
            ("shortener.dev/release", "2", None),
            ("shortener.dev/confirm-delete", "true", None),
            ("shortener.dev/confirm-delete", "yes", Some("true or false")),
            ("argocd.argoproj.io/sync-wave", "1", None),
        ] {
            let mut stack = stored_stack(serde_json::json!({}));
            stack
                .annotations_mut()
                .insert(name.to_owned(), value.to_owned());
            let refused = check(&stack).err();
            assert_eq!(refused.is_some(), part.is_some(), "{name}");
            let text = refused.map(|error| error.to_string());
            let names = |part: &str| text.is_some_and(|text| text.contains(part));
            assert!(part.is_none_or(names), "{name}");
        }
    }
}
