//! Tests of the Secrets of an external database.

use super::*;
use crate::{
    api::{CaRef, ClientTls, DatabaseTlsMode, SecretKeyRef},
    model::{
        access::Access,
        external,
        facts::{ExternalAccess, TlsEntry},
    },
};

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
