//! Tests that the in-memory server behaves like a real one where the operator's tests rely on it.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams},
};
use serde_json::json;

use super::{scenario::key, *};

const NAMESPACE: &str = "links";

fn api(server: &FakeApiServer) -> Api<ConfigMap> {
    Api::namespaced(server.client(), NAMESPACE)
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": name}}, "data": data})
}

async fn apply(server: &FakeApiServer, data: Value) -> kube::Result<ConfigMap> {
    api(server)
        .patch(
            "acme",
            &PatchParams::apply("ours"),
            &Patch::Apply(map("acme", data)),
        )
        .await
}

#[tokio::test]
async fn an_apply_creates_changes_and_removes_what_it_owns() {
    let server = FakeApiServer::default();
    let first = apply(&server, json!({"a": "1", "b": "2"})).await.unwrap();
    server.edit::<ConfigMap>(NAMESPACE, "acme", |map| map["data"]["foreign"] = "3".into());
    let second = apply(&server, json!({"a": "4"})).await.unwrap();
    assert_eq!(first.uid(), second.uid());
    assert_ne!(first.resource_version(), second.resource_version());
    let expected = [
        ("a".to_owned(), "4".to_owned()),
        ("foreign".to_owned(), "3".to_owned()),
    ];
    assert_eq!(second.data.unwrap(), expected.into());
    let effects: Vec<_> = server
        .writes()
        .into_iter()
        .map(|write| write.effect)
        .collect();
    assert_eq!(effects, [Some(Effect::Created), Some(Effect::Changed)]);
}

#[tokio::test]
async fn an_equal_apply_changes_nothing() {
    let server = FakeApiServer::default();
    let first = apply(&server, json!({"a": "1"})).await.unwrap();
    let second = apply(&server, json!({"a": "1"})).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(server.writes()[1].effect, Some(Effect::Unchanged));
}

#[tokio::test]
async fn a_field_that_somebody_changed_is_theirs_until_an_apply_is_forced() {
    let server = FakeApiServer::default();
    let ours = |map: &ConfigMap| {
        let entry = map
            .managed_fields()
            .iter()
            .find(|entry| entry.manager.as_deref() == Some("ours"))
            .unwrap();
        entry.fields_v1.as_ref().unwrap().0["f:data"].clone()
    };
    assert_eq!(
        ours(&apply(&server, json!({"a": "1", "b": "2"})).await.unwrap()),
        json!({"f:a": {}, "f:b": {}})
    );
    server.edit::<ConfigMap>(NAMESPACE, "acme", |map| map["data"]["a"] = "9".into());
    assert_eq!(
        ours(&server.get(NAMESPACE, "acme").unwrap()),
        json!({"f:b": {}})
    );
    let kube::Error::Api(conflict) = apply(&server, json!({"a": "1"})).await.unwrap_err() else {
        panic!()
    };
    assert_eq!(conflict.code, 409);
    let forced = PatchParams::apply("ours").force();
    let patch = Patch::Apply(map("acme", json!({"a": "1"})));
    assert_eq!(
        ours(&api(&server).patch("acme", &forced, &patch).await.unwrap()),
        json!({"f:a": {}})
    );
}

#[tokio::test]
async fn creating_twice_conflicts_and_deleting_another_uid_is_refused() {
    let server = FakeApiServer::default();
    let wanted: ConfigMap = serde_json::from_value(map("acme", json!({}))).unwrap();
    api(&server)
        .create(&PostParams::default(), &wanted)
        .await
        .unwrap();
    let kube::Error::Api(status) = api(&server)
        .create(&PostParams::default(), &wanted)
        .await
        .unwrap_err()
    else {
        panic!()
    };
    assert!(status.is_already_exists());
    let other = Preconditions {
        uid: Some("other".to_owned()),
        resource_version: None,
    };
    let params = DeleteParams {
        preconditions: Some(other),
        ..DeleteParams::default()
    };
    assert!(api(&server).delete("acme", &params).await.is_err());
    api(&server)
        .delete("acme", &DeleteParams::default())
        .await
        .unwrap();
    assert!(server.names().is_empty());
}

#[tokio::test]
async fn what_an_object_owns_goes_with_it() {
    let server = FakeApiServer::default();
    let owner = apply(&server, json!({})).await.unwrap();
    let mut child = map("child", json!({}));
    child["metadata"]["ownerReferences"] =
        json!([{"uid": owner.uid(), "kind": "ConfigMap", "name": "acme", "apiVersion": "v1"}]);
    api(&server)
        .patch("child", &PatchParams::apply("ours"), &Patch::Apply(child))
        .await
        .unwrap();
    server.delete::<ConfigMap>(NAMESPACE, "acme");
    assert!(server.names().is_empty());
}

#[tokio::test]
async fn a_status_is_written_through_its_subresource_only() {
    let server = FakeApiServer::default();
    let patch = |value: Value| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "status": value, "data": {"a": "1"}}),
        )
    };
    let params = PatchParams::apply("ours");
    let object = api(&server)
        .patch("acme", &params, &patch(json!({"ready": true})))
        .await
        .unwrap();
    assert!(object.data.is_some());
    api(&server)
        .patch_status("acme", &params, &patch(json!({"ready": true})))
        .await
        .unwrap();
    let status = server
        .with_store(|store| store.objects[&key::<ConfigMap>(NAMESPACE, "acme")]["status"].clone());
    assert_eq!(status, json!({"ready": true}));
    api(&server)
        .patch_status(
            "acme",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": {"ready": null}})),
        )
        .await
        .unwrap();
    let status = server
        .with_store(|store| store.objects[&key::<ConfigMap>(NAMESPACE, "acme")]["status"].clone());
    assert_eq!(status, json!({}));
}

