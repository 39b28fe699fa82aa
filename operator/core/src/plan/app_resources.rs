//! The processor and the memory of the app's container, which depend on what it keeps.

use k8s_openapi::api::core::v1::ResourceRequirements;

use super::objects::{memory, pod};

/// Memory for the payloads of documents that queries hold at the same time, in bytes. The app sets it aside from its
/// limit.
const PAYLOADS: u64 = 64 << 20;

/// The smallest memory limit with which the app starts, beside copies of links and payloads, in bytes.
const SMALLEST_LIMIT: u64 = 64 << 20;

/// Returns the default requests and limits of the app's container, with memory for copies of links in bytes, and for
/// documents if there are any.
pub fn default_resources(near_memory: u64, documents: bool) -> ResourceRequirements {
    let own = pod::resources(["50m", "32Mi"], ["2", "128Mi"]);
    let own = if documents {
        memory::with_more(own, 0, PAYLOADS)
    } else {
        own
    };
    if near_memory == 0 {
        own
    } else {
        memory::with_copies(own, near_memory)
    }
}

/// Returns the smallest memory limit with which the app starts, in bytes, with memory for copies of links, and for
/// documents if there are any.
pub fn smallest_limit(near_memory: u64, documents: bool) -> u64 {
    let payloads = if documents { PAYLOADS } else { 0 };
    SMALLEST_LIMIT + payloads + memory::most_of_copies(near_memory)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use shortener_common::memory::Memory;

    use super::*;
    use crate::model::quantity;

    #[test]
    fn copies_of_links_have_room_beside_the_app() {
        let memory = |near_memory, documents| {
            let resources = default_resources(near_memory, documents);
            let of = |quantities: Option<BTreeMap<String, Quantity>>| {
                quantities.unwrap()["memory"].0.clone()
            };
            (of(resources.requests), of(resources.limits))
        };
        let texts = |request: &str, limit: &str| (request.to_owned(), limit.to_owned());
        assert_eq!(memory(0, false), texts("32Mi", "128Mi"));
        assert_eq!(memory(16 << 20, false), texts("50331648", "159383552"));
        assert_eq!(memory(0, true), texts("32Mi", "201326592"));
        assert_eq!(memory(16 << 20, true), texts("50331648", "226492416"));
    }

    #[test]
    fn by_default_the_app_has_the_memory_that_its_buffers_are_made_for() {
        let bytes = |near_memory, documents| {
            let limits = default_resources(near_memory, documents).limits.unwrap();
            quantity::bytes(&limits["memory"].0).unwrap()
        };
        let default = shortener_common::memory::DEFAULT_LIMIT;
        assert_eq!(bytes(0, false), default);
        assert_eq!(bytes(0, true), default + shortener_app::config::PAYLOADS);
        assert_eq!(bytes(16 << 20, false), default + (24 << 20));
    }

    #[test]
    fn the_app_starts_with_the_smallest_limit_and_not_with_less() {
        let table = [(0, false, 0), (16 << 20, true, (24 + 64) << 20)];
        for (near_memory, documents, reserved) in table {
            let limit = smallest_limit(near_memory, documents);
            assert!(Memory::within(limit, reserved).is_ok());
            assert!(Memory::within(limit - 1, reserved).is_err());
        }
    }
}
