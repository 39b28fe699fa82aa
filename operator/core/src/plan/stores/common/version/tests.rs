use std::collections::BTreeMap;

use super::*;
use crate::{
    model::facts::{ClaimFact, CredentialState},
    plan::stores::{postgres, qdrant, rabbitmq},
};

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

/// Returns the facts about a store with a volume: the version on its claim, and its server, which may be ready.
fn facts(recorded: Option<&str>, running: Option<(&str, bool)>) -> StoreFacts {
    StoreFacts::Managed {
        credentials: CredentialState::Existing(BTreeMap::new()),
        running: running.map(|(image, is_ready)| RunningServer {
            image: image.to_owned(),
            is_ready,
        }),
        claim: Some(ClaimFact {
            version: recorded.map(version),
            ..ClaimFact::default()
        }),
    }
}

/// Returns the image that a RabbitMQ gets, its version on the claim and the reason to keep it, or the refusal.
fn choose(
    facts: &StoreFacts,
    named: Option<&str>,
    default: &str,
) -> Result<(String, Option<String>, Option<String>), String> {
    let offered = Offered { named, default };
    let chosen = rabbitmq::RULE.choose(facts, &offered, "demo-rabbitmq", |_| Some(default));
    let chosen = chosen.map_err(|error| error.to_string())?;
    let version = chosen.version.map(|version| version.to_string());
    Ok((chosen.image.to_owned(), version, chosen.kept))
}

#[test]
fn each_store_has_its_steps() {
    for (rule, from, to, expected) in [
        (&postgres::RULE, "18", "18", true),
        (&postgres::RULE, "17", "18", false),
        (&postgres::RULE, "18", "17", false),
        (&rabbitmq::RULE, "4.2", "4.2", true),
        (&rabbitmq::RULE, "4.2", "4.3", true),
        (&rabbitmq::RULE, "4.1", "4.3", false),
        (&rabbitmq::RULE, "4.3", "4.2", false),
        (&rabbitmq::RULE, "4.3", "5.0", true),
        (&rabbitmq::RULE, "4.3", "5.1", false),
        (&rabbitmq::RULE, "5.0", "4.9", false),
        // Every number that a tag can have.
        (&rabbitmq::RULE, "4.4294967295", "4.3", false),
        (&rabbitmq::RULE, "4.4294967295", "5.1", false),
        (&rabbitmq::RULE, "4294967295.4294967295", "4.3", false),
        (&qdrant::RULE, "1.18", "1.19", true),
        (&qdrant::RULE, "1.17", "1.19", false),
        (&qdrant::RULE, "1.19", "1.18", false),
    ] {
        let step = rule.step(version(from), version(to));
        assert_eq!(step.is_ok(), expected, "{} {from} {to}", rule.noun);
    }
}

#[test]
fn a_named_image_that_skips_or_goes_back_is_refused_with_the_next_step() {
    let stored = facts(Some("4.1"), Some(("rabbitmq:4.1-management", true)));
    let named = |image| choose(&stored, Some(image), "rabbitmq:4.3-management");
    let next = "rabbitmq:4.2-management";
    let expected = (next.to_owned(), Some("4.1".to_owned()), None);
    assert_eq!(named(next), Ok(expected));
    assert_eq!(
        named("rabbitmq:4.3-management").unwrap_err(),
        "queue.managed.image: rabbitmq:4.3-management does not fit volume claim demo-rabbitmq, which has data of RabbitMQ \
         4.1: set an image of RabbitMQ 4.2 first, and wait until it is ready"
    );
    let back = named("rabbitmq:4.0-management").unwrap_err();
    assert!(back.contains("does not go back"), "{back}");
    // A digest contains no version.
    assert!(named("rabbitmq@sha256:abc").is_ok());
}

#[test]
fn two_quick_edits_skip_no_version() {
    let third = "rabbitmq:4.3-management";
    let steps = |is_ready| {
        let stored = facts(Some("4.1"), Some(("rabbitmq:4.2-management", is_ready)));
        choose(&stored, Some(third), third)
    };
    assert!(steps(false).is_err());
    let expected = (third.to_owned(), Some("4.2".to_owned()), None);
    assert_eq!(steps(true), Ok(expected));
}

#[test]
fn a_default_image_that_skips_or_goes_back_leaves_the_running_one() {
    for (running, default, keeps) in [
        ("rabbitmq:4.1", "rabbitmq:4.2", false),
        ("rabbitmq:4.1", "rabbitmq:4.3", true),
        ("rabbitmq:4.3", "rabbitmq:4.2", true),
    ] {
        let recorded = running.strip_prefix("rabbitmq:");
        let stored = facts(recorded, Some((running, true)));
        let (image, version, kept) = choose(&stored, None, default).unwrap();
        assert_eq!(image == running, keeps, "{running} {default}");
        assert_eq!(kept.is_some(), keeps, "{kept:?}");
        assert_eq!(version.as_deref(), recorded);
        // Without a server there is no image to keep.
        let alone = choose(&facts(recorded, None), None, default);
        assert_eq!(alone.is_err(), keeps, "{alone:?}");
    }
}

#[test]
fn data_without_a_record_has_the_version_of_a_ready_server_and_no_other() {
    let default = "rabbitmq:4.3";
    let chosen = |running| choose(&facts(None, running), None, default).unwrap();
    assert_eq!(chosen(None), (default.to_owned(), None, None));
    let (image, version, kept) = chosen(Some(("rabbitmq:4.1", true)));
    assert_eq!(image, "rabbitmq:4.1");
    assert_eq!(version.as_deref(), Some("4.1"));
    assert!(kept.unwrap().contains("set an image of RabbitMQ 4.2 first"));
    for untold in [("rabbitmq:4.1", false), ("rabbitmq@sha256:abc", true)] {
        let (image, version, kept) = chosen(Some(untold));
        assert_eq!((image.as_str(), version), (untold.0, None));
        assert!(kept.unwrap().contains("set queue.managed.image"));
    }
    let new = StoreFacts::Managed {
        credentials: CredentialState::Generated(BTreeMap::new()),
        running: None,
        claim: None,
    };
    let expected = (default.to_owned(), Some("4.3".to_owned()), None);
    assert_eq!(choose(&new, None, default), Ok(expected));
}