#[tokio::test]
async fn a_watch_shows_changes_of_what_it_selects_until_it_expires() {
    let server = FakeApiServer::default();
    apply(&server, json!({})).await.unwrap();
    let mut events = api(&server)
        .watch(&WatchParams::default().labels("app=acme"), "0")
        .await
        .unwrap()
        .boxed();
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
    server.hold_watches();
    api(&server)
        .patch(
            "other",
            &PatchParams::apply("ours"),
            &Patch::Apply(map("other", json!({}))),
        )
        .await
        .unwrap();
    server.edit::<ConfigMap>(NAMESPACE, "acme", |map| map["data"]["a"] = "1".into());
    assert!(futures::poll!(events.next()).is_pending());
    server.release_watches();
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Modified(_))
    ));
    server.edit::<ConfigMap>(NAMESPACE, "acme", |map| {
        map["metadata"]["labels"] = json!({})
    });
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Deleted(_))
    ));
    server.expire_watches();
    assert!(
        matches!(events.try_next().await.unwrap(), Some(WatchEvent::Error(status)) if status.code == 410)
    );
    assert!(events.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn scripted_faults_hit_the_write_that_they_name() {
    let server = FakeApiServer::default();
    server.fail_write(1, Fault::LoseRequest);
    server.fail_write(2, Fault::LoseResponse);
    server.fail_write(4, Fault::Refuse(429));
    assert!(apply(&server, json!({"a": "1"})).await.is_err());
    assert!(server.names().is_empty());
    assert!(apply(&server, json!({"a": "1"})).await.is_err());
    assert_eq!(server.names(), ["configmaps/acme"]);
    apply(&server, json!({"a": "1"})).await.unwrap();
    let kube::Error::Api(status) = apply(&server, json!({"a": "2"})).await.unwrap_err() else {
        panic!()
    };
    assert_eq!(status.code, 429);
    let effects: Vec<_> = server
        .writes()
        .into_iter()
        .map(|write| write.effect)
        .collect();
    assert_eq!(
        effects,
        [Some(Effect::Created), Some(Effect::Unchanged), None]
    );
}

#[tokio::test]
async fn a_series_of_faults_hits_one_write_and_its_repetitions() {
    let server = FakeApiServer::default();
    server.fail_repeatedly(2, &[Fault::Refuse(500), Fault::CommitThenAnswer(504)]);
    let create = async |name: &str| {
        let wanted: ConfigMap = serde_json::from_value(map(name, json!({}))).unwrap();
        let created = api(&server).create(&PostParams::default(), &wanted).await;
        created.is_ok()
    };
    assert!(create("one").await);
    assert!(!create("two").await);
    assert!(create("three").await);
    assert_eq!(server.pending_faults(), 1);
    assert!(!create("two").await);
    assert_eq!(server.pending_faults(), 0);
    let expected = ["configmaps/one", "configmaps/three", "configmaps/two"];
    assert_eq!(server.names(), expected);
}

/// Returns the versions of the changes that a watch shows within a minute.
async fn shown(server: &FakeApiServer, params: &WatchParams, since: &str) -> Vec<String> {
    let events = api(server).watch(params, since).await.unwrap();
    let patience = tokio::time::sleep(std::time::Duration::from_secs(60));
    let events: Vec<_> = events.take_until(patience).collect().await;
    let version = |event: kube::Result<WatchEvent<ConfigMap>>| match event {
        Ok(WatchEvent::Added(map) | WatchEvent::Modified(map)) => map.resource_version().unwrap(),
        Ok(WatchEvent::Error(status)) => status.code.to_string(),
        other => panic!("{other:?}"),
    };
    events.into_iter().map(version).collect()
}

#[tokio::test(start_paused = true)]
async fn watches_drop_repeat_and_swap_changes_and_expire_at_each() {
    let table = [
        (None, vec!["1", "2", "3"]),
        (Some(WatchFault::Drop(2)), vec!["1", "3"]),
        (Some(WatchFault::Double), vec!["1", "1", "2", "2", "3", "3"]),
        (Some(WatchFault::Swap), vec!["2", "1", "3"]),
        (Some(WatchFault::Gone), vec!["410"]),
    ];
    for (fault, expected) in table {
        let server = FakeApiServer::default();
        server.fail_watches(fault);
        for data in ["1", "2", "3"] {
            apply(&server, json!({"a": data})).await.unwrap();
        }
        let versions = shown(&server, &WatchParams::default(), "0").await;
        assert_eq!(versions, expected, "{fault:?}");
    }
}

#[tokio::test]
async fn a_fork_has_the_same_objects_and_shows_them_as_they_were() {
    let origin = FakeApiServer::default();
    apply(&origin, json!({"a": "1"})).await.unwrap();
    let server = origin.fork();
    assert_eq!(server.objects(), origin.objects());
    apply(&server, json!({"a": "2"})).await.unwrap();
    assert_ne!(server.objects(), origin.objects());
    server.delete::<ConfigMap>(NAMESPACE, "acme");
    assert_eq!(server.changed_objects(), ["configmaps/acme"; 2]);
    assert_eq!(server.turnover()["configmaps/acme"], [0, 1]);
    for (changes, expected) in [(0, Some("1")), (1, Some("2")), (2, None)] {
        let past = server.fork_showing(changes);
        let listed = api(&past).list(&Default::default()).await.unwrap();
        let data = listed.items.into_iter().next().and_then(|map| map.data);
        let value = data.map(|data| data["a"].clone());
        assert_eq!(value.as_deref(), expected, "{changes}");
        past.release_watches();
        let listed = api(&past).list(&Default::default()).await.unwrap();
        assert!(listed.items.is_empty(), "{changes}");
    }
}
