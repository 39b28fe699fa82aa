use super::*;
use crate::store::{
    labels::Labels,
    management::{
        How,
        change::{ChangeVerdict, verdict},
    },
};

const NOW: &str = "2030-01-01T00:00:00Z";
const URL: &str = "https://example.com/";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn owner(uid: &str, name: &str) -> Owner {
    Owner {
        uid: uid.to_owned(),
        namespace: "team".to_owned(),
        name: name.to_owned(),
    }
}

/// A link as it is after its creation for the ShortLink `team/sale`.
fn link() -> LinkRecord {
    LinkRecord {
        code: "sale".to_owned(),
        url: Some(URL.to_owned()),
        template: false,
        host: None,
        created_by: None,
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
        is_expired: false,
        takedown: None,
        labels: Labels::default(),
        owner: Some(owner("1", "sale")),
    }
}

fn changed(change: impl FnOnce(&mut LinkRecord)) -> Option<LinkRecord> {
    let mut link = link();
    change(&mut link);
    Some(link)
}

/// Returns a takedown by management.
fn down(how: How) -> Option<LinkTakedown> {
    Some(LinkTakedown {
        at: Timestamp::UNIX_EPOCH,
        by: Some("ann".to_owned()),
        how,
        reason: None,
        notice: None,
    })
}

/// Takes a link down for the ShortLink `team/sale`.
fn switch_off(link: &mut LinkRecord) {
    link.takedown = down(How::Gone).map(|down| LinkTakedown {
        by: Some("shortlink/team/sale".to_owned()),
        ..down
    });
}

fn switch_off_by_another(link: &mut LinkRecord) {
    link.takedown = down(How::Gone).map(|down| LinkTakedown {
        by: Some("shortlink/team/other".to_owned()),
        ..down
    });
}

fn expire(link: &mut LinkRecord) {
    (link.expires_at, link.is_expired) = (Some(Timestamp::UNIX_EPOCH), true);
}

/// The wish of the ShortLink `team/sale`.
fn wish() -> Wish {
    Wish {
        code: "sale".to_owned(),
        url: URL.to_owned(),
        enabled: true,
        owner: owner("1", "sale"),
        ..Wish::default()
    }
}

fn wish_to(change: impl FnOnce(&mut Wish)) -> Wish {
    let mut wish = wish();
    change(&mut wish);
    wish
}

fn adopting() -> Wish {
    wish_to(|wish| wish.adopts = true)
}

/// Returns the decision in a few words.
fn decided(link: &Option<LinkRecord>, wish: &Wish) -> String {
    match decide(link.as_ref(), wish, time(NOW)) {
        Decision::Create => "create".to_owned(),
        Decision::Keep => "keep".to_owned(),
        Decision::Change {
            is_claimed,
            changes,
        } => {
            let claim = is_claimed.then_some("claim");
            let changes = changes.iter().map(|change| match change {
                Change::Disable { .. } => "disable",
                Change::Enable => "enable",
                Change::Edit(_) => "edit",
                Change::Delete => "delete",
            });
            let words = claim.into_iter().chain(changes);
            words.collect::<Vec<_>>().join(" ")
        }
        Decision::Refuse(Refusal::Taken(reason)) => format!("taken: {reason}"),
        Decision::Refuse(Refusal::Expired) => "expired".to_owned(),
        Decision::Refuse(Refusal::Deleted) => "deleted".to_owned(),
        Decision::Refuse(Refusal::Invalid(rule)) => format!("invalid: {rule}"),
    }
}

#[track_caller]
fn check(link: &Option<LinkRecord>, wish: &Wish, expected: &str) {
    let decided = decided(link, wish);
    assert!(
        decided == expected || decided.starts_with(&format!("{expected}: ")),
        "{decided}, not {expected}: {link:?} {wish:?}"
    );
}

#[test]
fn a_free_code_gets_a_link_unless_its_time_is_over_or_its_destination_is_refused() {
    let broken = |wish: &mut Wish| wish.broken_rule = Some("must lead elsewhere".to_owned());
    for (wish, expected) in [
        (wish(), "create"),
        (adopting(), "create"),
        (wish_to(|wish| wish.enabled = false), "create"),
        (wish_to(|wish| wish.expires_at = Some(time(NOW))), "expired"),
        (wish_to(broken), "invalid: url must lead elsewhere"),
    ] {
        check(&None, &wish, expected);
    }
}

