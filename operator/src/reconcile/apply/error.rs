//! Errors of writing a child object.

use std::collections::BTreeMap;

use shortener_operator_core::model::{failure::StepFailure, metadata::Component};

use crate::kubernetes::refusal;

/// An error that names the children that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(.0))]
pub struct ApplyError(pub Vec<Failure>);

/// A child that could not be written.
#[derive(Debug)]
pub struct Failure {
    pub component: Component,
    /// Kind and name, as in `Service/demo-app`.
    pub child: String,
    pub cause: Cause,
}

/// Cause of a failure to write a child.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// An object outside the stack has the name.
    #[error(
        "an object of this name exists but does not belong to this stack (its owner references do not name the stack): \
         delete that object, or choose another name for the stack"
    )]
    NameTaken,
    /// An object whose owner is gone, such as an earlier stack of the same name, is still being deleted.
    #[error(
        "the object of an earlier stack of this name, or of a profile that was off, is still being deleted: wait, or \
         check its finalizers"
    )]
    Previous,
    /// A Secret was deleted after its data was read.
    #[error("it was deleted while the stack was reconciled: the operator retries")]
    Vanished,
    /// The API server refused the request or did not answer.
    #[error("{}", refusal::sentence(.0))]
    Api(#[from] kube::Error),
    /// The storage class of a volume claim does not let its volume grow.
    #[error(
        "StorageClass {class} does not let a volume grow, so the volume keeps its size and the store runs on: set the size \
         back to the one in status.volumes. To have the larger one, set allowVolumeExpansion of the class to true, if its \
         driver can expand volumes, or move the data to a stack of another class"
    )]
    NotExpandable {
        /// Name of the storage class.
        class: String,
    },
    /// Others change the child back.
    #[error(
        "another program sets {} again each time that the operator restores it: stop that program (`--show-managed-fields` of \
         `kubectl get` names it); the operator tries again, at least every five minutes",
        .0.join(", ")
    )]
    Contested(
        /// Paths of the fields.
        Vec<String>,
    ),
    /// The API server or a webhook did not answer before the timeout. The sentence leaves the time out, because one that
    /// varies would make every retry a change of the status.
    #[error("the API server, or a webhook that it calls, did not answer in time")]
    Timeout,
    /// The object cannot be written as JSON.
    #[error("the object cannot be rendered as JSON: {0}")]
    Render(#[from] serde_json::Error),
}

impl ApplyError {
    /// Returns the reason of the first failure for conditions and metrics, one of a fixed set.
    pub fn reason(&self) -> &'static str {
        self.0.first().map_or("ApplyFailed", Failure::reason)
    }
}

impl Failure {
    fn reason(&self) -> &'static str {
        match &self.cause {
            Cause::NameTaken => "NameTaken",
            Cause::Previous => "PreviousStackTerminating",
            Cause::Vanished => "ApplyFailed",
            Cause::Api(error) => refusal::reason(error, "ApplyFailed"),
            Cause::NotExpandable { .. } => "VolumeNotExpandable",
            Cause::Contested(_) => "Contested",
            Cause::Timeout => "DeadlineExceeded",
            Cause::Render(_) => "RenderFailed",
        }
    }
}

impl Cause {
    /// Returns true when the next try often succeeds.
    pub(super) fn is_brief(&self) -> bool {
        match self {
            Self::Vanished | Self::Timeout => true,
            Self::Api(kube::Error::Api(status)) => {
                matches!(status.code, 409 | 429 | 500..)
            }
            Self::Api(_) => true,
            Self::NameTaken
            | Self::Previous
            | Self::NotExpandable { .. }
            | Self::Contested(_)
            | Self::Render(_) => false,
        }
    }
}

/// Returns the first failure of each component, as the status reports it.
pub(super) fn by_component<'a>(
    failures: impl IntoIterator<Item = &'a Failure>,
) -> BTreeMap<Component, StepFailure> {
    let mut first = BTreeMap::new();
    for failure in failures {
        first
            .entry(failure.component)
            .or_insert_with(|| StepFailure {
                reason: failure.reason(),
                message: format!("{}: {}", failure.child, failure.cause),
                needs_an_edit: false,
                waits: false,
            });
    }
    first
}

fn describe(failures: &[Failure]) -> String {
    let Some(first) = failures.first() else {
        return "no child failed".to_owned();
    };
    let more = match failures.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    format!("{}: {}{more}", first.child, first.cause)
}
