//! Every admission rule, evaluated without an API server.

use serde_json::{Value, json};

use super::{Profile, ShortenerStack};

fn stack(name: &str, spec: Value) -> ShortenerStack {
    serde_json::from_value(json!({
        "apiVersion": "shortener.dev/v1alpha1",
        "kind": "ShortenerStack",
        "metadata": {"name": name, "namespace": "links"},
        "spec": spec,
    }))
    .unwrap()
}

fn refusal(spec: Value) -> String {
    stack("acme", spec)
        .validate_cel()
        .map_or_else(|errors| format!("{errors:?}"), |()| String::new())
}

fn update_refusal(old: Value, new: Value) -> String {
    let (old, new) = (stack("acme", old), stack("acme", new));
    new.validate_cel_update(&old)
        .map_or_else(|errors| format!("{errors:?}"), |()| String::new())
}

#[test]
fn an_empty_spec_is_valid() {
    assert_eq!(refusal(json!({})), "");
}

#[test]
fn a_full_spec_is_valid() {
    let spec = json!({
        "publicUrl": "https://go.example.com:8443/",
        "gateway": {"host": "go.example.com", "tlsSecretName": "go-tls"},
        "app": {"resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "128Mi"}}},
        "database": {"managed": {"storage": "2Gi", "storageClassName": "fast"}},
        "profiles": ["caching", "queue"],
        "cache": {"ttlSeconds": 60, "managed": {"maxMemory": "64Mi"}},
        "queue": {"deliveryLimit": 100, "managed": {"storage": "2Gi", "storageClassName": "fast"}},
        "workers": {"replicas": 0, "image": "worker:2"},
    });
    assert_eq!(refusal(spec), "");
}

#[test]
fn an_external_cache_is_one_server_sentinels_or_a_cluster() {
    let external = |settings: Value| {
        let mut external = json!({"secretRef": {"name": "redis"}});
        external
            .as_object_mut()
            .unwrap()
            .extend(settings.as_object().unwrap().clone());
        json!({"profiles": ["caching"], "cache": {"external": external}})
    };
    for settings in [
        json!({}),
        json!({"mode": "Cluster"}),
        json!({"mode": "Sentinel"}),
        json!({"mode": "Sentinel", "sentinelMaster": "links"}),
    ] {
        assert_eq!(refusal(external(settings.clone())), "", "{settings}");
    }
    for settings in [
        json!({"sentinelMaster": "links"}),
        json!({"mode": "Cluster", "sentinelMaster": "links"}),
    ] {
        let refusal = refusal(external(settings));
        let message = "cache.external.sentinelMaster is for cache.external.mode Sentinel";
        assert!(refusal.contains(message), "{refusal}");
    }
}

#[test]
fn every_rule_refuses_with_the_field_and_the_remedy() {
    let table = [
        (
            json!({"publicUrl": "ftp://example.com"}),
            "publicUrl is not an http(s) address",
        ),
        (
            json!({"publicUrl": "https://example.com/path"}),
            "publicUrl is not an http(s) address",
        ),
        (
            json!({"gateway": {"host": "Example.com:80"}}),
            "gateway.host is not a host name",
        ),
        (
            json!({"gateway": {"serviceType": "NodePort"}}),
            "gateway.serviceType is for gateway.provider Standalone",
        ),
        (
            json!({"gateway": {"provider": "Standalone", "host": "a.b", "tlsSecretName": "tls"}}),
            "gateway.tlsSecretName is for gateway.provider IngressNginx",
        ),
        (
            json!({"gateway": {"tlsSecretName": "tls"}}),
            "gateway.tlsSecretName needs gateway.host",
        ),
        (
            json!({"database": {"managed": {}, "external": {"secretRef": {"name": "db"}}}}),
            "database.managed and database.external exclude each other",
        ),
        (
            json!({"database": {"managed": {"storage": "lots"}}}),
            "database.managed.storage is not a size",
        ),
        (
            json!({"database": {"managed": {"storage": "0"}}}),
            "database.managed.storage is not a size",
        ),
        (
            json!({"cache": {"managed": {}, "external": {"secretRef": {"name": "redis"}}}}),
            "cache.managed and cache.external exclude each other",
        ),
        (
            json!({"cache": {"managed": {"maxMemory": "much"}}}),
            "cache.managed.maxMemory is not a size of at least 8Mi",
        ),
        (
            json!({"cache": {"managed": {"maxMemory": "1Mi"}}}),
            "cache.managed.maxMemory is not a size of at least 8Mi",
        ),
        (
            json!({"queue": {"managed": {}, "external": {"secretRef": {"name": "amqp"}}}}),
            "queue.managed and queue.external exclude each other",
        ),
        (
            json!({"queue": {"managed": {"storage": "much"}}}),
            "queue.managed.storage is not a size of at least 512Mi",
        ),
        (
            json!({"queue": {"managed": {"storage": "100Mi"}}}),
            "queue.managed.storage is not a size of at least 512Mi",
        ),
        (
            json!({"app": {"resources": {"requests": {"cpu": "fast"}}}}),
            "is not a quantity",
        ),
    ];
    for (spec, message) in table {
        let refusal = refusal(spec.clone());
        assert!(refusal.contains(message), "{spec} led to: {refusal}");
    }
}

#[test]
fn names_that_are_too_long_or_dotted_are_refused() {
    for name in ["a".repeat(41).as_str(), "1st", "a.b", "a-"] {
        let errors = format!("{:?}", stack(name, json!({})).validate_cel());
        assert!(
            errors.contains("metadata.name begins with a letter"),
            "{name}: {errors}"
        );
    }
    assert!(stack(&"a".repeat(40), json!({})).validate_cel().is_ok());
}

fn storage(size: &str) -> Value {
    json!({"database": {"managed": {"storage": size}}})
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    assert_eq!(update_refusal(storage("1Gi"), storage("2Gi")), "");
    assert_eq!(update_refusal(json!({}), storage("1024Mi")), "");
    let shrink = "database.managed.storage cannot shrink";
    assert!(update_refusal(storage("2Gi"), storage("1Gi")).contains(shrink));
    // Removing the field or the whole section is no way round.
    assert!(update_refusal(storage("2Gi"), json!({"database": {"managed": {}}})).contains(shrink));
    assert!(update_refusal(storage("2Gi"), json!({})).contains(shrink));
    assert!(update_refusal(json!({}), storage("500Mi")).contains(shrink));
}

#[test]
fn a_storage_class_never_changes() {
    let class = |name: &str| json!({"database": {"managed": {"storageClassName": name}}});
    assert_eq!(update_refusal(class("fast"), class("fast")), "");
    for (old, new) in [
        (class("fast"), class("slow")),
        (class("fast"), json!({})),
        (json!({}), class("fast")),
    ] {
        let refusal = update_refusal(old, new);
        assert!(
            refusal.contains("database.managed.storageClassName cannot change"),
            "{refusal}"
        );
    }
}

#[test]
fn the_volume_of_the_broker_grows_and_keeps_its_class() {
    let volume = |settings: Value| json!({"queue": {"managed": settings}});
    let size = |size: &str| volume(json!({"storage": size}));
    assert_eq!(update_refusal(size("1Gi"), size("2Gi")), "");
    let shrink = "queue.managed.storage cannot shrink";
    for (old, new) in [
        (size("2Gi"), size("1Gi")),
        (size("2Gi"), volume(json!({}))),
        (size("2Gi"), json!({})),
        (json!({}), size("600Mi")),
    ] {
        let refusal = update_refusal(old, new);
        assert!(refusal.contains(shrink), "{refusal}");
    }
    let class = |name: &str| volume(json!({"storageClassName": name}));
    for (old, new) in [
        (class("fast"), class("slow")),
        (class("fast"), json!({})),
        (json!({}), class("fast")),
    ] {
        let refusal = update_refusal(old, new);
        let message = "queue.managed.storageClassName cannot change";
        assert!(refusal.contains(message), "{refusal}");
    }
    let external = json!({"queue": {"external": {"secretRef": {"name": "amqp"}}}});
    assert_eq!(update_refusal(size("2Gi"), external.clone()), "");
    assert_eq!(update_refusal(external, json!({})), "");
}

#[test]
fn moving_to_an_external_database_is_allowed() {
    let external = json!({"database": {"external": {"secretRef": {"name": "db"}}}});
    assert_eq!(update_refusal(storage("2Gi"), external.clone()), "");
    assert_eq!(update_refusal(external, json!({})), "");
}

#[test]
fn schema_defaults_are_scalars_that_a_release_may_keep() {
    let stored = serde_json::to_value(stack("acme", json!({})).spec).unwrap();
    assert_eq!(stored["workers"], json!({"replicas": 1}));
    assert_eq!(stored["app"], json!({"replicas": 2}));
    assert_eq!(stored["database"], json!({}));
    assert_eq!(stored["cache"], json!({"ttlSeconds": 3600}));
    assert_eq!(stored["queue"], json!({"deliveryLimit": 5}));
    assert!(stored.get("profiles").is_none());
    assert_eq!(stored["gateway"]["provider"], "IngressNginx");
    assert!(stored["gateway"].get("image").is_none() && stored["app"].get("resources").is_none());
}

#[test]
fn profiles_are_a_set_of_those_that_are_built() {
    use kube::CustomResourceExt;
    let crd = serde_json::to_value(ShortenerStack::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let profiles = &schema["spec"]["properties"]["profiles"];
    assert_eq!(profiles["x-kubernetes-list-type"], "set");
    let built: Vec<_> = Profile::ALL.map(Profile::as_str).to_vec();
    assert_eq!(profiles["items"]["enum"], json!(built));
    assert!(profiles.get("uniqueItems").is_none(), "{profiles}");
}
