//! Every admission rule, evaluated without an API server.

use kube_cel::Validator;
use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use super::{Profile, RESERVED_ANNOTATIONS, ShortLink, ShortenerDrill, ShortenerStack};
use crate::testing::shared::combinations;

fn stack(name: &str, spec: Value) -> ShortenerStack {
    serde_json::from_value(json!({
        "apiVersion": "shortener.dev/v1alpha1",
        "kind": "ShortenerStack",
        "metadata": {"name": name, "namespace": "links"},
        "spec": spec,
    }))
    .unwrap()
}

/// Returns the errors that an API server would answer with, or an empty text.
fn admit(new: &ShortenerStack, old: Option<&ShortenerStack>) -> String {
    let definition = serde_json::to_value(ShortenerStack::crd()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let new = serde_json::to_value(new).unwrap();
    let old = old.map(|old| serde_json::to_value(old).unwrap());
    Validator::new()
        .validate(schema, &new, old.as_ref())
        .map_or_else(|errors| format!("{errors:?}"), |()| String::new())
}

fn refusal(spec: Value) -> String {
    admit(&stack("acme", spec), None)
}

fn update_refusal(old: Value, new: Value) -> String {
    admit(&stack("acme", new), Some(&stack("acme", old)))
}

/// Returns the errors of an update of a stack with volumes of these sizes. Like the API server, it keeps the status.
fn update_refusal_beside(volumes: &Value, old: Value, new: Value) -> String {
    let beside = |spec| {
        let mut stack = stack("acme", spec);
        stack.status = serde_json::from_value(json!({"volumes": volumes})).unwrap();
        stack
    };
    admit(&beside(new), Some(&beside(old)))
}

#[test]
fn every_value_of_an_enum_is_explained_in_the_definition() {
    fn enums<'a>(path: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
        if schema["enum"].is_array() {
            found.push((path.to_owned(), schema));
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            enums(&format!("{path}.{name}"), field, found);
        }
        if schema["items"].is_object() {
            enums(&format!("{path}[]"), &schema["items"], found);
        }
    }
    let definitions = json!([
        ShortenerStack::crd(),
        ShortLink::crd(),
        ShortenerDrill::crd()
    ]);
    let mut found = Vec::new();
    for definition in definitions.as_array().unwrap() {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        enums("spec", &schema["spec"], &mut found);
    }
    assert_eq!(found.len(), 17, "{found:?}");
    for (path, schema) in found {
        let text = schema["description"].as_str().unwrap_or_default();
        let values = schema["enum"].as_array().unwrap();
        for value in values.iter().filter_map(Value::as_str) {
            assert!(text.contains(&format!("- `{value}`: ")), "{path}: {text}");
        }
    }
}

#[test]
fn an_empty_spec_is_valid() {
    assert_eq!(refusal(json!({})), "");
}

