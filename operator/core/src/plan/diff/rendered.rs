//! The child objects of a plan as JSON, from the table of kinds.

use kube_core::Resource;
use serde::Serialize;
use serde_json::Value;

use super::ChildName;
use crate::model::{
    desired::{
        BrokerObjects, Children, DatabaseObjects, Desired, GatewayObjects, MonitoringObjects,
    },
    kinds::Deletion,
};

/// A child as it is applied.
pub(super) struct Rendered {
    /// Kind and name.
    pub(super) child: ChildName,
    /// The object, without the fields that every object of the kind has.
    pub(super) object: Value,
    /// True when it is created if it does not exist.
    pub(super) creates: bool,
    /// Treatment when it is no longer desired.
    pub(super) deletion: Deletion,
}

/// The kinds of objects that end when they are no longer desired.
#[derive(Default)]
pub(super) struct Ends {
    /// Kinds whose objects are deleted.
    pub(super) pruned: Vec<String>,
    /// Kinds whose objects are deleted only with the data of a store.
    pub(super) retained: Vec<String>,
}

/// A group of the table.
trait Objects {
    /// Returns the objects, kind by kind in the order of the table.
    fn rendered(&self) -> Result<Vec<Rendered>, serde_json::Error>;

    /// Returns the kinds with the treatment of their objects.
    fn kinds() -> Vec<(String, Deletion)>;
}

/// Renders an item of the list of a kind.
macro_rules! object {
    ($kind:ty, $item:expr, $deletion:expr) => {
        render::<$kind>($item, true, $deletion)
    };
    ($kind:ty as $desired:ty, $item:expr, $deletion:expr) => {
        render::<$kind>(&$item.secret, $item.create.is_some(), $deletion)
    };
}

macro_rules! groups {
    ($(
        $(#[$about:meta])*
        $group:ident: $presence:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty $(as $desired:ty)?, $deletion:ident;)*
        }
    )*) => {$(
        impl Objects for $group {
            fn rendered(&self) -> Result<Vec<Rendered>, serde_json::Error> {
                let mut all = Vec::new();
                $(for item in &self.$field {
                    all.push(object!($kind $(as $desired)?, item, Deletion::$deletion)?);
                })*
                Ok(all)
            }

            fn kinds() -> Vec<(String, Deletion)> {
                vec![$((kind::<$kind>(), Deletion::$deletion)),*]
            }
        }
    )*};
}

crate::child_kinds!(groups);

/// Returns every child, in the order in which they are written.
pub(super) fn children(desired: &Desired) -> Result<Vec<Rendered>, serde_json::Error> {
    let mut all = desired.children.rendered()?;
    if let Some(database) = &desired.database {
        all.extend(database.rendered()?);
    }
    if let Some(broker) = &desired.broker {
        all.extend(broker.rendered()?);
    }
    if let Some(gateway) = &desired.gateway {
        all.extend(gateway.rendered()?);
    }
    if let Some(monitoring) = &desired.monitoring {
        all.extend(monitoring.rendered()?);
    }
    Ok(all)
}

/// Returns the kinds whose objects an apply deletes.
pub(super) fn ends(desired: &Desired) -> Ends {
    let mut kinds = Vec::new();
    if desired.prunable {
        kinds.extend(Children::kinds());
        if desired.database.is_some() {
            kinds.extend(DatabaseObjects::kinds());
        }
        if desired.broker.is_some() {
            kinds.extend(BrokerObjects::kinds());
        }
        if desired.gateway.is_some() {
            kinds.extend(GatewayObjects::kinds());
        }
    }
    if desired.monitoring.is_some() {
        kinds.extend(MonitoringObjects::kinds());
    }
    let mut ends = Ends::default();
    for (kind, deletion) in kinds {
        match deletion {
            Deletion::Pruned => ends.pruned.push(kind),
            Deletion::Retained => ends.retained.push(kind),
        }
    }
    ends
}

/// Returns the kinds whose objects may outlive the stack, group by group in the order in which they are written.
pub(super) fn retained() -> [Vec<String>; 3] {
    let groups = [
        Children::kinds(),
        DatabaseObjects::kinds(),
        BrokerObjects::kinds(),
    ];
    groups.map(|kinds| {
        let retained = kinds
            .into_iter()
            .filter(|(_, deletion)| *deletion == Deletion::Retained);
        retained.map(|(kind, _)| kind).collect()
    })
}

fn render<K: Resource<DynamicType = ()> + Serialize>(
    object: &K,
    creates: bool,
    deletion: Deletion,
) -> Result<Rendered, serde_json::Error> {
    let mut value = serde_json::to_value(object)?;
    if let Some(fields) = value.as_object_mut() {
        // Items of a list have no kind, and only controllers write a status.
        fields.retain(|field, _| !["apiVersion", "kind", "status"].contains(&field.as_str()));
    }
    Ok(Rendered {
        child: ChildName {
            kind: kind::<K>(),
            name: object.meta().name.clone().unwrap_or_default(),
        },
        object: value,
        creates,
        deletion,
    })
}

fn kind<K: Resource<DynamicType = ()>>() -> String {
    K::kind(&()).into_owned()
}
