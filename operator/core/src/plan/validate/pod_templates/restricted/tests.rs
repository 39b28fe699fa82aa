//! Tests of what the policy `Restricted` admits.

use k8s_openapi::api::core::v1::PodSpec;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::*;
use crate::{
    model::{
        defaults::{Defaults, PodTemplatePolicy},
        facts::{Facts, PodContents},
        failure::StepFailure,
        metadata::Component,
        stack::ValidatedStack,
    },
    plan::validate::validate,
    testing::{
        shared::{golden_text, stored_stack},
        stack::{defaults, facts},
    },
};

/// Returns a stack whose app has these changes. Its Secret `theirs` has the label, and no other one.
fn changed(change: &Value, policy: PodTemplatePolicy) -> ValidatedStack {
    let stack = stored_stack(json!({"app": {"podTemplate": change}}));
    let contents = PodContents {
        usable: ["theirs".to_owned()].into(),
        ..PodContents::default()
    };
    let facts = Facts {
        contents: [(Component::App, Ok(contents))].into(),
        ..facts(&stack.spec)
    };
    let defaults = Defaults {
        pod_template_policy: policy,
        ..defaults()
    };
    validate(&stack, facts, &defaults).unwrap()
}

fn refusal(change: &Value) -> StepFailure {
    let mut held = changed(change, PodTemplatePolicy::Restricted).held;
    let failure = held.remove(&Component::App);
    assert!(held.is_empty(), "{change}: {held:?}");
    failure.unwrap_or_else(|| panic!("{change} is admitted"))
}

/// Checks that each change is refused with its path, and that the other policy admits it.
fn all_refused(table: impl IntoIterator<Item = (Value, String)>) {
    for (change, path) in table {
        let failure = refusal(&change);
        assert_eq!(failure.reason, "PodTemplateRefused", "{change}");
        let sentence = format!("app.podTemplate: {path} ");
        assert!(
            failure.message.starts_with(&sentence),
            "{}",
            failure.message
        );
        let free = changed(&change, PodTemplatePolicy::Unrestricted);
        assert!(free.held.is_empty(), "{change}: {:?}", free.held);
    }
}

/// Returns a container of the user that is as the policy wants it, with these fields.
fn sidecar(name: &str, fields: Value) -> Value {
    let mut container = json!({
        "name": name,
        "image": "mine:1",
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    });
    for (field, value) in super::fields(&fields) {
        container[field] = value.clone();
    }
    container
}

fn pod(spec: Value) -> Value {
    json!({"spec": spec})
}

#[test]
fn fields_of_a_pod_that_reach_beyond_it_are_refused() {
    let table = [
        (json!({"serviceAccountName": "other"}), "serviceAccountName"),
        (json!({"serviceAccountName": null}), "serviceAccountName"),
        (json!({"nodeName": "control-plane"}), "nodeName"),
        (json!({"resourceClaims": [{"name": "x"}]}), "resourceClaims"),
        (
            json!({"securityContext": {"sysctls": [{"name": "x", "value": "1"}]}}),
            "securityContext.sysctls",
        ),
        (
            json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}),
            "securityContext.windowsOptions",
        ),
        (
            json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}),
            "securityContext.seLinuxOptions",
        ),
        (
            json!({"securityContext": {"runAsUser": 0}}),
            "securityContext.runAsUser",
        ),
        (
            json!({"securityContext": {"runAsNonRoot": null}}),
            "securityContext.runAsNonRoot",
        ),
        (
            json!({"securityContext": {"seccompProfile": null}}),
            "securityContext.seccompProfile.type",
        ),
        (
            json!({"securityContext": {"$patch": "replace", "runAsNonRoot": true}}),
            "securityContext.seccompProfile.type",
        ),
        (
            json!({"securityContext": {"$patch": "delete"}}),
            "securityContext.runAsNonRoot",
        ),
    ];
    all_refused(table.map(|(change, path)| (pod(change), format!("spec.{path}"))));
}

/// Returns a label or an annotation of pods.
fn metadata(kind: &str, name: &str) -> Value {
    json!({"metadata": {kind: {name: "x"}}})
}

#[test]
fn metadata_that_gives_rights_secrets_or_containers_is_refused() {
    let table = [
        (
            "annotations",
            "container.apparmor.security.beta.kubernetes.io/app",
        ),
        ("annotations", "example.test/unknown"),
        ("annotations", "iam.amazonaws.com/role"),
        ("annotations", "io.kubernetes.cri-o.userns-mode"),
        ("annotations", "k8s.v1.cni.cncf.io/networks"),
        ("annotations", "prometheus.io.example.test/x"),
        ("annotations", "proxy.istio.io/config"),
        ("annotations", "sidecar.istio.io/userVolume"),
        ("annotations", "config.linkerd.io/proxy-image"),
        ("annotations", "vault.hashicorp.com/agent-inject"),
        ("labels", "aadpodidbinding"),
        ("labels", "azure.workload.identity/use"),
        ("labels", "sidecar.istio.io/proxyImage"),
    ];
    all_refused(
        table.map(|(kind, name)| (metadata(kind, name), format!("metadata.{kind}.{name}"))),
    );
    let message = refusal(&metadata("annotations", "iam.amazonaws.com/role")).message;
    assert!(message.contains("podTemplatePolicy"), "{message}");
}

