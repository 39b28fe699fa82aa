//! Tests of errors after admission, and of resolved defaults.

mod passwords;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ByteString, api::apps::v1::Deployment, apimachinery::pkg::api::resource::Quantity,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{CaRef, ClientTls, DatabaseTlsMode, SecretKeyRef},
    model::{
        access::Access,
        checksum::find_of_user,
        credentials::{JOB_IDS_KEY, MANAGEMENT_KEY},
        defaults::PodTemplatePolicy,
        external,
        facts::{
            BrokerFact, ClaimFact, ClusterFact, CredentialState, ExternalAccess, GatewayFacts,
            HeaderFacts, MissingKeys, PodContents, QueueFacts, RunningServer, StoreFacts, TlsEntry,
        },
        failure::StepFailure,
        gateway_api::LiveGateway,
        metadata::{CONFIG_CHECKSUM, StackIdentity},
        stack::{HostConflict, Hosts, ManagedStore, Parent, Routing, Store, StoreVolume},
        version::Version,
    },
    plan::{references, stores},
    testing::{shared::stored_stack, stack::defaults},
};

fn data(entries: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
    let entries = entries.iter();
    entries
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect()
}

/// Returns facts about a stack of which only those about the database matter.
fn with_database(stack: &ShortenerStack, database: StoreFacts) -> Facts {
    Facts {
        identity: StackIdentity::of(stack).unwrap(),
        checksum_key: CredentialState::Existing(data(&[(CHECKSUM_KEY, "k")])),
        job_ids: CredentialState::Existing(data(&[(JOB_IDS_KEY, "k")])),
        management: CredentialState::Existing(data(&[(MANAGEMENT_KEY, "k")])),
        database,
        optional: BTreeMap::new(),
        queue: QueueFacts::default(),
        headers: None,
        has_monitoring_kinds: false,
        cluster: ClusterFact::Started,
        broker_cluster: BrokerFact::started(),
        has_gateway_kinds: false,
        backup_claim: None,
        restore_claim_usable: Ok(false),
        vector_key: None,
        missing_keys: MissingKeys::default(),
        missing_webhook_secrets: BTreeSet::new(),
        gateway: GatewayFacts::default(),
        drill: None,
        rival: None,
        programs: BTreeMap::new(),
        recorded: BTreeMap::new(),
        contents: BTreeMap::new(),
    }
}

fn managed(credentials: CredentialState) -> StoreFacts {
    StoreFacts::Managed {
        credentials,
        running: None,
        claim: None,
    }
}

fn credentials() -> CredentialState {
    CredentialState::Existing(data(&[("username", "shortener"), ("password", "p")]))
}

fn validated(spec: Value) -> ValidatedStack {
    let stack = stored_stack(spec);
    validate(
        &stack,
        with_database(&stack, managed(credentials())),
        &defaults(),
    )
    .unwrap()
}

/// Returns the reason for which the only component that does not pass is held.
fn refused(spec: Value, database: StoreFacts) -> StepFailure {
    let stack = stored_stack(spec);
    let validated = validate(&stack, with_database(&stack, database), &defaults()).unwrap();
    assert_eq!(validated.held.len(), 1, "{:?}", validated.held);
    validated.held.into_values().next().unwrap()
}

/// Returns true when no component is held.
fn passes(stack: &ShortenerStack, database: StoreFacts) -> bool {
    let validated = validate(stack, with_database(stack, database), &defaults()).unwrap();
    validated.held.is_empty()
}

#[test]
fn short_links_begin_with_the_public_url_the_host_or_localhost() {
    let table = [
        (json!({}), "http://localhost:8080"),
        (json!({"gateway": {"hosts": ["go.test"]}}), "http://go.test"),
        (
            json!({"gateway": {"hosts": ["go.test"], "tls": {"secretName": "tls"}}}),
            "https://go.test",
        ),
        (
            json!({"publicUrl": "https://x.test/", "gateway": {"hosts": ["go.test"]}}),
            "https://x.test",
        ),
    ];
    for (spec, url) in table {
        assert_eq!(validated(spec.clone()).public_url, url, "{spec}");
    }
}

