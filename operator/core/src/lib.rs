//! The pure half of the operator: the resource, the data of a reconcile, and the functions from a spec and facts to
//! child objects, and from an outcome to a status.
//!
//! Equal input gives equal output. This crate depends on no client, no runtime and no random source, and its
//! `clippy.toml` forbids clocks, the environment, files and the network. The crate `shortener-operator` reads the
//! facts, calls the two halves of [`plan::plan`], writes the objects, and reports the result of [`plan::status()`].
//!
//! Reading order: [`api`], [`model::facts`], [`model::stack`], then [`plan`].

pub mod api;
pub mod definition;
pub mod model;
pub mod plan;

#[cfg(test)]
mod testing;

// The name by which other crates know this one, for `testing/shared.rs`, which the tests of the operator share.
#[cfg(test)]
extern crate self as shortener_operator_core;

#[cfg(test)]
mod tests {
    /// Returns the names in a section of this crate's manifest.
    fn section(name: &str) -> Vec<&'static str> {
        let manifest = include_str!("../Cargo.toml");
        let (_, rest) = manifest.split_once(&format!("\n[{name}]\n")).unwrap();
        let section = rest.split("\n[").next().unwrap();
        let lines = section.lines().filter(|line| !line.starts_with('#'));
        let names = lines.filter_map(|line| line.split(['.', ' ']).next());
        names.filter(|name| !name.is_empty()).collect()
    }

    #[test]
    fn every_dependency_is_free_of_clients_runtimes_and_random_sources() {
        let pure = [
            "base64",
            "hmac",
            "json-patch",
            "k8s-openapi",
            "kube-core",
            "kube-derive",
            "schemars",
            "serde",
            "serde_json",
            "serde_yaml",
            "sha2",
            "thiserror",
        ];
        assert_eq!(section("dependencies"), pure);
    }
}
