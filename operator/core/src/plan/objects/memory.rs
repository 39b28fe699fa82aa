//! Memory of containers: the environment variables that state it, and additions to the limits.

use k8s_openapi::{
    api::core::v1::{EnvVar, EnvVarSource, ResourceFieldSelector, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use super::pod;
use crate::model::quantity;

/// Returns the variables by which the stack's own programs stay within the memory limit of their container.
pub(in crate::plan) fn env() -> Vec<EnvVar> {
    let limit = EnvVar {
        name: "MEMORY_LIMIT_BYTES".to_owned(),
        value_from: Some(EnvVarSource {
            resource_field_ref: Some(ResourceFieldSelector {
                resource: "limits.memory".to_owned(),
                // The API server would set another text for the same number.
                divisor: Some(Quantity("1".to_owned())),
                ..ResourceFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    // The allocator leaves most of a huge page unused, and has some before the program begins.
    vec![limit, pod::env("MIMALLOC_ALLOW_THP", "0")]
}

/// Adds memory for a program's copies of data, in bytes. The request grows by the size of the copies, the limit by one and
/// a half times the size, because freed memory returns to the system in whole pages only.
pub(in crate::plan) fn with_copies(
    resources: ResourceRequirements,
    copies: u64,
) -> ResourceRequirements {
    with_more(resources, copies, copies.saturating_add(copies / 2))
}

/// Adds memory to the request and to the limit, in bytes.
pub(in crate::plan) fn with_more(
    mut resources: ResourceRequirements,
    request: u64,
    limit: u64,
) -> ResourceRequirements {
    for (quantities, more) in [
        (&mut resources.requests, request),
        (&mut resources.limits, limit),
    ] {
        if more == 0 {
            continue;
        }
        let quantities = quantities.get_or_insert_default();
        let own = quantities.get("memory");
        let own = own.and_then(|own| quantity::bytes(&own.0)).unwrap_or(0);
        let memory = Quantity(own.saturating_add(more).to_string());
        quantities.insert("memory".to_owned(), memory);
    }
    resources
}
