//! A stack whose database CloudNativePG runs.

use serde_json::json;

use super::*;

#[test]
fn a_database_of_cloudnativepg_is_a_cluster_and_a_policy() {
    let stack = minimal_stack().cloud_native_pg(json!({}));
    let found = names(&stack);
    let of_database = |name: &&String| name.contains("postgres") || name.contains("acme-pg");
    let found: Vec<&String> = found.iter().filter(of_database).collect();
    assert_eq!(found, ["NetworkPolicy/acme-postgres", "Cluster/acme-pg"]);
}

#[test]
fn the_policy_and_the_cluster_do_not_wait_for_the_database() {
    let whole = names(&minimal_stack().cloud_native_pg(json!({})));
    let mut waiting = holding(minimal_stack(), &[Component::Postgres]);
    waiting.cluster = minimal_stack().cloud_native_pg(json!({})).cluster;
    waiting.database = None;
    let found = names(&waiting);
    for name in ["NetworkPolicy/acme-postgres", "Cluster/acme-pg"] {
        assert!(whole.iter().any(|other| other == name), "{whole:?}");
        assert!(found.iter().any(|other| other == name), "{found:?}");
    }
}