#[test]
fn a_link_of_the_object_becomes_what_it_asks_for() {
    let labels = |link: &mut LinkRecord| {
        link.labels.title = Some("Sale".to_owned());
        link.labels.tags = vec!["shop".to_owned()];
        link.labels.note = Some("kept".to_owned());
    };
    let labeled = |wish: &mut Wish| {
        wish.title = Some("Sale".to_owned());
        wish.tags = vec!["shop".to_owned()];
    };
    let later = |wish: &mut Wish| wish.expires_at = Some(time("2031-01-01T00:00:00Z"));
    let off = |wish: &mut Wish| wish.enabled = false;
    let both = |wish: &mut Wish| {
        off(wish);
        later(wish);
    };
    let broken = |wish: &mut Wish| wish.broken_rule = Some("must lead elsewhere".to_owned());
    let disabled = || changed(switch_off);
    let taken_down = || changed(|link| link.takedown = down(How::Gone));
    for (link, wish, expected) in [
        (Some(link()), wish(), "keep"),
        (Some(link()), wish_to(broken), "keep"),
        (changed(labels), wish_to(labeled), "keep"),
        (changed(labels), wish(), "edit"),
        (Some(link()), wish_to(labeled), "edit"),
        (Some(link()), wish_to(later), "edit"),
        (Some(link()), wish_to(off), "disable"),
        (Some(link()), wish_to(both), "disable edit"),
        (disabled(), wish(), "enable"),
        (disabled(), wish_to(off), "keep"),
        (disabled(), wish_to(both), "edit"),
        // What management has disabled stays so.
        (taken_down(), wish(), "keep"),
        (taken_down(), wish_to(labeled), "edit"),
        (taken_down(), wish_to(off), "keep"),
        (
            Some(link()),
            wish_to(|wish| wish.url.push('x')),
            "invalid: url never changes",
        ),
    ] {
        check(&link, &wish, expected);
    }
}

#[test]
fn an_object_that_was_made_again_gets_its_link_back() {
    let again = || wish_to(|wish| wish.owner.uid = "2".to_owned());
    let off = wish_to(|wish| {
        wish.owner.uid = "2".to_owned();
        wish.enabled = false;
    });
    let elsewhere = wish_to(|wish| {
        wish.owner.uid = "2".to_owned();
        wish.url.push('x');
    });
    check(&Some(link()), &again(), "claim");
    check(&Some(link()), &off, "claim disable");
    check(
        &Some(link()),
        &elsewhere,
        "taken: the code sale belongs to an earlier ShortLink team/sale with another destination: choose another code",
    );
    check(&changed(expire), &again(), "expired");
    let purged = |link: &mut LinkRecord| {
        expire(link);
        link.url = None;
    };
    check(&changed(purged), &again(), "expired");
}

#[test]
fn a_code_of_another_object_is_taken_whatever_became_of_the_link() {
    let other = |change: fn(&mut LinkRecord)| {
        changed(|link| {
            link.owner = Some(owner("9", "other"));
            change(link);
        })
    };
    for link in [
        other(|_| {}),
        other(expire),
        other(|link| link.takedown = down(How::Gone)),
        other(|link| link.template = true),
    ] {
        for wish in [wish(), adopting()] {
            check(
                &link,
                &wish,
                "taken: the code sale belongs to ShortLink team/other: choose another code, or delete that ShortLink",
            );
        }
    }
    let elsewhere = changed(|link| {
        link.owner = Some(Owner {
            namespace: "secret".to_owned(),
            ..owner("9", "other")
        });
    });
    check(
        &elsewhere,
        &wish(),
        "taken: the code sale belongs to a ShortLink of another namespace: choose another code",
    );
}

