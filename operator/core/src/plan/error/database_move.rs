//! What keeps a move of the links to a Cluster from its next step.

use crate::model::{cloud_native_pg::RUNNER, stack::MoveStep};

/// The reason for which the links of a managed database are not in use in the Cluster yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveProblem {
    /// A step takes its time.
    #[error("{}", .step.message(.cluster, .phase.as_deref()))]
    Waits {
        step: MoveStep,
        /// Name of the Cluster.
        cluster: String,
        /// Phase that CloudNativePG reports.
        phase: Option<String>,
    },
    /// The copy, beside which its dump lies during the import, may not fit.
    #[error(
        "{}.storage: {wanted} is too small for the links of the managed database, because the import needs 2.5 times the size of volume claim {claim}: set at least {least}",
        RUNNER.field
    )]
    TooSmall {
        wanted: String,
        /// Name of the volume claim of the managed database.
        claim: String,
        least: String,
    },
    /// There is a Cluster already, and the managed database takes writes.
    #[error(
        "{}: Cluster {cluster} exists already, and the managed database may have newer links: delete the Cluster if nobody needs its content (kubectl delete clusters.postgresql.cnpg.io {cluster}), or set database.managed again while the stack is paused{}",
        RUNNER.field,
        as_it_is(.server.as_deref())
    )]
    ClusterExists {
        cluster: String,
        /// Name of the StatefulSet of the managed database, if the Cluster is no copy of it.
        server: Option<String>,
    },
    /// The managed database vanished before its links were in use in the Cluster.
    #[error(
        "{}: StatefulSet {server} is gone before all links were compared with those in Cluster {cluster}: set database.managed again while the stack is paused, and delete the Cluster before another move",
        RUNNER.field
    )]
    Interrupted { cluster: String, server: String },
    /// The volume of a managed database is there, and neither its server nor a Cluster.
    #[error(
        "{}: volume claim {claim} has links, and no managed database runs from which they could move: set database.managed again while the stack is paused, and write cloudNativePG in its place when that database is ready; or delete the volume claim to begin without links",
        RUNNER.field
    )]
    VolumeLeft {
        /// Name of the volume claim.
        claim: String,
    },
    /// The stack asks for a managed database whose volume is older than the links in the Cluster.
    #[error(
        "database.managed: the newest links are in Cluster {cluster}, and volume claim {claim} has older ones: set database.cloudNativePG again, or move the links back with a backup and database.restoreFrom, as docs/high-availability.md describes"
    )]
    BackNeedsBackup {
        cluster: String,
        /// Name of the volume claim of the managed database.
        claim: String,
    },
}

/// Returns the remedy for a Cluster that is no copy of the managed database, whose StatefulSet has this name.
fn as_it_is(server: Option<&str>) -> String {
    let remedy = |server| {
        format!(
            "; to use the Cluster as it is instead, delete StatefulSet {server} while the stack is paused"
        )
    };
    server.map(remedy).unwrap_or_default()
}

impl MoveProblem {
    /// Returns the reason for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Waits { step, .. } => step.reason(),
            Self::TooSmall { .. } => "MoveTooSmall",
            Self::ClusterExists { .. } => "MoveClusterExists",
            Self::Interrupted { .. } => "MoveInterrupted",
            Self::VolumeLeft { .. } => "MoveVolumeLeft",
            Self::BackNeedsBackup { .. } => "MoveBackNeedsBackup",
        }
    }

    /// Returns true when only an edit of the spec helps.
    pub fn needs_an_edit(&self) -> bool {
        matches!(self, Self::TooSmall { .. })
    }

    /// Returns true when nothing has to be done.
    pub fn waits(&self) -> bool {
        matches!(self, Self::Waits { .. })
    }
}

impl MoveStep {
    fn reason(self) -> &'static str {
        match self {
            Self::Freezing => "MoveFreezing",
            Self::Importing => "MoveImporting",
            Self::Comparing => "MoveComparing",
            Self::Stopping => "MoveStopping",
            Self::Switching => "MoveSwitching",
        }
    }

    fn message(self, cluster: &str, phase: Option<&str>) -> String {
        let phase = phase.unwrap_or("it has not begun");
        let done = match self {
            Self::Freezing => "the managed database restarts without writes".to_owned(),
            Self::Importing => {
                format!("CloudNativePG imports the links into Cluster {cluster}: {phase}")
            }
            Self::Comparing => {
                format!("the tables of the managed database and of Cluster {cluster} are compared")
            }
            Self::Stopping => {
                format!("all links are in Cluster {cluster}, and the managed database stops")
            }
            Self::Switching => format!("the programs get Cluster {cluster}"),
        };
        format!("{done}; until the links have moved, writes get 503 and links redirect")
    }
}
