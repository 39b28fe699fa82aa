//! Tests of reading and merging changes.

use serde_json::{Value, json};

use super::*;

/// Returns a pod template like those of the operator.
fn ours() -> PodTemplateSpec {
    serde_json::from_value(json!({
        "metadata": {"labels": {"app.kubernetes.io/name": "shortener"}},
        "spec": {
            "initContainers": [{"name": "migrate"}],
            "containers": [{
                "name": "app",
                "image": "app:1",
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "B", "value": "ours"},
                ],
                "ports": [{"name": "http", "containerPort": 3000, "protocol": "TCP"}],
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532},
            "tolerations": [{"key": "ours"}],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
        },
    }))
    .unwrap()
}

fn read(changes: &Value) -> Result<PodPatch, PatchError> {
    PodPatch::read(changes.as_object().unwrap())
}

/// Returns our template with changes of its `spec`.
fn merged(spec: &Value) -> Value {
    let changes = read(&json!({"spec": spec})).unwrap();
    serde_json::to_value(changes.onto(&ours()).unwrap()).unwrap()
}

#[test]
fn no_changes_change_nothing() {
    for changes in [json!({}), json!({"metadata": {}, "spec": {}})] {
        assert_eq!(read(&changes).unwrap().onto(&ours()).unwrap(), ours());
    }
}

#[test]
fn objects_are_merged_field_by_field() {
    let changes = json!({
        "metadata": {"labels": {"team": "links"}, "annotations": {"sidecar.istio.io/inject": "true"}},
        "spec": {"securityContext": {"fsGroup": 7}, "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}},
    });
    let found = read(&changes).unwrap().onto(&ours()).unwrap();
    let found = serde_json::to_value(found).unwrap();
    assert_eq!(
        found["metadata"],
        json!({
            "labels": {"app.kubernetes.io/name": "shortener", "team": "links"},
            "annotations": {"sidecar.istio.io/inject": "true"},
        })
    );
    let security =
        json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 7});
    assert_eq!(found["spec"]["securityContext"], security);
    assert_eq!(found["spec"]["dnsConfig"]["options"][0]["name"], "ndots");
}

#[test]
fn lists_are_merged_by_their_key_and_others_replaced_as_a_whole() {
    let found = merged(&json!({
        "containers": [
            {"name": "proxy", "image": "proxy:1"},
            {"name": "app", "imagePullPolicy": "Always", "volumeMounts": [{"name": "ca", "mountPath": "/ca"}]},
        ],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "ca", "secret": {"secretName": "ca"}}],
        "tolerations": [{"key": "theirs"}],
        "topologySpreadConstraints": [
            {"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
    }));
    let spec = &found["spec"];
    assert_eq!(spec["containers"][0]["image"], "app:1");
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([{"name": "tmp", "mountPath": "/tmp"}, {"name": "ca", "mountPath": "/ca"}])
    );
    assert_eq!(spec["containers"][1]["name"], "proxy");
    assert_eq!(spec["volumes"][0]["emptyDir"]["sizeLimit"], "1Gi");
    assert_eq!(spec["volumes"][1]["name"], "ca");
    assert_eq!(spec["tolerations"], json!([{"key": "theirs"}]));
    let spread = &spec["topologySpreadConstraints"];
    assert_eq!(spread[0]["whenUnsatisfiable"], "DoNotSchedule");
    assert_eq!(spread[0]["maxSkew"], 1);
    assert_eq!(spread[1]["topologyKey"], "topology.kubernetes.io/zone");
}

#[test]
fn a_variable_has_one_source_after_the_merge() {
    let found = merged(
        &json!({"containers": [{"name": "app", "env": [{"name": "A", "value": "theirs"}]}]}),
    );
    assert_eq!(
        found["spec"]["containers"][0]["env"],
        json!([{"name": "A", "value": "theirs"}, {"name": "B", "value": "ours"}])
    );
}

#[test]
fn init_containers_of_the_user_run_before_ours() {
    let found = merged(&json!({"initContainers": [
        {"name": "proxy", "restartPolicy": "Always"},
        {"name": "migrate", "securityContext": {"runAsUser": 7}},
        {"name": "wait"},
    ]}));
    let containers = found["spec"]["initContainers"].as_array().unwrap();
    let names: Vec<_> = containers
        .iter()
        .map(|container| &container["name"])
        .collect();
    assert_eq!(names, ["proxy", "wait", "migrate"]);
}

#[test]
fn the_same_port_of_another_protocol_is_another_port() {
    let ports =
        json!([{"containerPort": 3000, "protocol": "UDP"}, {"containerPort": 3000, "name": "web"}]);
    let found = merged(&json!({"containers": [{"name": "app", "ports": ports}]}));
    assert_eq!(
        found["spec"]["containers"][0]["ports"],
        json!([
            {"name": "web", "containerPort": 3000, "protocol": "TCP"},
            {"containerPort": 3000, "protocol": "UDP"},
        ])
    );
}