#[test]
fn a_full_spec_is_valid() {
    let spec = json!({
        "publicUrl": "https://go.example.com:8443/",
        "gateway": {
            "hosts": ["go.example.com"],
            "tls": {"secretName": "go-tls"},
            "auth": {"secretRef": {"name": "keys"}, "protect": ["jobs", "metrics"], "rateLimits": {"shortenBurst": 0}},
            "cors": {"allowOrigins": ["https://app.example.com", "http://localhost:3000"]},
        },
        "links": {
            "rootTarget": "https://www.example.com",
            "unknownTarget": "https://www.example.com:8443/404?a=b&c=(d)#e",
            "expiredTarget": "http://www.example.com/%C3%BC",
            "forwardQuery": true, "clicks": {"enabled": false, "retentionDays": 3650},
            "allowedNamespaces": [{"name": "shop", "codePrefixes": ["shop-", "S_"]}],
            "webhooks": [{
                "name": "crm", "url": "https://hooks.example.com/x", "secretRef": {"name": "crm"},
                "events": ["link.created"],
            }],
            "destinations": {"allowHosts": ["example.com", "*.example.org"], "denyHosts": [], "denyPrivateAddresses": true},
        },
        "app": {
            "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "128Mi"}},
            "podTemplate": {"spec": {"securityContext": {"runAsUser": null, "$patch": "merge"}}},
        },
        "database": {
            "managed": {"storage": "2Gi", "storageClassName": "fast"},
            "backup": {
                "schedule": "17 3 * * *", "keep": 7, "suspend": true,
                "volume": {"storage": "20Gi", "storageClassName": "slow"},
                "verify": {"schedule": "@weekly", "storage": "5Gi"},
            },
        },
        "profiles": ["caching", "queue", "observability", "vector"],
        "cache": {"ttlSeconds": 60, "managed": {"maxMemory": "64Mi"}},
        "queue": {
            "deliveryLimit": 100, "publicTasks": ["*", "report.daily"], "deadLetters": {"maxLength": 5, "maxBytes": "1Mi"},
            "managed": {"storage": "2Gi", "storageClassName": "fast"},
        },
        "workers": {"replicas": 0, "image": "worker:2", "purge": {"schedule": "*/30 * * * *", "retentionDays": 7, "auditDays": 30}},
        "observability": {
            "collector": {"managed": {"image": "otel:2"}},
            "backend": {"managed": {"storage": "4Gi", "storageClassName": "fast"}},
        },
        "vector": {"collection": "pages", "size": 768, "distance": "Dot", "managed": {"storage": "2Gi"}},
        "logs": {"clientAddress": "Network"},
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
fn an_external_store_takes_certificates_and_a_database_an_extent_of_verification() {
    let authority = json!({"caSecretRef": {"name": "ca"}});
    let both = json!({
        "caSecretRef": {"name": "ca", "key": "bundle.pem"},
        "clientCertificateSecretRef": {"name": "client"},
    });
    let external = |store: &str, tls: &Value| {
        let external = json!({"secretRef": {"name": "store"}, "tls": tls});
        json!({"profiles": ["caching", "queue", "vector"], store: {"external": external}})
    };
    for store in ["database", "cache", "queue", "vector"] {
        for tls in [&json!({}), &authority, &both] {
            assert_eq!(refusal(external(store, tls)), "", "{store} {tls}");
        }
    }
    let pooled = json!({"secretRef": {"name": "store"}, "tls": {}, "pooler": "Transaction"});
    assert_eq!(refusal(json!({"database": {"external": pooled}})), "");
    for (mode, authority, is_refused) in [
        ("Require", false, false),
        ("Require", true, true),
        ("VerifyCA", true, false),
        ("VerifyFull", true, false),
    ] {
        let mut tls = json!({"mode": mode});
        if authority {
            tls["caSecretRef"] = json!({"name": "ca"});
        }
        let found = refusal(external("database", &tls));
        let message = "Require verifies no certificate, so caSecretRef has no effect";
        assert_eq!(found.contains(message), is_refused, "{tls}: {found}");
        assert_eq!(found.is_empty(), !is_refused, "{tls}: {found}");
    }
}

#[test]
fn the_size_of_all_dead_letters_is_a_quantity_that_holds_a_job() {
    let queue = |bytes: &str| json!({"queue": {"deadLetters": {"maxBytes": bytes}}});
    for bytes in ["1Mi", "64Mi", "1G"] {
        assert_eq!(refusal(queue(bytes)), "", "{bytes}");
    }
    for bytes in ["1Ki", "0", "-1Mi", "lots"] {
        let refusal = refusal(queue(bytes));
        let message = "queue.deadLetters.maxBytes is not a size of at least 1Mi";
        assert!(refusal.contains(message), "{bytes}: {refusal}");
    }
}

fn backend(external: Value) -> Value {
    json!({"profiles": ["observability"], "observability": {"backend": {"external": external}}})
}

#[test]
fn an_external_backend_takes_grpc_or_http_at_one_address_or_two() {
    for settings in [
        json!({"endpoint": "http://tempo:4317"}),
        json!({"endpoint": "https://otlp.example.com/", "headersSecretRef": {"name": "headers"}}),
        json!({"tracesEndpoint": "http://tempo:4317", "logsEndpoint": "https://loki:4317"}),
        json!({"endpoint": "http://gateway/otlp", "protocol": "HTTP"}),
        json!({"endpoint": "http://a:4318", "logsEndpoint": "http://loki:3100/otlp/v1/logs", "protocol": "HTTP"}),
    ] {
        assert_eq!(refusal(backend(settings.clone())), "", "{settings}");
    }
}

fn gateway(settings: Value) -> Value {
    json!({"gateway": settings})
}

#[test]
fn annotations_that_leave_the_routes_alone_are_valid() {
    let annotations = json!({
        "cert-manager.io/cluster-issuer": "letsencrypt",
        "nginx.ingress.kubernetes.io/limit-connections": "20",
    });
    let spec =
        gateway(json!({"annotations": annotations, "service": {"annotations": annotations}}));
    assert_eq!(refusal(spec), "");
    // A user who empties the list has not set the field.
    let emptied = gateway(json!({"provider": "Standalone", "annotations": {}}));
    assert_eq!(refusal(emptied), "");
    let on_a_route = gateway(json!({
        "provider": "GatewayAPI",
        "parentRefs": [{"name": "public"}],
        "annotations": {"external-dns.alpha.kubernetes.io/ttl": "60"},
    }));
    assert_eq!(refusal(on_a_route), "");
}

#[test]
fn every_annotation_of_the_routes_is_refused() {
    for key in RESERVED_ANNOTATIONS {
        let refusal = refusal(gateway(json!({"annotations": {key: "x"}})));
        let message =
            "gateway.annotations has an annotation that is set by the operator or replaced";
        assert!(refusal.contains(message), "{key}: {refusal}");
    }
}

#[test]
fn a_gateway_is_named_with_the_provider_that_needs_one_and_no_other() {
    for reference in [
        json!({"name": "public"}),
        json!({"name": "public.edge", "namespace": "infra", "sectionName": "https"}),
    ] {
        let spec = gateway(json!({
            "provider": "GatewayAPI",
            "parentRefs": [reference],
            "hosts": ["go.example.com"],
            "tls": {"secretName": "go-tls", "hsts": {}},
        }));
        assert_eq!(refusal(spec), "", "{reference}");
    }
    for provider in ["IngressNginx", "Standalone"] {
        let spec = gateway(json!({"provider": provider, "parentRefs": [{"name": "public"}]}));
        let refusal = refusal(spec);
        let message = "gateway.parentRefs is for gateway.provider GatewayAPI";
        assert!(refusal.contains(message), "{refusal}");
    }
}

#[test]
fn tls_redirects_to_https_unless_the_user_wants_both() {
    let tls = |settings: Value| {
        let spec = gateway(json!({"hosts": ["go.example.com"], "tls": settings}));
        assert_eq!(refusal(spec.clone()), "");
        stack("acme", spec).spec.gateway.tls.unwrap()
    };
    assert!(tls(json!({"secretName": "go-tls"})).redirect);
    assert!(!tls(json!({"secretName": "go-tls", "redirect": false})).redirect);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table, an entry for each rule")]
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
            json!({"gateway": {"endToEndProbe": {"probeUrl": "controller.ingress.svc"}}}),
            "gateway.endToEndProbe.probeUrl is not an http(s) address",
        ),
        (
            json!({"gateway": {"hosts": ["Example.com:80"]}}),
            "gateway.hosts has an entry that is not a host name",
        ),
        (
            json!({"gateway": {"auth": {"secretRef": {"name": "keys"}, "protect": []}}}),
            "gateway.auth.protect is empty: name at least one of shorten, jobs, docs and metrics",
        ),
        (
            json!({"links": {"rootTarget": "/welcome"}}),
            "links.rootTarget is not an http(s) address",
        ),
        (
            json!({"links": {"unknownTarget": "https://me@example.com/"}}),
            "links.unknownTarget is not an http(s) address",
        ),
        (
            json!({"links": {"expiredTarget": "https://example.com/a b"}}),
            "links.expiredTarget is not an http(s) address",
        ),
        (
            json!({"links": {"destinations": {"denyHosts": ["example.com", "Bad.example"]}}}),
            "links.destinations.denyHosts has an entry that is no host",
        ),
        (
            json!({"links": {"destinations": {"allowHosts": ["*"]}}}),
            "links.destinations.allowHosts has an entry that is no host",
        ),
        (
            json!({"links": {"destinations": {"allowHosts": ["a.*.example"]}}}),
            "links.destinations.allowHosts has an entry that is no host",
        ),
        (
            json!({"links": {"destinations": {"denyHosts": ["https://bad.example"]}}}),
            "links.destinations.denyHosts has an entry that is no host",
        ),
        (
            json!({"links": {"expiredTarget": "https://example.com/ü"}}),
            "links.expiredTarget is not an http(s) address",
        ),
        (
            gateway(json!({"cors": {"allowOrigins": ["*", "https://app.example.com/"]}})),
            "gateway.cors.allowOrigins has an entry that is no origin",
        ),
        (
            gateway(json!({"cors": {"allowOrigins": ["https://App.example.com"]}})),
            "gateway.cors.allowOrigins has an entry that is no origin",
        ),
        (
            gateway(json!({"cors": {"allowOrigins": ["null"]}})),
            "gateway.cors.allowOrigins has an entry that is no origin",
        ),
        (
            gateway(json!({"cors": {"allowOrigins": ["https://app.example.com:443"]}})),
            "gateway.cors.allowOrigins has an origin with the default port",
        ),
        (
            json!({"gateway": {"serviceType": "NodePort"}}),
            "gateway.serviceType is for gateway.provider Standalone",
        ),
        (
            gateway(json!({"tls": {"secretName": "tls"}})),
            "gateway.tls needs gateway.hosts",
        ),
        (
            gateway(json!({"tls": {"secretName": "tls", "hsts": {}}, "hosts": ["a.b"]})),
            "gateway.tls.hsts is for gateway.provider Standalone",
        ),
        (
            gateway(json!({"tls": {"secretName": "tls", "redirect": false, "hsts": {}}})),
            "gateway.tls.hsts needs gateway.tls.redirect",
        ),
        (
            gateway(json!({"tls": {"secretName": "tls", "hsts": {"preload": true}}})),
            "gateway.tls.hsts.preload needs includeSubDomains and a maxAgeSeconds",
        ),
        (
            gateway(json!({"tls": {"secretName": "tls", "hsts": {
                "preload": true, "includeSubDomains": true, "maxAgeSeconds": 31_535_999,
            }}})),
            "gateway.tls.hsts.preload needs includeSubDomains and a maxAgeSeconds",
        ),
        (
            gateway(json!({"provider": "GatewayAPI"})),
            "gateway.provider GatewayAPI needs gateway.parentRefs: set the name of a Gateway",
        ),
        (
            gateway(json!({
                "provider": "GatewayAPI", "parentRefs": [{"name": "public"}], "serviceType": "NodePort",
            })),
            "gateway.serviceType is for gateway.provider Standalone",
        ),
        (
            gateway(json!({"provider": "Standalone", "annotations": {"a": "b"}})),
            "gateway.annotations is for gateway.provider IngressNginx",
        ),
        (
            gateway(json!({"annotations": {"shortener.dev/applied-hash": "x"}})),
            "gateway.annotations has an annotation that begins with shortener.dev/",
        ),
        (
            gateway(json!({"annotations": {"nginx.ingress.kubernetes.io/server-snippet": "x"}})),
            "gateway.annotations has a snippet",
        ),
        (
            gateway(json!({"annotations": {"nginx.org/location-snippets": "x"}})),
            "gateway.annotations has a snippet",
        ),
        (
            gateway(json!({"service": {"annotations": {"shortener.dev/applied-hash": "x"}}})),
            "gateway.service.annotations has an annotation that begins with shortener.dev/",
        ),
        (
            json!({"database": {"managed": {}, "external": {"secretRef": {"name": "db"}}}}),
            "database.managed and database.external exclude each other",
        ),
        (
            json!({"database": {"managed": {}, "cloudNativePG": {}}}),
            "database.cloudNativePG excludes database.managed and database.external",
        ),
        (
            json!({"database": {"cloudNativePG": {}, "restoreFrom": {"claimName": "old"}}}),
            "database.restoreFrom needs a database that the operator manages",
        ),
        (
            json!({"database": {"cloudNativePG": {"storage": "lots"}}}),
            "database.cloudNativePG.storage is not a size",
        ),
        (
            json!({"queue": {"managed": {}, "rabbitmqCluster": {}}}),
            "queue.rabbitmqCluster excludes queue.managed and queue.external",
        ),
        (
            json!({"queue": {"rabbitmqCluster": {"replicas": 2}}}),
            "queue.rabbitmqCluster.replicas is even: write 1, 3, 5 or 7",
        ),
        (
            json!({"queue": {"rabbitmqCluster": {"storage": "100Mi"}}}),
            "queue.rabbitmqCluster.storage is not a size of at least 512Mi",
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
            json!({"observability": {"collector": {"managed": {}, "external": {"endpoint": "http://a:4317"}}}}),
            "observability.collector.managed and observability.collector.external exclude each other",
        ),
        (
            json!({"observability": {"collector": {"external": {"endpoint": "a:4317"}}}}),
            "observability.collector.external.endpoint is not an address for OTLP by gRPC",
        ),
        (
            json!({"observability": {"collector": {"external": {"endpoint": "http://a:4317"}}, "backend": {"managed": {}}}}),
            "observability.backend requires the managed collector",
        ),
        (
            json!({"observability": {"backend": {"managed": {}, "external": {"endpoint": "http://a:4317"}}}}),
            "observability.backend.managed and observability.backend.external exclude each other",
        ),
        (
            json!({"observability": {"backend": {"managed": {"storage": "much"}}}}),
            "observability.backend.managed.storage is not a size of at least 512Mi",
        ),
        (
            json!({"observability": {"backend": {"managed": {"storage": "1Mi"}}}}),
            "observability.backend.managed.storage is not a size of at least 512Mi",
        ),
        (
            backend(json!({})),
            "observability.backend.external has no endpoint",
        ),
        (
            backend(json!({"tracesEndpoint": "http://a:4317"})),
            "observability.backend.external has no endpoint",
        ),
        (
            backend(json!({"endpoint": "https://me:secret@a"})),
            "observability.backend.external.endpoint is not an http(s) address",
        ),
        (
            backend(json!({"endpoint": "http://a", "tracesEndpoint": "a"})),
            "observability.backend.external.tracesEndpoint is not an http(s) address",
        ),
        (
            backend(json!({"endpoint": "http://a", "logsEndpoint": "ftp://a"})),
            "observability.backend.external.logsEndpoint is not an http(s) address",
        ),
        (
            backend(json!({"endpoint": "http://a:4317/otlp"})),
            "observability.backend.external has an endpoint with a path",
        ),
        (
            json!({"vector": {"managed": {}, "external": {"secretRef": {"name": "qdrant"}}}}),
            "vector.managed and vector.external exclude each other",
        ),
        (
            json!({"vector": {"managed": {"storage": "0"}}}),
            "vector.managed.storage is not a size",
        ),
        (
            json!({"vector": {"collection": "a/b"}}),
            "vector.collection is not a name",
        ),
        (
            json!({"app": {"resources": {"requests": {"cpu": "fast"}}}}),
            "is not a quantity",
        ),
        (
            json!({"app": {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}}),
            "app.autoscaling.minReplicas is above maxReplicas",
        ),
        (
            json!({"workers": {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}}),
            "workers.autoscaling.minReplicas is above maxReplicas",
        ),
        (
            json!({
                "workers": {"autoscaling": {"maxReplicas": 2}},
                "queue": {"external": {"secretRef": {"name": "broker"}}},
            }),
            "workers.autoscaling needs a queue that the operator manages",
        ),
    ];
    for (spec, message) in table {
        let refusal = refusal(spec.clone());
        assert!(refusal.contains(message), "{spec} led to: {refusal}");
    }
}

#[test]
fn every_combination_of_profiles_is_valid() {
    for chosen in combinations() {
        let profiles: Vec<&str> = chosen.iter().map(|profile| profile.as_str()).collect();
        let spec = json!({"profiles": profiles, "observability": {"backend": {"managed": {}}}});
        assert_eq!(refusal(spec), "", "{profiles:?}");
    }
}

#[test]
fn names_that_are_too_long_or_dotted_are_refused() {
    for name in ["a".repeat(41).as_str(), "1st", "a.b", "a-"] {
        let errors = admit(&stack(name, json!({})), None);
        assert!(
            errors.contains("metadata.name begins with a letter"),
            "{name}: {errors}"
        );
    }
    assert_eq!(admit(&stack(&"a".repeat(40), json!({})), None), "");
}

#[test]
fn a_running_stack_gets_a_cluster_only_with_its_links_and_loses_none() {
    let cluster = json!({"database": {"cloudNativePG": {"instances": 1}}});
    let managed = json!({"database": {"managed": {"storage": "8Gi"}}});
    let external = json!({"database": {"external": {"secretRef": {"name": "links"}}}});
    let paused = |spec: &Value| {
        let mut spec = spec.clone();
        spec["paused"] = json!(true);
        spec
    };
    let named = "database.cloudNativePG can be removed, or replace database.external, only while";
    for (old, new) in [
        (&cluster, &managed),
        (&cluster, &external),
        (&external, &cluster),
    ] {
        assert!(update_refusal(old.clone(), new.clone()).contains(named));
        assert!(update_refusal(old.clone(), paused(new)).contains(named));
        assert_eq!(update_refusal(paused(old), paused(new)), "");
    }
    let more = json!({"database": {"cloudNativePG": {"instances": 3}}});
    for old in [cluster.clone(), managed, json!({})] {
        assert_eq!(update_refusal(old, more.clone()), "");
    }
}

#[test]
fn a_stack_gets_and_loses_its_members_only_in_a_pause() {
    let with = json!({"queue": {"rabbitmqCluster": {"replicas": 3}}});
    let without = json!({"queue": {"managed": {"storage": "8Gi"}}});
    let paused = |spec: &Value| {
        let mut spec = spec.clone();
        spec["paused"] = json!(true);
        spec
    };
    let named = "queue.rabbitmqCluster can be added or removed only while the stack is paused";
    for (old, new) in [(&with, &without), (&without, &with)] {
        assert!(update_refusal(old.clone(), new.clone()).contains(named));
        assert!(update_refusal(old.clone(), paused(new)).contains(named));
        assert_eq!(update_refusal(paused(old), paused(new)), "");
    }
}

#[test]
fn a_broker_gets_members_and_loses_none() {
    let members =
        |number: i32| json!({"queue": {"rabbitmqCluster": {"replicas": number}}, "paused": true});
    assert_eq!(update_refusal(members(1), members(3)), "");
    let refusal = update_refusal(members(3), members(1));
    assert!(
        refusal.contains("queue.rabbitmqCluster.replicas cannot shrink"),
        "{refusal}"
    );
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
    // Removing the field or the whole section does not bypass the rule.
    assert!(update_refusal(storage("2Gi"), json!({"database": {"managed": {}}})).contains(shrink));
    assert!(update_refusal(storage("2Gi"), json!({})).contains(shrink));
    assert!(update_refusal(json!({}), storage("500Mi")).contains(shrink));
}

/// A volume: its name in the status, the field of its size, and a spec with a size of it.
type Volume = (&'static str, &'static str, fn(&str) -> Value);

/// The volumes of a stack.
const VOLUMES: [Volume; 5] = [
    ("database", "database.managed.storage", storage),
    (
        "queue",
        "queue.managed.storage",
        |size| json!({"queue": {"managed": {"storage": size}}}),
    ),
    ("vector", "vector.managed.storage", |size| {
        vector(json!({"managed": {"storage": size}}))
    }),
    (
        "backend",
        "observability.backend.managed.storage",
        |size| json!({"observability": {"backend": {"managed": {"storage": size}}}}),
    ),
    ("backup", "database.backup.volume.storage", |size| {
        backup(json!({"volume": {"storage": size}}))
    }),
];

/// Returns a spec with backups.
fn backup(settings: Value) -> Value {
    let mut backup = json!({"schedule": "@daily", "volume": {}});
    let fields = backup.as_object_mut().unwrap();
    fields.extend(settings.as_object().unwrap().clone());
    json!({"database": {"backup": backup}})
}

#[test]
fn backups_have_a_schedule_and_sessions_of_the_server() {
    assert_eq!(refusal(backup(json!({}))), "");
    for schedule in ["", "daily", "17 3 * *", "17 25 * * *"] {
        let refusal = refusal(backup(json!({"schedule": schedule})));
        let named = "database.backup.schedule is not a schedule";
        assert!(refusal.contains(named), "{schedule:?}: {refusal}");
    }
    let mut pooled = backup(json!({}));
    pooled["database"]["external"] = json!({"secretRef": {"name": "db"}});
    assert_eq!(refusal(pooled.clone()), "");
    pooled["database"]["external"]["pooler"] = "Transaction".into();
    let refusal = refusal(pooled);
    assert!(
        refusal.contains("database.backup needs sessions"),
        "{refusal}"
    );
}

#[test]
fn backups_have_one_place() {
    let s3 =
        json!({"endpoint": "https://s3.test", "bucket": "backups", "secretRef": {"name": "s3"}});
    let of = |place: Value| {
        let mut backup = json!({"schedule": "@daily"});
        let fields = backup.as_object_mut().unwrap();
        fields.extend(place.as_object().unwrap().clone());
        refusal(json!({"database": {"backup": backup}}))
    };
    for place in [json!({"volume": {}}), json!({"s3": s3})] {
        assert_eq!(of(place.clone()), "", "{place}");
    }
    for place in [json!({}), json!({"volume": {}, "s3": s3})] {
        assert!(of(place).contains("database.backup needs a place"));
    }
    for endpoint in [
        "s3.test",
        "https://user:pass@s3.test",
        "https://s3.test/path",
        "ftp://s3.test",
    ] {
        let mut s3 = s3.clone();
        s3["endpoint"] = endpoint.into();
        assert!(
            of(json!({"s3": s3})).contains("endpoint of a bucket"),
            "{endpoint}"
        );
    }
    let from = |from: Value| refusal(json!({"database": {"restoreFrom": from}}));
    assert_eq!(from(json!({"s3": s3})), "");
    for place in [json!({}), json!({"claimName": "old-backup", "s3": s3})] {
        assert!(from(place).contains("database.restoreFrom needs a place"));
    }
}

#[test]
fn a_backup_is_restored_into_a_new_managed_database_only() {
    let restored = |backup: &str| json!({"database": {"restoreFrom": {"claimName": "old-backup", "backup": backup}}});
    let (one, other) = (restored("20261128T041700Z"), restored("20261129T041700Z"));
    assert_eq!(refusal(one.clone()), "");
    assert_eq!(update_refusal(one.clone(), one.clone()), "");
    assert_eq!(update_refusal(one.clone(), json!({})), "");
    for old in [json!({}), other] {
        let refusal = update_refusal(old, one.clone());
        assert!(
            refusal.contains("only when a stack is created"),
            "{refusal}"
        );
    }
    let paused = |mut spec: Value| {
        spec["paused"] = true.into();
        spec
    };
    assert_eq!(update_refusal(paused(json!({})), paused(one.clone())), "");
    assert_ne!(update_refusal(paused(json!({})), one.clone()), "");
    let mut external = one;
    external["database"]["external"] = json!({"secretRef": {"name": "db"}});
    let refusal = refusal(external);
    assert!(
        refusal.contains("database.restoreFrom needs a database"),
        "{refusal}"
    );
}

#[test]
fn backups_can_be_switched_off_and_on_with_a_smaller_volume() {
    let large = backup(json!({"volume": {"storage": "20Gi"}}));
    assert_eq!(update_refusal(large.clone(), json!({})), "");
    assert_eq!(
        update_refusal(json!({}), backup(json!({"volume": {"storage": "1Gi"}}))),
        ""
    );
    let shrink = update_refusal(large, backup(json!({})));
    assert!(
        shrink.contains("database.backup.volume.storage cannot shrink"),
        "{shrink}"
    );
}

#[test]
fn a_growth_that_was_refused_is_taken_back_to_the_size_of_the_volume_and_no_further() {
    for (name, field, spec) in VOLUMES {
        let shrink = format!("{field} cannot shrink");
        let refusal =
            |volumes: &Value, size: &str| update_refusal_beside(volumes, spec("8Gi"), spec(size));
        let volumes = json!({name: "4Gi"});
        for size in ["4Gi", "4096Mi", "5Gi", "8Gi", "9Gi"] {
            assert_eq!(refusal(&volumes, size), "", "{name} {size}");
        }
        for size in ["4095Mi", "1Gi"] {
            let refusal = refusal(&volumes, size);
            assert!(refusal.contains(&shrink), "{name} {size}: {refusal}");
            let path = format!("field_path: \".spec.{field}\"");
            assert!(refusal.contains(&path), "{refusal}");
        }
        // The volume may be larger than the spec says, which then decides.
        assert_eq!(refusal(&json!({name: "16Gi"}), "8Gi"), "", "{name}");
        for unknown in [json!({}), Value::Null, json!({"other": "4Gi"})] {
            let refusal = refusal(&unknown, "4Gi");
            assert!(refusal.contains(&shrink), "{name} {unknown}: {refusal}");
        }
    }
}

#[test]
fn the_volume_of_one_store_takes_nothing_back_for_another() {
    for (name, field, spec) in VOLUMES {
        let mut volumes = json!({"database": "4Gi", "queue": "4Gi", "vector": "4Gi", "backend": "4Gi", "backup": "4Gi"});
        volumes.as_object_mut().unwrap().remove(name);
        let refusal = update_refusal_beside(&volumes, spec("8Gi"), spec("4Gi"));
        let shrink = format!("{field} cannot shrink");
        assert!(refusal.contains(&shrink), "{name}: {refusal}");
    }
}

#[test]
fn a_recorded_size_that_is_no_quantity_stops_no_other_edit() {
    for (name, field, spec) in VOLUMES {
        for size in ["", "much", "4GiB"] {
            let volumes = json!({name: size});
            let refusal = |size: &str| update_refusal_beside(&volumes, spec("8Gi"), spec(size));
            assert_eq!(refusal("8Gi"), "", "{name} {size}");
            assert_eq!(refusal("9Gi"), "", "{name} {size}");
            let shrink = format!("{field} cannot shrink");
            assert!(refusal("4Gi").contains(&shrink), "{name} {size}");
        }
    }
}

#[test]
fn a_stack_passes_to_another_operator_only_while_it_is_paused() {
    let stack = |class: &str, paused: bool| match class {
        "" => json!({"paused": paused}),
        class => json!({"operatorClass": class, "paused": paused}),
    };
    let classes = [("", "canary"), ("canary", ""), ("canary", "stable")];
    for (old, new) in classes {
        assert_eq!(update_refusal(stack(old, true), stack(new, true)), "");
        assert_eq!(update_refusal(stack(old, true), stack(old, false)), "");
        for paused in [(false, false), (true, false), (false, true)] {
            let refusal = update_refusal(stack(old, paused.0), stack(new, paused.1));
            let message = "operatorClass can change only while the stack is paused";
            assert!(
                refusal.contains(message),
                "{old}, {new}, {paused:?}: {refusal}"
            );
        }
    }
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

fn vector(settings: Value) -> Value {
    json!({"profiles": ["vector"], "vector": settings})
}

/// Returns pairs of specs that change a field that is fixed while the profile is on. For each field, one pair leaves
/// out the field or the section.
fn fixed_of_a_vector_store() -> Vec<(Value, Value, &'static str)> {
    let class = |name: &str| json!({"managed": {"storageClassName": name}});
    vec![
        (json!({}), json!({"size": 8}), "vector.size cannot change"),
        (json!({"size": 8}), json!({}), "vector.size cannot change"),
        (
            json!({"distance": "Dot"}),
            json!({}),
            "vector.distance cannot change",
        ),
        (
            json!({}),
            json!({"collection": "pages"}),
            "vector.collection cannot change",
        ),
        (
            json!({"managed": {"storage": "2Gi"}}),
            json!({"managed": {}}),
            "vector.managed.storage cannot shrink",
        ),
        (
            json!({"managed": {"storage": "2Gi"}}),
            json!({}),
            "vector.managed.storage cannot shrink",
        ),
        (
            class("fast"),
            class("slow"),
            "vector.managed.storageClassName cannot change",
        ),
        (
            class("fast"),
            json!({}),
            "vector.managed.storageClassName cannot change",
        ),
    ]
}

#[test]
fn a_live_vector_store_keeps_its_form() {
    for (old, new, message) in fixed_of_a_vector_store() {
        let refusal = update_refusal(vector(old.clone()), vector(new.clone()));
        assert!(refusal.contains(message), "{old} to {new}: {refusal}");
    }
    let grown = json!({"managed": {"storage": "2Gi"}});
    assert_eq!(update_refusal(vector(json!({})), vector(grown)), "");
    // Removing the section does not bypass the rule.
    let refusal = update_refusal(vector(json!({"size": 8})), json!({"profiles": ["vector"]}));
    assert!(refusal.contains("vector.size cannot change"), "{refusal}");
}

#[test]
fn a_vector_store_that_is_off_on_either_side_takes_another_form() {
    for (old, new, _) in fixed_of_a_vector_store() {
        let off = |settings: &Value| json!({"vector": settings});
        assert_eq!(update_refusal(off(&old), vector(new.clone())), "");
        assert_eq!(update_refusal(vector(old), off(&new)), "");
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
fn the_volume_of_the_backend_grows_and_keeps_its_class_while_there_is_one() {
    let volume = |settings: Value| json!({"observability": {"backend": {"managed": settings}}});
    let size = |size: &str| volume(json!({"storage": size}));
    assert_eq!(update_refusal(size("2Gi"), size("3Gi")), "");
    assert_eq!(update_refusal(volume(json!({})), size("2048Mi")), "");
    let shrink = "observability.backend.managed.storage cannot shrink";
    for (old, new) in [
        (size("3Gi"), size("2Gi")),
        (size("3Gi"), volume(json!({}))),
        (volume(json!({})), size("1Gi")),
    ] {
        let refusal = update_refusal(old, new);
        assert!(refusal.contains(shrink), "{refusal}");
    }
    let class = |name: &str| volume(json!({"storageClassName": name}));
    for (old, new) in [
        (class("fast"), class("slow")),
        (class("fast"), volume(json!({}))),
        (volume(json!({})), class("fast")),
    ] {
        let refusal = update_refusal(old, new);
        let message = "observability.backend.managed.storageClassName cannot change";
        assert!(refusal.contains(message), "{refusal}");
    }
    // Without a backend there is no size to compare with. Removing the section switches the backend off.
    assert_eq!(update_refusal(size("3Gi"), json!({})), "");
    assert_eq!(update_refusal(json!({}), size("600Mi")), "");
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
    assert_eq!(stored["links"], json!({"forwardQuery": false}));
    assert_eq!(stored["database"], json!({}));
    assert_eq!(stored["cache"], json!({"ttlSeconds": 3600}));
    assert_eq!(stored["queue"], json!({"deliveryLimit": 5}));
    assert_eq!(
        stored["observability"],
        json!({"collector": {}, "backend": {}})
    );
    assert_eq!(
        stored["vector"],
        json!({"collection": "docs", "size": 4, "distance": "Cosine"})
    );
    assert!(stored.get("profiles").is_none());
    assert_eq!(stored["gateway"]["provider"], "IngressNginx");
    assert!(stored["gateway"].get("image").is_none() && stored["app"].get("resources").is_none());
}

#[test]
fn profiles_are_a_set_of_those_that_are_built() {
    use kube_core::CustomResourceExt;
    let crd = serde_json::to_value(ShortenerStack::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let profiles = &schema["spec"]["properties"]["profiles"];
    assert_eq!(profiles["x-kubernetes-list-type"], "set");
    let built: Vec<_> = Profile::ALL.map(Profile::as_str).to_vec();
    assert_eq!(profiles["items"]["enum"], json!(built));
    assert!(profiles.get("uniqueItems").is_none(), "{profiles}");
}

#[test]
fn public_tasks_are_a_set_of_names_that_may_be_empty() {
    let definition = serde_json::to_value(ShortenerStack::crd()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let tasks = &schema["spec"]["properties"]["queue"]["properties"]["publicTasks"];
    assert_eq!(tasks["x-kubernetes-list-type"], "set", "{tasks}");
    assert_eq!(tasks["items"]["pattern"], "^([*]|[A-Za-z0-9_.:-]+)$");
    assert_eq!(tasks["items"]["maxLength"], 64);
    assert!(tasks["description"].is_string() && tasks.get("uniqueItems").is_none());
    for list in [json!([]), json!(["*", "wait"])] {
        let spec = json!({"queue": {"publicTasks": list}});
        assert_eq!(refusal(spec.clone()), "");
        let stored = serde_json::to_value(stack("acme", spec).spec).unwrap();
        assert_eq!(stored["queue"]["publicTasks"], list);
    }
}

#[test]
fn those_who_watch_select_by_labels_that_are_not_the_operators_own() {
    let labels =
        |labels: Value| refusal(json!({"monitoring": {"enabled": true, "labels": labels}}));
    assert_eq!(
        labels(json!({"release": "kube-prometheus-stack", "grafana_dashboard": "true"})),
        ""
    );
    assert_eq!(refusal(json!({"monitoring": {"enabled": false}})), "");
    for own in ["name", "instance", "component", "managed-by"] {
        let refused = labels(json!({format!("app.kubernetes.io/{own}"): "x"}));
        assert!(
            refused.contains("monitoring.labels holds a label that the operator sets itself"),
            "{own}: {refused}"
        );
    }
}

#[test]
fn explain_begins_with_a_sentence_about_the_resource() {
    let crd =
        serde_json::to_value(<ShortenerStack as kube_core::CustomResourceExt>::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let text = schema["description"].as_str().unwrap();
    assert!(text.starts_with("A link-shortening service: "), "{text}");
}

#[test]
fn a_reference_to_a_secret_needs_no_key() {
    let key = |reference: Value| {
        let spec = json!({"database": {"external": {"secretRef": reference}}});
        let external = stack("acme", spec).spec.database.external.unwrap();
        external.secret_ref.key
    };
    assert_eq!(key(json!({"name": "db"})), None);
    assert_eq!(
        key(json!({"name": "db", "key": "uri"})).as_deref(),
        Some("uri")
    );
}

#[test]
fn changes_of_a_pod_template_reach_the_operator_as_they_are_written() {
    let definition = serde_json::to_value(ShortenerStack::crd()).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    for component in ["app", "workers", "gateway", "database/properties/managed"] {
        let field = definition.pointer(&format!("{spec}/{component}/properties/podTemplate"));
        let field = field.unwrap();
        assert_eq!(field["type"], "object", "{component}");
        assert_eq!(field["x-kubernetes-preserve-unknown-fields"], true);
    }
    let changes =
        json!({"spec": {"runAsUsr": null, "containers": [{"name": "a", "$patch": "delete"}]}});
    let stack = stack("acme", json!({"app": {"podTemplate": changes}}));
    let stored = serde_json::to_value(stack).unwrap();
    assert_eq!(stored["spec"]["app"]["podTemplate"], changes);
}