#[test]
fn visitors_are_not_sent_to_the_stack_itself() {
    for spec in [
        json!({"links": {"rootTarget": "http://localhost:8080/"}}),
        json!({"publicUrl": "https://x.test", "links": {"unknownTarget": "https://x.test/none"}}),
        json!({"gateway": {"hosts": ["go.test"]}, "links": {"expiredTarget": "https://go.test"}}),
    ] {
        let error = refused(spec.clone(), managed(credentials()));
        assert_eq!(error.reason, "TargetIsOwn", "{spec}");
        assert!(error.needs_an_edit);
    }
    let links = json!({"links": {"rootTarget": "https://www.test", "forwardQuery": true}});
    let app = validated(links).app;
    assert_eq!(app.links.root_target.as_deref(), Some("https://www.test"));
    assert!(app.links.forward_query && app.cors.is_empty());
}

#[test]
fn images_come_from_the_spec_or_the_operators_release() {
    let defaults = defaults();
    assert_eq!(validated(json!({})).app.pod.image, defaults.images.app);
    assert_eq!(
        validated(json!({"app": {"image": "mine:2"}})).app.pod.image,
        "mine:2"
    );
}

#[test]
fn a_gateway_of_its_own_lets_everybody_in_unless_told_otherwise() {
    assert!(!validated(json!({})).gateway.allow_from.is_empty());
    assert!(
        validated(json!({"gateway": {"provider": "Standalone"}}))
            .gateway
            .allow_from
            .is_empty()
    );
    let given = json!({"gateway": {"provider": "Standalone", "allowFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}});
    assert_eq!(validated(given).gateway.allow_from.len(), 1);
}

#[test]
fn a_gateway_without_a_namespace_is_that_of_the_stack() {
    for (reference, namespace, section) in [
        (json!({"name": "public"}), "links", None),
        (
            json!({"name": "public", "namespace": "infra", "sectionName": "https"}),
            "infra",
            Some("https"),
        ),
    ] {
        let gateway = json!({"provider": "GatewayAPI", "parentRefs": [reference]});
        let stack = validated(json!({"gateway": gateway}));
        assert!(stack.gateway.allow_from.is_empty());
        let Routing::GatewayApi { parents, .. } = stack.gateway.routing else {
            panic!("no Gateway");
        };
        let expected = Parent {
            namespace: namespace.to_owned(),
            name: "public".to_owned(),
            section: section.map(str::to_owned),
            port: None,
            live: LiveGateway::Unknown,
        };
        assert_eq!(parents, [expected]);
    }
}

#[test]
fn a_gateway_keeps_its_host_while_another_stack_holds_the_one_of_the_spec() {
    for gateway in [
        json!({"hosts": ["new.test"]}),
        json!({"hosts": ["new.test"], "provider": "GatewayAPI", "parentRefs": [{"name": "public"}]}),
    ] {
        let stack = stored_stack(json!({"gateway": gateway}));
        let wanted = HostConflict {
            holder: "links/other".to_owned(),
            hosts: vec!["new.test".to_owned()],
            kept: Some(Hosts {
                links: vec!["before.test".to_owned()],
                console: None,
            }),
        };
        let mut facts = with_database(&stack, managed(credentials()));
        facts.gateway.host_conflict = Some(wanted.clone());
        let validated = validate(&stack, facts, &defaults()).unwrap();
        assert_eq!(validated.gateway.hosts, ["before.test"]);
        assert_eq!(validated.gateway.conflict, Some(wanted));
    }
}

#[test]
fn a_gateway_that_is_not_named_is_missed_even_if_an_edit_bypassed_the_schema() {
    let error = refused(
        json!({"gateway": {"provider": "GatewayAPI"}}),
        managed(credentials()),
    );
    assert_eq!(error.reason, "NoGateway");
    assert!(error.needs_an_edit);
    assert!(
        error.message.starts_with("gateway.parentRefs: "),
        "{error:?}"
    );
}

#[test]
fn a_stopped_stack_has_no_pods_and_keeps_its_size() {
    let stack = validated(json!({"stopped": true}));
    assert_eq!((stack.app.replicas, stack.gateway.replicas), (0, 0));
    let database = stack.database.as_ref().unwrap().managed().unwrap();
    let volume = StoreVolume {
        version: Version::parse("18"),
        ..StoreVolume::new(Quantity("1Gi".to_owned()), None)
    };
    assert_eq!((database.replicas, &database.volume), (0, &Some(volume)));
}

#[test]
fn a_credential_that_is_gone_while_its_volume_exists_is_never_minted_anew() {
    let error = refused(json!({}), managed(CredentialState::Missing));
    assert_eq!(error.reason, "CredentialsMissing");
    let message = error.message;
    assert!(message.contains("restore the Secret"), "{message}");
}

#[test]
fn credentials_wait_for_data_that_is_being_deleted_and_take_none_of_others() {
    let cases = [
        (
            CredentialState::Terminating,
            "DataTerminating",
            "Secret acme-postgres",
        ),
        (
            CredentialState::ClaimTerminating,
            "DataTerminating",
            "volume claim acme-postgres",
        ),
        (
            CredentialState::ClaimNotOwned,
            "NameTaken",
            "volume claim acme-postgres",
        ),
    ];
    for (state, reason, object) in cases {
        let error = refused(json!({}), managed(state));
        assert_eq!(error.reason, reason);
        assert!(error.message.starts_with(object), "{error:?}");
        assert!(!error.needs_an_edit, "{error:?}");
    }
}

#[test]
fn incomplete_and_foreign_secrets_are_named() {
    let incomplete =
        CredentialState::Existing(data(&[("username", "shortener"), ("password", "")]));
    assert_eq!(
        refused(json!({}), managed(incomplete)).message,
        "Secret acme-postgres has no value for key password: add it"
    );
    assert_eq!(
        refused(json!({}), managed(CredentialState::NotOwned)).reason,
        "NameTaken"
    );
}

#[test]
fn an_external_database_needs_its_secret() {
    let reference = SecretKeyRef {
        name: "db".to_owned(),
        key: Some("uri".to_owned()),
    };
    let spec = json!({"database": {"external": {"secretRef": {"name": "db", "key": "uri"}}}});
    let absent = StoreFacts::External {
        reference: reference.clone(),
        found: None,
        tls: None,
    };
    let error = refused(spec.clone(), absent);
    assert!(
        error
            .message
            .contains("Secret db with key uri does not exist"),
        "{error:?}"
    );

    let stack = stored_stack(spec);
    let present = StoreFacts::External {
        reference,
        found: Some(ExternalAccess {
            access: Access::Url("uri".to_owned()),
            entries: data(&[("uri", "postgres://")]),
        }),
        tls: None,
    };
    let validated = validate(&stack, with_database(&stack, present), &defaults()).unwrap();
    assert!(matches!(validated.database, Some(Store::External { secret, .. }) if secret == "db"));
}

#[test]
fn a_secret_that_tells_nothing_is_refused_with_the_keys_that_would() {
    let absent = StoreFacts::External {
        reference: SecretKeyRef {
            name: "db".to_owned(),
            key: None,
        },
        found: None,
        tls: None,
    };
    let spec = json!({"database": {"external": {"secretRef": {"name": "db"}}}});
    let error = refused(spec, absent).message;
    assert!(
        error.contains("database.external: Secret db with key url, uri, connection_string or host does not exist"),
        "{error}"
    );
}

#[test]
fn certificates_of_an_external_database_must_exist_and_a_new_one_restarts_its_clients() {
    let spec = json!({"database": {"external": {
        "secretRef": {"name": "db", "key": "uri"},
        "tls": {"mode": "VerifyCA", "caSecretRef": {"name": "db-ca"}},
    }}});
    let stack = stored_stack(spec.clone());
    let with_authority = |authority: Option<&str>| {
        let tls = ClientTls {
            ca_secret_ref: Some(CaRef {
                name: "db-ca".to_owned(),
                key: "ca.crt".to_owned(),
            }),
            client_certificate_secret_ref: None,
        };
        let files = external::files(&tls).into_iter();
        StoreFacts::External {
            reference: SecretKeyRef {
                name: "db".to_owned(),
                key: Some("uri".to_owned()),
            },
            found: Some(ExternalAccess {
                access: Access::Url("uri".to_owned()),
                entries: data(&[("uri", "postgres://")]),
            }),
            tls: Some(
                files
                    .map(|file| TlsEntry {
                        file,
                        value: authority.map(|text| ByteString(text.as_bytes().to_vec())),
                    })
                    .collect(),
            ),
        }
    };
    let error = refused(spec, with_authority(None)).message;
    assert!(
        error.contains("database.external: Secret db-ca with key ca.crt does not exist"),
        "{error}"
    );
    let database = |authority| {
        let facts = with_database(&stack, with_authority(Some(authority)));
        validate(&stack, facts, &defaults())
            .unwrap()
            .database
            .unwrap()
    };
    let (first, second) = (database("first"), database("second"));
    assert_ne!(first.checksum(), second.checksum());
    assert_eq!(
        first.tls().and_then(|tls| tls.mode),
        Some(DatabaseTlsMode::VerifyCa)
    );
}

/// Returns the facts about a store with a volume: the version in the claim's annotation, and the running image.
fn with_volume(version: Option<u32>, running: Option<&str>) -> StoreFacts {
    StoreFacts::Managed {
        credentials: credentials(),
        running: running.map(|image| RunningServer {
            image: image.to_owned(),
            is_ready: true,
        }),
        claim: Some(ClaimFact {
            version: version.map(|major| Version { major, minor: None }),
            ..ClaimFact::default()
        }),
    }
}

fn version_of(store: &ManagedStore) -> Option<String> {
    let version = store.volume.as_ref()?.version?;
    Some(version.to_string())
}

#[test]
fn another_major_version_than_that_of_the_volume_is_refused() {
    let spec = json!({"database": {"managed": {"image": "postgres:18.1"}}});
    for facts in [
        with_volume(Some(17), None),
        with_volume(None, Some("postgres:17.6")),
    ] {
        assert_eq!(refused(spec.clone(), facts).reason, "VersionRefused");
    }
    let stack = stored_stack(spec);
    for facts in [
        managed(credentials()),
        with_volume(None, None),
        with_volume(Some(18), Some("postgres:17.6")),
        with_volume(None, Some("registry.test:5000/postgres:18.0-bookworm")),
        with_volume(None, Some("postgres@sha256:abc")),
        with_volume(None, Some("registry.test:5000/postgres")),
    ] {
        assert!(passes(&stack, facts.clone()), "{facts:?}");
    }
}

#[test]
fn a_database_gets_the_default_image_that_reads_its_volume() {
    let stack = stored_stack(json!({}));
    let chosen = |facts: StoreFacts| {
        let validated = validate(&stack, with_database(&stack, facts), &defaults()).unwrap();
        let database = validated.database.unwrap();
        let database = database.managed().unwrap().clone();
        (database.pod.image.clone(), version_of(&database))
    };
    let images = defaults().images;
    for facts in [managed(credentials()), with_volume(Some(18), None)] {
        assert_eq!(
            chosen(facts),
            (images.postgres.clone(), Some("18".to_owned()))
        );
    }
    // The version of data that the operator did not create is unknown until a server has read it.
    let mut starts = with_volume(None, Some(&images.postgres));
    if let StoreFacts::Managed {
        running: Some(running),
        ..
    } = &mut starts
    {
        running.is_ready = false;
    }
    for facts in [with_volume(None, None), starts] {
        assert_eq!(chosen(facts), (images.postgres.clone(), None));
    }
    for facts in [
        with_volume(Some(17), None),
        with_volume(None, Some("postgres:17.6")),
    ] {
        assert_eq!(
            chosen(facts),
            (images.postgres_17.clone(), Some("17".to_owned()))
        );
    }
}

#[test]
fn a_database_of_an_untold_version_keeps_its_image_and_no_version_is_made_up() {
    let chosen = |spec: Value| {
        let stack = stored_stack(spec);
        let facts = with_volume(None, Some("mirror.test:5000/postgres@sha256:abc"));
        let validated = validate(&stack, with_database(&stack, facts), &defaults()).unwrap();
        let database = validated.database.unwrap();
        let database = database.managed().unwrap().clone();
        (database.pod.image.clone(), version_of(&database))
    };
    let running = "mirror.test:5000/postgres@sha256:abc".to_owned();
    assert_eq!(chosen(json!({})), (running, None));
    let named = json!({"database": {"managed": {"image": "postgres:18.1"}}});
    assert_eq!(chosen(named), ("postgres:18.1".to_owned(), None));
}

#[test]
fn a_major_version_without_a_default_image_is_asked_for_by_name() {
    let error = refused(json!({}), with_volume(Some(16), None));
    assert_eq!(error.reason, "VersionRefused");
    let stack = stored_stack(json!({"database": {"managed": {"image": "postgres:16.14"}}}));
    let facts = with_volume(Some(16), None);
    assert!(passes(&stack, facts));
}

#[test]
fn another_password_gives_another_checksum() {
    let checksum = |password: &str| {
        let stack = stored_stack(json!({}));
        let secret = CredentialState::Existing(data(&[("username", "u"), ("password", password)]));
        let validated =
            validate(&stack, with_database(&stack, managed(secret)), &defaults()).unwrap();
        validated.database.unwrap().checksum().to_owned()
    };
    assert_eq!(checksum("a"), checksum("a"));
    assert_ne!(checksum("a"), checksum("b"));
}

#[test]
fn what_could_not_be_read_is_held_with_the_answer() {
    let failure = StepFailure {
        reason: "Forbidden",
        message: "cannot read a Secret: no".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    let facts = StoreFacts::Unread(failure.clone());
    assert_eq!(refused(json!({}), facts), failure);
    let backend = json!({"external": {
        "endpoint": "https://otlp.test", "headersSecretRef": {"name": "none"},
    }});
    let spec = json!({"profiles": ["observability"], "observability": {"backend": backend}});
    let stack = stored_stack(spec);
    let headers = HeaderFacts {
        secret: "none".to_owned(),
        data: Err(failure.clone()),
        usable: false,
    };
    let facts = Facts {
        headers: Some(headers),
        ..with_nothing(&stack)
    };
    assert!(facts.is_incomplete());
    let validated = validate(&stack, facts, &defaults()).unwrap();
    assert_eq!(validated.held.get(&Component::Otel), Some(&failure));
}

#[test]
fn a_key_of_the_probe_that_could_not_be_read_holds_nothing() {
    let failure = StepFailure {
        reason: "ReadFailed",
        message: "the answer".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    let end_to_end = json!({"keySecretRef": {"name": "probe"}});
    let stack = stored_stack(json!({"gateway": {"endToEndProbe": end_to_end}}));
    let mut facts = with_nothing(&stack);
    facts.gateway.probe_key = Some(Err(failure.clone()));
    assert!(facts.is_incomplete());
    let validated = validate(&stack, facts, &defaults()).unwrap();
    assert_eq!(validated.held, BTreeMap::new());
    let settings = validated.gateway.end_to_end.unwrap();
    assert_eq!(settings.key, Some(Err(failure)));
}

#[test]
fn each_broken_part_is_held_with_its_dependents_and_no_other() {
    let missing = |field: &str| json!({field: {"external": {"secretRef": {"name": "none"}}}});
    let sized = |cache: &str| json!({"cache": {"managed": {"maxMemory": cache}}});
    let headers = json!({"observability": {"backend": {"external": {
        "endpoint": "https://otlp.test", "headersSecretRef": {"name": "none"},
    }}}});
    let own = json!({"links": {"rootTarget": "http://localhost:8080/"}});
    let annotation = json!({"gateway": {"annotations": {"a b": "x"}}});
    let table: [(Value, &str, &[Component]); 8] = [
        (
            missing("database"),
            "SecretNotFound",
            &[Component::Postgres],
        ),
        (missing("cache"), "SecretNotFound", &[Component::Cache]),
        (sized("lots"), "NotASize", &[Component::Cache]),
        (
            missing("queue"),
            "SecretNotFound",
            &[Component::Rabbitmq, Component::Worker],
        ),
        (missing("vector"), "SecretNotFound", &[Component::Qdrant]),
        (
            headers,
            "SecretNotFound",
            &[Component::Otel, Component::Telemetry],
        ),
        (own, "TargetIsOwn", &[Component::App]),
        (annotation, "NotAnAnnotation", &[Component::Gateway]),
    ];
    let profiles = ["caching", "queue", "observability", "vector"];
    for (mut spec, reason, components) in table {
        spec["profiles"] = json!(profiles);
        let stack = stored_stack(spec.clone());
        let validated = validate(&stack, with_nothing(&stack), &defaults()).unwrap();
        let held: Vec<Component> = validated.held.keys().copied().collect();
        assert_eq!(held, components, "{spec}");
        let mut reasons = validated.held.values().map(|failure| failure.reason);
        assert!(reasons.all(|found| found == reason), "{spec}");
        let on = validated.profiles().into_iter().map(Profile::as_str);
        assert_eq!(on.collect::<Vec<_>>(), profiles, "{spec}");
    }
}

/// Returns facts about a stack that has its own Secrets, and of those of the user none.
fn with_nothing(stack: &ShortenerStack) -> Facts {
    let store = |(component, external): references::StoreReference| match external {
        Some(external) => StoreFacts::External {
            reference: external.secret.clone(),
            found: None,
            tls: None,
        },
        None => {
            let entries: Vec<(&str, &str)> = stores::keys(component)
                .iter()
                .map(|key| (*key, "x"))
                .collect();
            managed(CredentialState::Existing(data(&entries)))
        }
    };
    let spec = &stack.spec;
    Facts {
        optional: references::optional(spec, "acme")
            .into_iter()
            .map(|reference| (reference.0, store(reference)))
            .collect(),
        headers: references::headers_secret(spec).map(|secret| HeaderFacts {
            secret: secret.to_owned(),
            data: Ok(None),
            usable: false,
        }),
        ..with_database(stack, store(references::database(spec, "acme")))
    }
}

#[test]
fn programs_keep_their_template_while_a_part_that_they_read_is_held() {
    let live: Deployment = serde_json::from_value(json!({
        "spec": {"selector": {}, "template": {"metadata": {"labels": {"live": "yes"}}}},
    }))
    .unwrap();
    let live = Arc::new(live);
    let external = json!({"external": {"secretRef": {"name": "none"}}});
    for (field, kept) in [
        ("cache", &[Component::App][..]),
        ("vector", &[Component::App, Component::Worker][..]),
        ("queue", &[Component::App, Component::Worker][..]),
        ("database", &[Component::App, Component::Worker][..]),
        ("", &[][..]),
    ] {
        let mut spec = json!({"profiles": ["caching", "queue", "vector"]});
        if !field.is_empty() {
            spec[field] = external.clone();
        }
        let stack = stored_stack(spec);
        let facts = Facts {
            programs: [Component::App, Component::Worker]
                .map(|program| (program, live.clone()))
                .into(),
            ..with_nothing(&stack)
        };
        let validated = validate(&stack, facts, &defaults()).unwrap();
        let found: Vec<Component> = validated.kept_templates.keys().copied().collect();
        assert_eq!(found, kept, "{field}");
    }
}

#[test]
fn pods_have_the_checksum_of_their_secrets_and_keep_it_while_one_is_missing() {
    let stack = stored_stack(json!({}));
    let contents = |value: &str, missing: bool| PodContents {
        entries: data(&[("theirs/key", value)]),
        missing,
        applied: missing.then(|| "user-before".to_owned()),
        ..PodContents::default()
    };
    let checksum = |contents: PodContents| {
        let facts = Facts {
            contents: [(Component::App, Ok(contents))].into(),
            ..with_database(&stack, managed(credentials()))
        };
        let validated = validate(&stack, facts, &defaults()).unwrap();
        assert!(validated.held.is_empty(), "{:?}", validated.held);
        let templates = build::pod_templates(&validated);
        let others = templates[&Component::Gateway].metadata.clone().unwrap();
        assert_eq!(
            find_of_user(&others.annotations.unwrap()[CONFIG_CHECKSUM]),
            None
        );
        let app = templates[&Component::App].metadata.clone().unwrap();
        let annotations = app.annotations.unwrap();
        find_of_user(&annotations[CONFIG_CHECKSUM]).map(str::to_owned)
    };
    let first = checksum(contents("a", false));
    assert!(first.is_some());
    assert_eq!(checksum(contents("a", false)), first);
    assert_ne!(checksum(contents("b", false)), first);
    let kept = checksum(contents("b", true));
    assert_eq!(kept.as_deref(), Some("user-before"));
    let new = PodContents {
        applied: None,
        ..contents("a", true)
    };
    assert_eq!(checksum(new), None);
}

#[test]
fn headers_come_from_a_secret_with_its_label_unless_the_policy_admits_every_secret() {
    let backend = json!({"external": {
        "endpoint": "https://otlp.test", "headersSecretRef": {"name": "theirs"},
    }});
    let spec = json!({"profiles": ["observability"], "observability": {"backend": backend}});
    let stack = stored_stack(spec);
    for (policy, usable, reason) in [
        (
            PodTemplatePolicy::Restricted,
            false,
            Some("SecretNotUsable"),
        ),
        (PodTemplatePolicy::Restricted, true, None),
        (PodTemplatePolicy::Unrestricted, false, None),
    ] {
        let headers = HeaderFacts {
            secret: "theirs".to_owned(),
            data: Ok(Some(data(&[("authorization", "Bearer")]))),
            usable,
        };
        let facts = Facts {
            headers: Some(headers),
            ..with_nothing(&stack)
        };
        let defaults = Defaults {
            pod_template_policy: policy,
            ..defaults()
        };
        let validated = validate(&stack, facts, &defaults).unwrap();
        let held = validated.held.get(&Component::Otel);
        assert_eq!(held.map(|failure| failure.reason), reason, "{policy:?}");
    }
}

#[test]
fn a_database_begins_only_with_a_claim_that_stacks_may_use() {
    let from = json!({"claimName": "payroll"});
    let stack = stored_stack(json!({"database": {"restoreFrom": from}}));
    let unread = StepFailure {
        reason: "ReadFailed",
        message: "no answer".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    for (policy, usable, reason) in [
        (
            PodTemplatePolicy::Restricted,
            Ok(false),
            Some("ClaimNotUsable"),
        ),
        (PodTemplatePolicy::Restricted, Ok(true), None),
        (PodTemplatePolicy::Unrestricted, Ok(false), None),
        (
            PodTemplatePolicy::Unrestricted,
            Err(unread),
            Some("ReadFailed"),
        ),
    ] {
        let facts = Facts {
            restore_claim_usable: usable,
            ..with_database(&stack, managed(credentials()))
        };
        let defaults = Defaults {
            pod_template_policy: policy,
            ..defaults()
        };
        let validated = validate(&stack, facts, &defaults).unwrap();
        let held = validated.held.get(&Component::Postgres);
        assert_eq!(held.map(|failure| failure.reason), reason, "{policy:?}");
        // The app waits for the database and keeps its own pods.
        assert!(validated.database.is_some());
        let children = build::build(&validated).children;
        assert_eq!(children.stateful_sets.is_empty(), reason.is_some());
    }
}

#[test]
fn the_pods_of_a_secret_that_cannot_be_read_are_held_and_nothing_else_is() {
    let stack = stored_stack(json!({}));
    let failure = StepFailure {
        reason: "ReadFailed",
        message: "no answer".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    let facts = Facts {
        contents: [(Component::Postgres, Err(failure.clone()))].into(),
        ..with_database(&stack, managed(credentials()))
    };
    assert!(facts.is_incomplete());
    let validated = validate(&stack, facts, &defaults()).unwrap();
    assert_eq!(validated.held, [(Component::Postgres, failure)].into());
    assert!(validated.database.is_some());
    let children = build::build(&validated).children;
    assert!(children.stateful_sets.is_empty());
    assert_eq!(children.deployments.len(), 2);
}