#[test]
fn a_link_without_an_owner_is_taken_over_only_if_it_is_the_same_and_not_over() {
    let free = |change: fn(&mut LinkRecord)| {
        changed(|link| {
            link.owner = None;
            change(link);
        })
    };
    let late = wish_to(|wish| {
        wish.adopts = true;
        wish.expires_at = Some(time(NOW));
    });
    let off = wish_to(|wish| {
        wish.adopts = true;
        wish.enabled = false;
    });
    for (link, wish, expected) in [
        (
            free(|_| {}),
            wish(),
            "taken: the code sale exists and belongs to no ShortLink: set `adopt: IfSame`, because the destination is the same",
        ),
        (free(|_| {}), adopting(), "claim"),
        (free(|_| {}), off, "claim disable"),
        (free(|_| {}), late, "expired"),
        (
            free(|link| link.url = Some("https://example.com/x".to_owned())),
            adopting(),
            "taken",
        ),
        (free(|link| link.template = true), adopting(), "taken"),
        (
            free(|link| link.takedown = down(How::Gone)),
            adopting(),
            "taken: the code sale was disabled by management, and belongs to no ShortLink: enable it there first",
        ),
        // Another ShortLink has disabled it, when it was deleted.
        (free(switch_off_by_another), adopting(), "claim enable"),
        (
            free(switch_off_by_another),
            wish(),
            "taken: the code sale exists and belongs to no ShortLink: set `adopt: IfSame`, because the destination is the same",
        ),
        // It was its own before it was deleted with a policy that leaves the link.
        (free(switch_off), wish(), "claim enable"),
        (
            free(|link| link.created_by = Some("shortlink/team/sale".to_owned())),
            wish(),
            "claim",
        ),
        (
            free(|link| {
                link.created_by = Some("shortlink/team/sale".to_owned());
                link.takedown = down(How::Gone);
            }),
            wish(),
            "taken",
        ),
        (free(expire), adopting(), "expired"),
    ] {
        check(&link, &wish, expected);
    }
}

#[test]
fn what_was_deleted_or_has_expired_is_never_made_again() {
    let deleted = |link: &mut LinkRecord| {
        (link.url, link.owner) = (None, None);
        link.takedown = down(How::Deleted);
    };
    let disabled = |link: &mut LinkRecord| {
        expire(link);
        link.takedown = down(How::Gone);
    };
    let later = || wish_to(|wish| wish.expires_at = Some(time("2031-01-01T00:00:00Z")));
    for wish in [wish(), adopting(), later()] {
        check(&changed(deleted), &wish, "deleted");
        check(&changed(expire), &wish, "expired");
        check(&changed(disabled), &wish, "expired");
    }
    let both = changed(|link| {
        deleted(link);
        expire(link);
    });
    check(&both, &wish(), "deleted");
}

#[test]
fn every_change_that_is_decided_is_one_that_the_state_of_the_link_allows() {
    let states = [
        Some(link()),
        changed(switch_off),
        changed(|link| link.takedown = down(How::Legal)),
        changed(|link| link.owner = None),
        changed(|link| link.expires_at = Some(time("2031-01-01T00:00:00Z"))),
    ];
    let wishes = [
        adopting(),
        wish_to(|wish| wish.enabled = false),
        wish_to(|wish| wish.title = Some("Sale".to_owned())),
        wish_to(|wish| wish.expires_at = Some(time(NOW))),
    ];
    for link in states.iter().flatten() {
        for wish in &wishes {
            if let Decision::Change { changes, .. } = decide(Some(link), wish, time(NOW)) {
                for change in changes {
                    assert_eq!(verdict(&change, link), ChangeVerdict::Allowed);
                }
            }
        }
    }
}

#[test]
fn a_link_that_management_has_disabled_is_told_of_while_it_shall_be_enabled() {
    let taken_down = |link: &mut LinkRecord| link.takedown = down(How::Legal);
    let told = |link: Option<LinkRecord>, wish| is_taken_down(&link.unwrap(), &wish);
    assert!(told(changed(taken_down), wish()));
    assert!(!told(
        changed(taken_down),
        wish_to(|wish| wish.enabled = false)
    ));
    assert!(!told(changed(switch_off), wish()));
    assert!(!told(changed(|_| {}), wish()));
    // Its expiry would remove the destination, which management may enable.
    let later = wish_to(|wish| wish.expires_at = Some(time("2031-01-01T00:00:00Z")));
    check(&changed(taken_down), &later, "keep");
}
