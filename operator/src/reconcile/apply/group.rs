//! What is done for each kind in the groups of the table of child kinds, besides writing.

use shortener_operator_core::{
    child_kinds,
    model::{
        desired::{
            BrokerObjects, Children, DatabaseObjects, GatewayObjects, Item, MonitoringObjects,
        },
        kinds::Deletion,
        metadata::StackIdentity,
    },
};

use super::prune::End;
use crate::{kubernetes::inventory::Child, reconcile::context::Scope};

pub(super) trait Group {
    /// Returns true when one of the objects may have to be created.
    fn lacks_one(&self, scope: &Scope, identity: &StackIdentity) -> bool;

    /// Returns the end of each kind's objects, in the order of the table.
    fn ends() -> Vec<End>;
}

macro_rules! groups {
    ($(
        $(#[$about:meta])*
        $group:ident: $presence:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty $(as $desired:ty)?, $deletion:ident;)*
        }
    )*) => {$(
        impl Group for $group {
            fn lacks_one(&self, scope: &Scope, identity: &StackIdentity) -> bool {
                let lacking = [$(
                    self.$field.iter().any(|item| is_lacking::<$kind>(scope, identity, item))
                ),*];
                lacking.contains(&true)
            }

            fn ends() -> Vec<End> {
                vec![$(End::of::<$kind>(Deletion::$deletion)),*]
            }
        }
    )*};
}

/// Returns true when the watch does not show an object, or when it was found to be absent.
fn is_lacking<K: Child>(scope: &Scope, identity: &StackIdentity, item: &impl Item) -> bool {
    let name = item.metadata().name.as_deref().unwrap_or_default();
    item.is_absent() || !scope.inventory.contains::<K>(&identity.namespace, name)
}

child_kinds!(groups);
