//! The state of a stack's Cluster of CloudNativePG, as the operator reads it before it decides.

use crate::model::{
    cloud_native_pg::{Cluster, is_vulnerable},
    kinds::Deletion,
    metadata::StackIdentity,
    ownership::{Ownership, ownership},
};

/// The Cluster that holds the database of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClusterFact {
    /// The cluster does not serve the kind, or the operator may not list it.
    #[default]
    Unserved,
    /// Its database is not made yet; with the phase that CloudNativePG reports, if it does.
    Starting(Option<String>),
    /// A version of CloudNativePG runs it that must not.
    Vulnerable(String),
    /// Its database has been made. It may be unavailable now.
    Started,
}

impl ClusterFact {
    /// Returns the fact about the live object of the Cluster's name, if there is one, and the version of CloudNativePG, if
    /// that is known.
    pub fn of(live: Option<&Cluster>, version: Option<&str>, identity: &StackIdentity) -> Self {
        if let Some(version) = version.filter(|version| is_vulnerable(version)) {
            return Self::Vulnerable(version.to_owned());
        }
        let is_ours = |live: &&Cluster| {
            ownership(&live.metadata, identity, Deletion::Retained) == Ownership::Ours
        };
        match live.filter(is_ours) {
            Some(cluster) if cluster.has_started() => Self::Started,
            // That of others is reported when the operator cannot write it.
            other => Self::Starting(other.and_then(Cluster::phase)),
        }
    }
}
