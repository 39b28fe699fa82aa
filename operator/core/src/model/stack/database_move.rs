//! A move of the links from the managed database of a stack to its Cluster of CloudNativePG.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;

use super::Store;

/// A move in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseMove {
    pub step: MoveStep,
    /// The StatefulSet of the managed database; `None` once it is gone.
    pub server: Option<Arc<StatefulSet>>,
    /// The user of the managed database, while that is needed.
    pub username: String,
    /// The Cluster with the copy, while both are compared and until the managed database has stopped.
    pub copy: Option<MoveCopy>,
}

/// The copy of the links.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveCopy {
    /// The database of the Cluster.
    pub database: Store,
    /// The uid of the Cluster.
    pub uid: String,
}

/// The steps of a move, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveStep {
    /// The managed database restarts and then takes no writes.
    Freezing,
    /// CloudNativePG imports the links, and enough servers join.
    Importing,
    /// The tables of both databases are compared.
    Comparing,
    /// The managed database stops, so that no program reads from it what another one has changed in the Cluster.
    Stopping,
    /// The programs get the Cluster.
    Switching,
}
