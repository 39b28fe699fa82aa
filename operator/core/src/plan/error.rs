//! The errors of validation.

mod database_move;

pub use database_move::MoveProblem;

use crate::model::{failure::StepFailure, metadata::USABLE_BY_STACKS, store_cluster::Runner};

/// Maximum length of a user name, a password or a key of a managed store in bytes.
pub(in crate::plan) const MAX_CREDENTIAL: usize = 1024;

/// An error that keeps a stack from being built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValidateError {
    /// An annotation of the stack asks for something that the operator does not know.
    #[error("annotation {annotation}: {remedy}")]
    UnknownRequest {
        /// Name and value of the annotation.
        annotation: String,
        remedy: &'static str,
    },
    /// A credential is missing although its volume exists.
    #[error(
        "Secret {secret} is missing, but volume claim {secret} needs its credentials: restore the Secret ({} {}, label \
         app.kubernetes.io/instance={stack}), or delete the volume claim to start with an empty volume",
        if keys.len() == 1 { "key" } else { "keys" },
        keys.join(" and ")
    )]
    CredentialsMissing {
        /// Name of the Secret, and of its volume.
        secret: String,
        /// Name of the stack.
        stack: String,
        /// Keys that the Secret must contain.
        keys: &'static [&'static str],
    },
    /// A credential, or the volume that needed it, is still being deleted.
    #[error(
        "{kind} {name} is still being deleted: wait until the operator can create a new one; if it does not disappear, \
         delete the pod that uses it, or check its finalizers"
    )]
    DataTerminating {
        /// Kind of the object: Secret or volume claim.
        kind: &'static str,
        name: String,
    },
    /// A credential lacks a key.
    #[error("Secret {secret} has no value for key {key}: add it")]
    CredentialsIncomplete {
        /// Name of the Secret.
        secret: String,
        /// Missing key.
        key: &'static str,
    },
    /// A credential that two programs may read differently.
    #[error(
        "Secret {secret}: the value of key {key} must be 1 to {MAX_CREDENTIAL} printable ASCII characters without a space \
         at either end: write another one (a line break at the end often comes from a file)"
    )]
    CredentialsUnusable {
        /// Name of the Secret.
        secret: String,
        key: &'static str,
    },
    /// A Secret that the spec refers to does not exist or lacks the key.
    #[error(
        "{field}.external: Secret {secret} with key {key} does not exist: create it, or correct the reference"
    )]
    SecretNotFound {
        field: &'static str,
        /// Name of the Secret.
        secret: String,
        /// The key, or the keys of which one is required.
        key: String,
    },
    /// A Secret that users who edit stacks may not use.
    #[error(
        "{field}: Secret {secret} does not exist or lacks the label {USABLE_BY_STACKS}=true, which admits it (podTemplatePolicy Restricted of the operator): create or label it, or remove the reference"
    )]
    SecretNotUsable {
        field: String,
        /// Name of the Secret.
        secret: String,
    },
    /// A volume claim that users who edit stacks may not use.
    #[error(
        "database.restoreFrom.claimName: volume claim {0} does not exist, or the operator has not made it for backups and it lacks the label {USABLE_BY_STACKS}=true, which admits it (podTemplatePolicy Restricted of the operator): create or label it, or remove the reference"
    )]
    ClaimNotUsable(String),
    /// The Secret with the headers for a backend does not exist or is empty.
    #[error(
        "observability.backend.external.headersSecretRef: Secret {0} does not exist or is empty: create it with a key for each header, or correct the reference"
    )]
    HeadersNotFound(String),
    /// A quantity that the schema accepts but the operator cannot use.
    #[error("{field}: {value} is not a usable size: write a quantity such as 128Mi")]
    NotASize {
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// A label whose key Kubernetes does not accept.
    #[error(
        "{field}: {key} is not a valid label key: write at most 63 letters, digits, '-', '_' and '.', optionally after a \
         domain and '/'"
    )]
    NotALabel { field: &'static str, key: String },
    /// An annotation whose key Kubernetes does not accept.
    #[error(
        "{field}: {key} is not a valid annotation key: write at most 63 letters, digits, '-', '_' and '.', optionally \
         after a domain and '/'"
    )]
    NotAnAnnotation { field: &'static str, key: String },
    /// The gateway provider needs a Gateway and the spec names none, which the schema refuses.
    #[error(
        "gateway.parentRefs: gateway.provider GatewayAPI needs a Gateway, and none is named: set its name"
    )]
    NoGateway,
    /// A target for visitors is the stack itself.
    #[error(
        "{field}: {target} is an address of this stack itself, where a browser would be redirected again and again: name another one"
    )]
    TargetIsOwn {
        field: &'static str,
        /// Its value.
        target: String,
    },
    /// Changes of a pod template that do not fit it, or that take away what the component does not work without.
    #[error("{field}.podTemplate: {path} {problem}")]
    PodTemplate {
        field: &'static str,
        /// Path in the template.
        path: String,
        /// Its problem with the remedy.
        problem: String,
    },
    /// The facts about a component could not be read.
    #[error("{}", .0.message)]
    Unread(StepFailure),
    /// Changes of a Cluster that the operator does not take.
    #[error("{field}.template: {path} {problem}")]
    ClusterTemplate {
        /// Field of the spec that has the template.
        field: &'static str,
        /// Path in the template.
        path: String,
        /// Its problem with the remedy.
        problem: String,
    },
    /// Kubernetes lacks the kind of another operator.
    #[error(
        "{}: the cluster does not serve the kind {} of {}, or the operator may not read it: install {}, and let the chart's rights include it; until then the {} stays as it is",
        .0.field, .0.kind, .0.api, .0.versions, .0.noun
    )]
    ClusterKindMissing(&'static Runner),
    /// The version of CloudNativePG has a hole.
    #[error(
        "database.cloudNativePG: with CloudNativePG {0} whoever reads the database's metrics becomes its superuser (CVE-2026-44477): upgrade CloudNativePG to 1.28.3, 1.29.1 or later"
    )]
    ClusterVulnerable(String),
    /// Another operator is making the store.
    #[error("{} {cluster} of {} makes the {}: {phase}", .runner.kind, .runner.operator, .runner.noun)]
    ClusterStarting {
        runner: &'static Runner,
        /// Name of the object.
        cluster: String,
        /// Phase that the other operator reports.
        phase: String,
    },
    /// The links of a managed database are not in use in the Cluster yet.
    #[error("{0}")]
    Move(MoveProblem),
    /// A Secret with a child's name does not belong to the stack.
    #[error(
        "Secret {0} does not belong to this stack: delete it, or choose another stack name; if you restored it for this \
         stack, give it the label app.kubernetes.io/instance with the name of the stack"
    )]
    NameTaken(String),
    /// A volume claim with a child's name does not belong to the stack, and there is no Secret of that name.
    #[error(
        "volume claim {claim} does not belong to this stack: delete it, or choose another stack name; if it holds the data \
         of this stack, restore Secret {claim} and give both the label app.kubernetes.io/instance={stack}"
    )]
    ClaimTaken {
        /// Name of the volume claim, and of its Secret.
        claim: String,
        /// Name of the stack.
        stack: String,
    },
    /// An image to which no step leads from the version of the data on the volume.
    #[error(
        "{field}: {wanted} does not fit volume claim {claim}, which has data of {data}: {remedy}"
    )]
    VersionRefused {
        field: &'static str,
        /// The image.
        wanted: String,
        /// Name of the volume's claim.
        claim: String,
        /// Name and version of the server that wrote the data.
        data: String,
        remedy: String,
    },
}

