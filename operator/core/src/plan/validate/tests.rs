//! Tests of errors after admission, and of resolved defaults.

mod external;
mod gateway;
mod held;
mod passwords;
mod versions;

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, apimachinery::pkg::api::resource::Quantity};
use serde_json::{Value, json};

use super::*;
use crate::{
    model::{
        checksum::find_of_user,
        credentials::{JOB_IDS_KEY, MANAGEMENT_KEY},
        facts::{
            BrokerFact, ClaimFact, ClusterFact, CredentialState, GatewayFacts, HeaderFacts,
            MissingKeys, PodContents, QueueFacts, StoreFacts,
        },
        failure::StepFailure,
        metadata::{CONFIG_CHECKSUM, StackIdentity},
        stack::StoreVolume,
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
        pooler_in_use: false,
        database_move: MoveFacts::default(),
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
fn images_come_from_the_spec_or_the_operators_release() {
    let defaults = defaults();
    assert_eq!(validated(json!({})).app.pod.image, defaults.images.app);
    assert_eq!(
        validated(json!({"app": {"image": "mine:2"}})).app.pod.image,
        "mine:2"
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
fn what_backups_pass_through_is_as_large_as_a_claim_that_exceeds_the_spec() {
    let s3 = json!({"endpoint": "http://s3", "bucket": "backups", "secretRef": {"name": "s3"}});
    let backup = json!({"schedule": "@daily", "s3": s3, "verify": {"schedule": "@weekly"}});
    let stack = stored_stack(json!({"database": {"backup": backup}}));
    let sizes = |claim| {
        let database = StoreFacts::Managed {
            credentials: credentials(),
            running: None,
            claim,
        };
        let facts = with_database(&stack, database);
        let backup = validate(&stack, facts, &defaults())
            .unwrap()
            .backup
            .unwrap();
        let passed = backup.place.volume().size.0.clone();
        (passed, backup.verification.unwrap().scratch.0)
    };
    let both = |size: &str| (size.to_owned(), size.to_owned());
    assert_eq!(sizes(None), both("1Gi"));
    let quantity = Some(Quantity("20Gi".to_owned()));
    let claim = ClaimFact {
        request: quantity.clone(),
        capacity: quantity,
        ..ClaimFact::default()
    };
    assert_eq!(sizes(Some(claim)), both("20Gi"));
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
