//! The output of `build` and input of `apply`: every child object of a stack, by kind.

use std::collections::BTreeSet;

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube_core::Resource;

use super::metadata::{Component, component_of};

/// Every child object of a stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Objects that the stack depends on.
    pub children: Children,
    /// Objects of CloudNativePG; `None` if the cluster does not serve these kinds.
    pub database: Option<DatabaseObjects>,
    /// Objects of RabbitMQ's operator; `None` if the cluster does not serve these kinds.
    pub broker: Option<BrokerObjects>,
    /// Objects of the Gateway API; `None` if the cluster does not serve these kinds.
    pub gateway: Option<GatewayObjects>,
    /// Monitoring objects; `None` if the cluster does not serve these kinds.
    pub monitoring: Option<MonitoringObjects>,
    /// Stores whose volumes and Secrets are to be deleted.
    pub discarded: Vec<Component>,
    /// Stores whose data outlives the stack: what the lists lack of it loses its owner.
    pub released: Vec<Component>,
    /// True when the lists are complete, so that an object outside them may be deleted. False while an address that a
    /// child is rendered from is unknown.
    pub prunable: bool,
    /// Clients of the broker that process a job, if workers are to be removed: their pods are removed last.
    pub spared: Option<BTreeSet<String>>,
    /// Components of which no object is deleted: the lists lack theirs, because they are held.
    pub held: BTreeSet<Component>,
}

/// A Secret whose data is written only on creation.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredSecret {
    /// Metadata without generated data and without the type, which never changes, applied like any other child.
    pub secret: Secret,
    /// The Secret with its data, if it has yet to be created.
    pub create: Option<Secret>,
}

/// An item of the list of a kind.
pub trait Item {
    /// Returns the metadata of the object.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns true when the object was found to be absent, whatever the watch shows.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<K: Resource> Item for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }
}

impl Item for DesiredSecret {
    fn metadata(&self) -> &ObjectMeta {
        &self.secret.metadata
    }

    fn is_absent(&self) -> bool {
        self.create.is_some()
    }
}

/// The type of the items in the list of a kind.
macro_rules! item {
    ($kind:ty) => {
        $kind
    };
    ($kind:ty as $desired:ty) => {
        $desired
    };
}

macro_rules! groups {
    ($(
        $(#[$about:meta])*
        $group:ident: $presence:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty $(as $desired:ty)?, $deletion:ident;)*
        }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $group {
            $($(#[$doc])* pub $field: Vec<item!($kind $(as $desired)?)>,)*
        }

        impl $group {
            /// Removes the objects of components.
            pub fn remove(&mut self, components: &BTreeSet<Component>) {
                $(self.$field.retain(|item| !components.contains(&component_of(Item::metadata(item))));)*
            }
        }
    )*};
}

crate::child_kinds!(groups);
