//! The processor and the memory of the app's container, which depend on what it keeps.

use k8s_openapi::api::core::v1::ResourceRequirements;

use super::objects::{memory, pod};

/// Memory for the payloads of documents that queries hold at the same time, in bytes. The app sets it aside from its
/// limit.
const PAYLOADS: u64 = 64 << 20;

/// Returns the default requests and limits of the app's container, with memory for documents if there are any.
pub fn default_resources(documents: bool) -> ResourceRequirements {
    let own = pod::resources(["50m", "32Mi"], ["2", "128Mi"]);
    if documents {
        memory::with_more(own, 0, PAYLOADS)
    } else {
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::quantity;

    #[test]
    fn by_default_the_app_has_the_memory_that_its_buffers_are_made_for() {
        let bytes = |documents| {
            let limits = default_resources(documents).limits.unwrap();
            quantity::bytes(&limits["memory"].0).unwrap()
        };
        let default = shortener_common::memory::DEFAULT_LIMIT;
        assert_eq!(bytes(false), default);
        assert_eq!(bytes(true), default + shortener_app::config::PAYLOADS);
    }
}
