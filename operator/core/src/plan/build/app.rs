//! The app: a Deployment that shortens links and redirects, and the Service in front of it.

mod deployment;
mod service;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use deployment::deployment;
pub(super) use deployment::migrate;
pub use service::service;

use crate::plan::objects::pod;

/// Port of the public routes.
pub const PORT: i32 = 3000;
/// Name of the port of the public routes.
const PORT_NAME: &str = "http";

/// Returns the default requests and limits of the app's container, with memory for copies of links in bytes.
pub fn default_resources(near_memory: u64) -> ResourceRequirements {
    let own = pod::resources(["50m", "32Mi"], ["2", "128Mi"]);
    if near_memory == 0 {
        own
    } else {
        pod::with_extra_memory(own, near_memory)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;

    #[test]
    fn copies_of_links_have_room_beside_the_app() {
        let memory = |near_memory| {
            let resources = default_resources(near_memory);
            let of = |quantities: Option<BTreeMap<String, Quantity>>| {
                quantities.unwrap()["memory"].0.clone()
            };
            (of(resources.requests), of(resources.limits))
        };
        assert_eq!(memory(0), ("32Mi".to_owned(), "128Mi".to_owned()));
        assert_eq!(
            memory(16 << 20),
            ("50331648".to_owned(), "159383552".to_owned())
        );
    }
}
