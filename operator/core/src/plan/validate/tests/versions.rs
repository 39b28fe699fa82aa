//! Tests of the versions of the database, of its volume and of its image.

use super::*;
use crate::model::{facts::RunningServer, stack::ManagedStore};

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