#[test]
fn metadata_that_only_describes_or_places_pods_is_admitted() {
    for (kind, name) in [
        (
            "annotations",
            "cluster-autoscaler.kubernetes.io/safe-to-evict",
        ),
        ("annotations", "karpenter.sh/do-not-disrupt"),
        ("annotations", "kubectl.kubernetes.io/default-container"),
        ("annotations", "linkerd.io/inject"),
        ("annotations", "prometheus.io/scrape"),
        ("annotations", "sidecar.istio.io/inject"),
        ("labels", "example.test/team"),
        ("labels", "sidecar.istio.io/inject"),
    ] {
        let stack = changed(&metadata(kind, name), PodTemplatePolicy::Restricted);
        assert!(stack.held.is_empty(), "{kind} {name}: {:?}", stack.held);
    }
}

#[test]
fn volumes_of_others_and_of_the_node_are_refused() {
    let part = |part: Value| json!({"projected": {"sources": [part]}});
    let fresh = |spec: Value| json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    let table = [
        (json!({"hostPath": {"path": "/"}}), "hostPath"),
        (
            json!({"persistentVolumeClaim": {"claimName": "acme-postgres"}}),
            "persistentVolumeClaim",
        ),
        (json!({"csi": {"driver": "x"}}), "csi"),
        (json!({"flexVolume": {"driver": "x"}}), "flexVolume"),
        (json!({"nfs": {"server": "x", "path": "/"}}), "nfs"),
        (
            part(json!({"serviceAccountToken": {"path": "x"}})),
            "projected.sources[0].serviceAccountToken",
        ),
        (
            part(json!({"clusterTrustBundle": {"path": "x"}})),
            "projected.sources[0].clusterTrustBundle",
        ),
        (
            fresh(json!({"volumeName": "x"})),
            "ephemeral.volumeClaimTemplate.spec.volumeName",
        ),
        (
            fresh(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}})),
            "ephemeral.volumeClaimTemplate.spec.dataSource",
        ),
        (
            json!({"ephemeral": {"volumeClaimTemplate": {
                "metadata": {"annotations": {"cdi.kubevirt.io/storage.import.secretName": "x"}},
                "spec": {},
            }}}),
            "ephemeral.volumeClaimTemplate.metadata.annotations",
        ),
    ];
    all_refused(table.map(|(mut volume, path)| {
        volume["name"] = json!("x");
        (
            pod(json!({"volumes": [volume]})),
            format!("spec.volumes[x].{path}"),
        )
    }));
}

