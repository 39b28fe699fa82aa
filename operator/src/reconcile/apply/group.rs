//! The groups of the table of child kinds, as steps of a pass.

use shortener_operator_core::{
    child_kinds,
    model::{
        desired::{Children, GatewayObjects, MonitoringObjects},
        kinds::Deletion,
    },
};

use super::{pass::Pass, prune::End};

/// A group of kinds.
pub(super) trait Group {
    /// Writes the objects, kind by kind in the order of the table.
    async fn write(self, pass: &mut Pass<'_>);

    /// Returns the end of each kind's objects, in the order of the table.
    fn ends() -> Vec<End>;
}

macro_rules! groups {
    ($(
        $(#[$about:meta])*
        $group:ident: $presence:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty $(as $desired:ty)?, $form:ident, $deletion:ident, $write:ident;)*
        }
    )*) => {$(
        impl Group for $group {
            async fn write(self, pass: &mut Pass<'_>) {
                $(pass.$write(self.$field).await;)*
            }

            fn ends() -> Vec<End> {
                vec![$(End::of::<$kind>(Deletion::$deletion)),*]
            }
        }
    )*};
}

child_kinds!(groups);
