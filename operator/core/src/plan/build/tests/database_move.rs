//! A stack whose links move from a managed database to one that CloudNativePG runs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    model::stack::{DatabaseMove, MoveCopy, MoveStep, Store},
    plan::stores,
    testing::golden,
};

/// Returns a stack that compares both databases.
fn moving() -> ValidatedStack {
    let managed = minimal_stack();
    let server = stores::stateful_set(Component::Postgres, &managed).unwrap();
    let mut stack = managed.cloud_native_pg(json!({}));
    let database: Store = stack.database.take().unwrap();
    stack.database_move = Some(DatabaseMove {
        step: MoveStep::Comparing,
        server: Some(Arc::new(server)),
        username: "shortener".to_owned(),
        copy: Some(MoveCopy {
            database,
            uid: "of-cluster".to_owned(),
        }),
    });
    stack.takes_no_writes = true;
    holding(stack, &[Component::Postgres])
}

/// Values that a user may write where an object belongs.
fn odd() -> [Value; 8] {
    let text = json!("x");
    let values = [
        text.clone(),
        json!({"initdb": text.clone()}),
        json!({"initdb": {"import": text}}),
    ];
    let [one, two, three] = values;
    [
        one,
        two,
        three,
        json!(null),
        json!([]),
        json!({}),
        json!({"initdb": null}),
        json!(7),
    ]
}

#[test]
fn a_template_of_any_shape_is_rendered_and_keeps_the_import() {
    let fields = [
        "bootstrap",
        "certificates",
        "externalClusters",
        "postgresql",
        "storage",
    ];
    for (field, value) in fields
        .into_iter()
        .flat_map(|field| odd().map(|value| (field, value)))
    {
        let mut stack = moving();
        let cluster = stack.cluster.as_mut().unwrap();
        cluster.template.insert(field.to_owned(), value.clone());
        let rendered = build(&stack).database.unwrap().clusters.remove(0);
        assert!(rendered.imports(), "{field} {value}");
        let initdb = &rendered.spec.fields["bootstrap"]["initdb"];
        assert_eq!(initdb["database"], "shortener", "{field} {value}");
        stack.database_move = None;
        assert_eq!(build(&stack).database.unwrap().clusters.len(), 1);
    }
}

#[test]
fn the_managed_database_takes_no_writes_and_is_compared_with_its_copy() {
    let children = build(&moving()).children;
    let of = |component: Component| {
        let policies = children.network_policies.iter();
        let found = policies.filter(move |policy| component_of(&policy.metadata) == component);
        found.cloned().collect::<Vec<NetworkPolicy>>()
    };
    golden("network-policies-move-database", &of(Component::Postgres));
    golden("network-policies-move", &of(Component::Move));
    let mut deployments = children.deployments.iter();
    let compare = deployments.find(|child| component_of(&child.metadata) == Component::Move);
    golden("deployment-move", &compare);
    golden("stateful-set-postgres-frozen", &children.stateful_sets);
}

#[test]
fn what_is_frozen_stays_so() {
    let mut stack = moving();
    let frozen = build(&stack).children.stateful_sets.remove(0);
    let moving = stack.database_move.as_mut().unwrap();
    moving.server = Some(Arc::new(frozen.clone()));
    assert_eq!(build(&stack).children.stateful_sets, [frozen]);
}

#[test]
fn nothing_is_imported_before_the_last_write() {
    let mut stack = moving();
    let clusters = |stack: &ValidatedStack| build(stack).database.unwrap().clusters;
    assert!(clusters(&stack)[0].imports());
    stack.database_move.as_mut().unwrap().step = MoveStep::Freezing;
    assert_eq!(clusters(&stack), []);
    stack.database_move = None;
    assert!(!clusters(&stack)[0].imports());
}