#[test]
fn a_fixed_user_can_be_removed_for_a_cluster_that_chooses_users_itself() {
    for security in [
        json!({"runAsUser": null, "runAsGroup": null}),
        json!({"$patch": "replace", "runAsNonRoot": true}),
    ] {
        let found = merged(&json!({"securityContext": security}));
        assert_eq!(
            found["spec"]["securityContext"],
            json!({"runAsNonRoot": true})
        );
    }
    let gone = json!({"$patch": "delete"});
    for removed in [Value::Null, gone] {
        let found = merged(&json!({"securityContext": removed}));
        assert_eq!(found["spec"].get("securityContext"), None);
    }
}

#[test]
fn items_and_lists_can_be_removed() {
    let found = merged(&json!({
        "tolerations": [],
        "volumes": [{"name": "tmp", "$patch": "delete"}],
        "containers": [{"name": "app", "ports": null, "env": [{"name": "B", "$patch": "delete"}]}],
    }));
    assert_eq!(found["spec"].get("tolerations"), None);
    assert_eq!(found["spec"].get("volumes"), None);
    assert_eq!(found["spec"]["containers"][0].get("ports"), None);
    assert_eq!(
        found["spec"]["containers"][0]["env"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// Checks that each of these changes is refused, with the path and the beginning of the problem.
fn all_refused(table: &[(Value, &str, &str)]) {
    for (changes, path, problem) in table {
        let error = read(changes).unwrap_err();
        assert_eq!(error.path, *path, "{changes}");
        assert!(error.problem.starts_with(problem), "{}", error.problem);
    }
}

#[test]
fn no_field_that_a_pod_template_lacks_is_dropped_silently() {
    all_refused(&[
        (json!({"sepc": {}}), "sepc", "is no field of a pod template"),
        (
            json!({"spec": {"securityContext": {"runAsUsr": null}}}),
            "spec.securityContext.runAsUsr",
            "is no field",
        ),
        (
            json!({"spec": {"containers": [{"name": "app", "imge": "x"}]}}),
            "spec.containers[0].imge",
            "is no field",
        ),
        (
            json!({"spec": {"affinity": {"nodeAffinity": {"required": {}}}}}),
            "spec.affinity.nodeAffinity.required",
            "is no field",
        ),
    ]);
}

#[test]
fn a_value_of_another_type_is_refused() {
    all_refused(&[
        (
            json!({"metadata": {"labels": {"a/b": 1}}}),
            "metadata.labels.a/b",
            "is not a text",
        ),
        (
            json!({"spec": {"hostNetwork": "yes"}}),
            "spec.hostNetwork",
            "is not a boolean",
        ),
        (
            json!({"spec": {"securityContext": {"runAsUser": "7"}}}),
            "spec.securityContext.runAsUser",
            "is not a whole number",
        ),
        (
            json!({"spec": {"tolerations": {"key": "a"}}}),
            "spec.tolerations",
            "is not a list",
        ),
        (json!({"spec": []}), "spec", "is not an object"),
    ]);
}

#[test]
fn an_item_that_cannot_be_merged_is_refused() {
    all_refused(&[
        (
            json!({"spec": {"tolerations": [null]}}),
            "spec.tolerations[0]",
            "is empty",
        ),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            "spec.containers[0]",
            "has no name",
        ),
        (
            json!({"spec": {"volumes": [{"name": "a"}, {"name": "a"}]}}),
            "spec.volumes[1]",
            "has the name of an earlier item",
        ),
        (
            json!({"spec": {"securityContext": {"$patch": "remove"}}}),
            "spec.securityContext.$patch",
            "is none of delete",
        ),
        (json!({"$patch": "replace"}), "$patch", "stands at the top"),
    ]);
}

#[test]
fn quantities_and_ports_are_numbers_or_texts() {
    for given in [json!("64Mi"), json!(64)] {
        let volume = json!({"name": "more", "emptyDir": {"sizeLimit": given}});
        assert!(read(&json!({"spec": {"volumes": [volume]}})).is_ok());
    }
    let probe =
        |port: Value| json!({"name": "mine", "readinessProbe": {"tcpSocket": {"port": port}}});
    for port in [json!(80), json!("http")] {
        assert!(read(&json!({"spec": {"containers": [probe(port)]}})).is_ok());
    }
    let port = probe(json!(true));
    assert!(read(&json!({"spec": {"containers": [port]}})).is_err());
}

#[test]
fn a_number_that_is_too_large_is_an_error_and_no_other_number() {
    let changes = json!({"spec": {"priority": 4_294_967_296_i64}});
    assert!(read(&changes).unwrap().onto(&ours()).is_err());
}
