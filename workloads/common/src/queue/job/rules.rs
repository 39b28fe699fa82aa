//! The rules for the jobs of the service's own tasks.

use std::time::Duration;

use super::Fields;
use crate::documents::DocumentId;

/// The task that makes a point of the vector store equal to its document.
pub const INDEX: &str = "index";
/// The task that makes the whole collection equal to the documents.
pub const REINDEX: &str = "reindex";
const WAIT: &str = "wait";
/// The names of the tasks that the service itself has. The default task handles every other name.
pub const BUILT_IN: [&str; 4] = [INDEX, "purge_expired", REINDEX, WAIT];
/// The maximum time of the task `wait`, in milliseconds.
const MAX_MS: u64 = 60_000;

/// A field that breaks the rule of its task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {rule}")]
pub struct FieldError {
    pub field: &'static str,
    /// The rule, which continues the name of the field.
    pub rule: String,
}

/// Returns true if the task of this name needs the vector store.
pub fn needs_vector_store(task: &str) -> bool {
    [INDEX, REINDEX].contains(&task)
}

impl Fields {
    /// Checks the fields that the task requires.
    ///
    /// # Errors
    /// Fails if one of them breaks its rule: the job can never succeed.
    pub fn check(&self) -> Result<(), FieldError> {
        match self.task.as_str() {
            INDEX => self.document().map(drop),
            WAIT => self.wait_time().map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the document of the task `index`.
    ///
    /// # Errors
    /// Fails if `id` is not the identifier of a document.
    pub fn document(&self) -> Result<DocumentId, FieldError> {
        let id = self.id.and_then(DocumentId::new);
        id.ok_or_else(|| FieldError {
            field: "id",
            rule: format!("must be a whole number from 0 to {}", DocumentId::MAX),
        })
    }

    /// Returns the time of the task `wait`.
    ///
    /// # Errors
    /// Fails if `ms` is not a time, or if it is too long.
    pub fn wait_time(&self) -> Result<Duration, FieldError> {
        let ms = self.ms.filter(|ms| *ms <= MAX_MS);
        ms.map(Duration::from_millis).ok_or_else(|| FieldError {
            field: "ms",
            rule: format!("must be a whole number of milliseconds up to {MAX_MS}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(body: &str) -> Fields {
        Fields::read(body.as_bytes()).unwrap()
    }

    #[test]
    fn each_task_has_its_own_rule_and_others_have_none() {
        for (body, wrong) in [
            ("{}", None),
            (r#"{"task":"email","id":"a","ms":-1}"#, None),
            (r#"{"task":"index","id":7}"#, None),
            (r#"{"task":"index"}"#, Some("id")),
            (r#"{"task":"wait","ms":7}"#, None),
            (r#"{"task":"w\u0061it","id":7}"#, Some("ms")),
            (r#"{"task":"reindex"}"#, None),
        ] {
            let error = fields(body).check().err();
            assert_eq!(error.map(|error| error.field), wrong, "{body}");
        }
    }

    #[test]
    fn a_document_is_named_by_an_unsigned_integer() {
        let largest = i64::MAX.to_string();
        let too_large = (DocumentId::MAX + 1).to_string();
        for (id, expected) in [
            ("0", Some(0)),
            (&largest, Some(DocumentId::MAX)),
            (&too_large, None),
            ("-1", None),
            ("1.5", None),
            ("\"1\"", None),
            ("null", None),
        ] {
            let document = fields(&format!("{{\"id\":{id}}}")).document();
            assert_eq!(document.map(DocumentId::get).ok(), expected, "{id}");
        }
        assert!(fields("{}").document().is_err());
    }

    #[test]
    fn the_time_to_wait_is_bounded() {
        for (ms, expected) in [
            ("0", Some(0)),
            ("60000", Some(60_000)),
            ("60001", None),
            ("-1", None),
            ("1.5", None),
            ("\"1\"", None),
            ("null", None),
        ] {
            let time = fields(&format!("{{\"ms\":{ms}}}")).wait_time();
            assert_eq!(time.ok(), expected.map(Duration::from_millis), "{ms}");
        }
        assert!(fields("{}").wait_time().is_err());
    }
}