/// A change of a container, with the path of the refused field.
fn containers() -> Vec<(Value, &'static str)> {
    let context = |context: Value| json!({"securityContext": context});
    vec![
        (
            context(json!({"privileged": true})),
            "securityContext.privileged",
        ),
        (
            context(json!({"allowPrivilegeEscalation": true})),
            "securityContext.allowPrivilegeEscalation",
        ),
        (
            context(json!({"capabilities": {"add": ["NET_RAW"]}})),
            "securityContext.capabilities.add",
        ),
        (
            context(json!({"procMount": "Unmasked"})),
            "securityContext.procMount",
        ),
        (
            context(json!({"runAsUser": 0})),
            "securityContext.runAsUser",
        ),
        (
            context(json!({"runAsNonRoot": false})),
            "securityContext.runAsNonRoot",
        ),
        (
            context(json!({"seccompProfile": {"type": "Unconfined"}})),
            "securityContext.seccompProfile.type",
        ),
        (
            context(json!({"appArmorProfile": {"type": "Unconfined"}})),
            "securityContext.appArmorProfile",
        ),
        (
            context(json!({"$patch": "replace", "capabilities": {"drop": ["ALL"]}})),
            "securityContext.allowPrivilegeEscalation",
        ),
        (
            context(json!({"$patch": "replace", "allowPrivilegeEscalation": false})),
            "securityContext.capabilities.drop",
        ),
        (
            json!({"lifecycle": {"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}}),
            "lifecycle.preStop.httpGet.host",
        ),
        (
            json!({"volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]}),
            "volumeDevices",
        ),
    ]
}

/// Returns a change with the other fields of an object, unless it replaces the object.
fn overlay(object: &Value, change: &Value) -> Value {
    let mut all = change.clone();
    for (name, value) in fields(object) {
        if change.get("$patch").is_none() && change.get(name).is_none() {
            all[name] = value.clone();
        }
    }
    all
}

#[test]
fn a_container_with_more_rights_is_refused_in_each_list_and_be_it_ours() {
    let mut table = Vec::new();
    for (list, name) in [
        ("containers", "app"),
        ("containers", "x"),
        ("initContainers", "migrate"),
        ("initContainers", "x"),
    ] {
        for (change, path) in containers() {
            let mut container = json!({"name": name});
            if name == "x" {
                container = sidecar(name, json!({}));
            }
            for (field, value) in fields(&change) {
                container[field] = overlay(&container[field], value);
            }
            let path = format!("spec.{list}[{name}].{path}");
            table.push((pod(json!({list: [container]})), path));
        }
    }
    let probe = json!({"tcpSocket": {"host": "169.254.169.254", "port": 80}});
    table.push((
        pod(json!({"containers": [sidecar("x", json!({"readinessProbe": probe}))]})),
        "spec.containers[x].readinessProbe.tcpSocket.host".to_owned(),
    ));
    table.push((
        pod(json!({"containers": [{"name": "x", "image": "mine:1"}]})),
        "spec.containers[x].securityContext.allowPrivilegeEscalation".to_owned(),
    ));
    all_refused(table);
}

/// Returns changes that read a Secret in each way.
fn reading(secret: &str) -> Vec<Value> {
    let by_key = |optional: bool| {
        let key = json!({"name": secret, "key": "k", "optional": optional});
        json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": key}}]})
    };
    let group = json!({"envFrom": [{"secretRef": {"name": secret}}]});
    let own = |mut container: Value| {
        container["name"] = json!("app");
        pod(json!({"containers": [container]}))
    };
    vec![
        own(by_key(false)),
        own(by_key(true)),
        own(group.clone()),
        own(json!({"env": [{
            "name": "DATABASE_URL",
            "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}},
        }]})),
        pod(json!({"containers": [sidecar("x", group)]})),
        pod(json!({"initContainers": [sidecar("x", by_key(false))]})),
        pod(json!({"volumes": [{"name": "x", "secret": {"secretName": secret}}]})),
        pod(json!({"volumes": [{"name": "x", "projected": {
            "sources": [{"secret": {"name": secret}}],
        }}]})),
    ]
}

#[test]
fn a_secret_without_its_label_is_refused_in_each_way_to_read_it() {
    for secret in ["none", "acme-postgres"] {
        for change in reading(secret) {
            let failure = refusal(&change);
            assert_eq!(failure.reason, "SecretNotUsable", "{change}");
            assert!(!failure.needs_an_edit);
            let sentence = format!("app.podTemplate: Secret {secret} ");
            assert!(
                failure.message.starts_with(&sentence),
                "{}",
                failure.message
            );
            let free = changed(&change, PodTemplatePolicy::Unrestricted);
            assert!(free.held.is_empty(), "{change}: {:?}", free.held);
        }
    }
    for change in reading("theirs") {
        let stack = changed(&change, PodTemplatePolicy::Restricted);
        assert!(stack.held.is_empty(), "{change}: {:?}", stack.held);
    }
}

#[test]
fn what_a_pod_needs_is_admitted() {
    let scratch = json!({"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }}});
    let probe = json!({"httpGet": {"path": "/", "port": 81}, "periodSeconds": 9});
    for change in [
        json!({"metadata": {"annotations": {"note": "x"}, "labels": {"team": "links"}}}),
        pod(json!({"securityContext": {
            "$patch": "replace", "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
        }})),
        pod(
            json!({"volumes": [{"name": "x", "ephemeral": scratch}, {"name": "y", "configMap": {"name": "y"}}]}),
        ),
        pod(
            json!({"tolerations": [{"operator": "Exists"}], "hostUsers": false, "runtimeClassName": "gvisor"}),
        ),
        pod(json!({"containers": [sidecar("x", json!({"livenessProbe": probe}))]})),
        pod(
            json!({"containers": [{"name": "app", "lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}]}),
        ),
    ] {
        let stack = changed(&change, PodTemplatePolicy::Restricted);
        assert!(stack.held.is_empty(), "{change}: {:?}", stack.held);
    }
}

/// Collects the entries that the fields of a schema would have in the list, with those that are refused.
fn entries(rule: &str, schema: &Value, refused: &mut BTreeSet<String>, all: &mut BTreeSet<String>) {
    for (name, field) in fields(&schema["properties"]) {
        let entry = below(rule, name);
        all.insert(entry.clone());
        let is_below = |known: &&str| known.starts_with(&format!("{entry}."));
        if ADMITTED.contains(&entry.as_str()) {
            continue;
        }
        if !ADMITTED.iter().any(is_below) {
            refused.insert(entry);
            continue;
        }
        let items = &field["items"];
        entries(
            &entry,
            if items.is_null() { field } else { items },
            refused,
            all,
        );
    }
}

#[test]
fn each_field_of_a_pod_is_admitted_or_refused_on_purpose() {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<PodSpec>();
    let (mut refused, mut all) = (BTreeSet::new(), BTreeSet::new());
    entries("", &schema.to_value(), &mut refused, &mut all);
    let stale = ADMITTED.iter().find(|entry| !all.contains(**entry));
    assert_eq!(stale, None, "no pod has this field");
    assert!(ADMITTED.is_sorted(), "the list is in order");
    // A field that is new here belongs into the list only if it gives a user no rights and no data of others.
    let refused: Vec<String> = refused.into_iter().collect();
    golden_text("refused-fields-of-a-pod", &refused.join("\n"));
}