impl ValidateError {
    /// Returns the reason for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        self.kind().0
    }

    /// Returns true when only an edit of the spec helps. An error that depends on another object can resolve without
    /// one.
    pub fn needs_an_edit(&self) -> bool {
        self.kind().1
    }

    /// Returns the reason, and true when only an edit of the spec helps.
    fn kind(&self) -> (&'static str, bool) {
        match self {
            Self::UnknownRequest { .. } => ("UnknownRequest", true),
            Self::CredentialsMissing { .. } => ("CredentialsMissing", false),
            Self::DataTerminating { .. } => ("DataTerminating", false),
            Self::CredentialsIncomplete { .. } => ("CredentialsIncomplete", false),
            Self::CredentialsUnusable { .. } => ("CredentialsUnusable", false),
            Self::SecretNotFound { .. } | Self::HeadersNotFound(_) => ("SecretNotFound", false),
            Self::SecretNotUsable { .. } => ("SecretNotUsable", false),
            Self::ClaimNotUsable(_) => ("ClaimNotUsable", false),
            Self::NotASize { .. } => ("NotASize", true),
            Self::NotALabel { .. } => ("NotALabel", true),
            Self::NotAnAnnotation { .. } => ("NotAnAnnotation", true),
            Self::NoGateway => ("NoGateway", true),
            Self::TargetIsOwn { .. } => ("TargetIsOwn", true),
            Self::PodTemplate { .. } => ("PodTemplateRefused", true),
            Self::Unread(failure) => (failure.reason, false),
            Self::ClusterTemplate { .. } => ("TemplateRefused", true),
            Self::ClusterKindMissing(_) => ("ClusterKindMissing", false),
            Self::ClusterVulnerable(_) => ("ClusterVulnerable", false),
            Self::ClusterStarting { .. } => ("ClusterStarting", false),
            Self::Move(problem) => (problem.reason(), problem.needs_an_edit()),
            Self::NameTaken(_) | Self::ClaimTaken { .. } => ("NameTaken", false),
            Self::VersionRefused { .. } => ("VersionRefused", true),
        }
    }
}

impl From<&ValidateError> for StepFailure {
    fn from(error: &ValidateError) -> Self {
        Self {
            reason: error.reason(),
            message: error.to_string(),
            needs_an_edit: error.needs_an_edit(),
            waits: match error {
                ValidateError::ClusterStarting { .. } => true,
                ValidateError::Move(problem) => problem.waits(),
                _ => false,
            },
        }
    }
}
