//! Who owns a link, and what becomes of it.

use jiff::Timestamp;
use serde_json::{Value, json};
use shortener_app::store::management::{
    Management,
    ownership::{
        Applied,
        decision::{Refusal, Wish},
    },
};

use super::{URL, apply, apply_one, execute, later, release, wish, with, world};
use crate::{
    client::{get, post, shorten},
    management::{administer, import, manage},
    support::{App, access},
};

/// Returns what management shows of a link.
async fn shown(app: &App, code: &str) -> Value {
    let shown = manage(app, "GET", &format!("/{code}"), None).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    shown.json()
}

async fn status(app: &App, code: &str) -> u16 {
    get(app.public, &format!("/{code}")).await.status
}

/// Returns the actions of the audit log about a link, the earliest first, and checks who did them.
async fn actions(app: &App, code: &str, by: &str) -> Vec<String> {
    let path = format!("/api/admin/audit?subject={code}");
    let page = administer(app, "GET", &path, None).await.json();
    let entries = page["entries"].as_array().unwrap().iter().rev();
    let actions = entries.map(|entry| {
        assert_eq!(entry["by"], by, "{entry}");
        entry["action"].as_str().unwrap().to_owned()
    });
    actions.collect()
}

#[tokio::test]
async fn a_claimed_link_is_created_once_and_says_to_whom_it_belongs() {
    let (_database, app, _keys) = world().await;
    let later = later();
    let fields = json!({"title": "Spring sale", "tags": ["Shop", "a"], "expires_at": later});
    let sale = with(wish("sale", "1", "spring"), fields);
    let created = apply(&app, std::slice::from_ref(&sale)).await;
    let expected =
        json!({"code": "sale", "result": "created", "short_url": "http://sho.rt:8080/sale"});
    assert_eq!(created, [expected]);
    assert_eq!(status(&app, "sale").await, 302);
    let link = shown(&app, "sale").await;
    let owner = json!({"kind": "ShortLink", "namespace": "team", "name": "spring"});
    for (field, value) in [
        ("owner", owner.clone()),
        ("url", json!(URL)),
        ("host", json!("example.com")),
        ("created_by", json!("shortlink/team/spring")),
        ("title", json!("Spring sale")),
        ("tags", json!(["a", "shop"])),
        ("expires_at", json!(later)),
        ("state", json!("live")),
    ] {
        assert_eq!(link[field], value, "{field}");
    }
    assert_eq!(apply_one(&app, sale).await, "unchanged");
    assert_eq!(shown(&app, "sale").await, link);
    let listed = manage(&app, "GET", "?tag=shop", None).await.json();
    assert_eq!(listed["links"][0]["owner"], owner);
    shorten(app.public, json!({"url": URL, "code": "free"})).await;
    assert_eq!(shown(&app, "free").await["owner"], Value::Null);
    let by = "shortlink/team/spring";
    assert_eq!(actions(&app, "sale", by).await, ["link_claimed"]);
}

#[tokio::test]
async fn each_field_becomes_what_the_object_asks_for() {
    let (database, app, _keys) = world().await;
    let (later, mut sale) = (later(), wish("sale", "1", "spring"));
    assert_eq!(apply_one(&app, sale.clone()).await, "created");
    for (fields, shown_field, value) in [
        (json!({"title": "Sale"}), "title", json!("Sale")),
        (json!({"tags": ["b", "a"]}), "tags", json!(["a", "b"])),
        (json!({"expires_at": later}), "expires_at", json!(later)),
        (json!({"enabled": false}), "state", json!("disabled")),
        (json!({"enabled": true}), "state", json!("live")),
        (json!({"expires_at": null}), "expires_at", Value::Null),
        (json!({"tags": []}), "tags", json!([])),
        (json!({"title": null}), "title", Value::Null),
    ] {
        sale = with(sale, fields);
        assert_eq!(apply_one(&app, sale.clone()).await, "changed", "{sale}");
        assert_eq!(shown(&app, "sale").await[shown_field], value, "{sale}");
        assert_eq!(apply_one(&app, sale.clone()).await, "unchanged", "{sale}");
    }
    let by = "shortlink/team/spring";
    let [label, expiry] = ["link_labels_changed", "link_expiry_changed"];
    let [disabled, enabled] = ["link_disabled", "link_enabled"];
    assert_eq!(
        actions(&app, "sale", by).await,
        [
            "link_claimed",
            label,
            label,
            expiry,
            disabled,
            enabled,
            expiry,
            label,
            label
        ]
    );
    // A note belongs to those who manage links, and drift is undone.
    let drift = "INSERT INTO link_labels (code, title, note) VALUES ('sale', 'Other', 'kept'); \
        UPDATE links SET disabled_url = url, url = NULL, disabled_at = now(), disabled_as = 'gone', \
        disabled_by = 'shortlink/team/spring'";
    execute(&database, drift).await;
    assert_eq!(status(&app, "sale").await, 410);
    assert_eq!(apply_one(&app, sale).await, "changed");
    let link = shown(&app, "sale").await;
    assert_eq!(
        (&link["title"], &link["note"], &link["state"]),
        (&Value::Null, &json!("kept"), &json!("live"))
    );
    let off = with(wish("off", "2", "off"), json!({"enabled": false}));
    assert_eq!(apply_one(&app, off).await, "created");
    assert_eq!(status(&app, "off").await, 410);
}

#[tokio::test]
async fn of_two_objects_one_gets_the_code() {
    let (_database, app, _keys) = world().await;
    let both = [wish("sale", "1", "first"), wish("sale", "2", "second")];
    let results = apply(&app, &both).await;
    assert_eq!(results[0]["result"], "created");
    assert_eq!(results[1]["result"], "taken");
    let message = results[1]["message"].as_str().unwrap();
    assert!(message.contains("ShortLink team/first"), "{message}");
    // Nor does it take over what is the same.
    let same = with(both[1].clone(), json!({"adopt": "IfSame"}));
    assert_eq!(apply_one(&app, same).await, "taken");
    assert_eq!(release(&app, "sale", "2", "Delete").await, "unknown");
    assert_eq!(status(&app, "sale").await, 302);
    // At the same moment.
    let wishes = ["3", "4", "5", "6"].map(|uid| [wish("race", uid, uid)]);
    let applied = futures::future::join_all(wishes.iter().map(|wish| apply(&app, wish))).await;
    let results: Vec<&Value> = applied
        .iter()
        .map(|results| &results[0]["result"])
        .collect();
    let created = results.iter().filter(|result| **result == "created");
    assert_eq!(created.count(), 1, "{results:?}");
    let taken = results.iter().filter(|result| **result == "taken");
    assert_eq!(taken.count(), 3, "{results:?}");
}

#[tokio::test]
async fn a_link_that_exists_is_taken_over_only_if_it_is_the_same_and_the_object_says_so() {
    let (_database, app, _keys) = world().await;
    for (code, url) in [("same", URL), ("other", "https://example.com/other")] {
        shorten(app.public, json!({"url": url, "code": code})).await;
    }
    let template = json!({"url": "https://example.com/{1}", "code": "jira", "template": true});
    shorten(app.public, template).await;
    shorten(app.public, json!({"url": URL, "code": "legal"})).await;
    let legal = json!({"reason": "order 7", "legal": true});
    manage(&app, "POST", "/legal/disable", Some(legal)).await;
    let refused = apply(&app, &[wish("same", "1", "spring")]).await;
    assert_eq!(refused[0]["result"], "taken");
    let message = refused[0]["message"].as_str().unwrap();
    assert!(message.contains("IfSame"), "{message}");
    let adopting = |code| {
        with(
            wish(code, "1", "spring"),
            json!({"adopt": "IfSame", "title": "Sale"}),
        )
    };
    let jira = with(adopting("jira"), json!({"url": "https://example.com/{1}"}));
    for wish in [adopting("other"), adopting("legal"), jira] {
        let results = apply(&app, &[wish]).await;
        assert_eq!(results[0]["result"], "taken", "{results:?}");
        let message = results[0]["message"].as_str().unwrap();
        assert!(!message.contains("IfSame"), "{message}");
    }
    assert_eq!(shown(&app, "same").await["owner"], Value::Null);
    assert_eq!(apply_one(&app, adopting("same")).await, "changed");
    let link = shown(&app, "same").await;
    assert_eq!(
        (&link["owner"]["name"], &link["title"], &link["created_by"]),
        (&json!("spring"), &json!("Sale"), &Value::Null)
    );
    assert_eq!(
        actions(&app, "same", "shortlink/team/spring").await,
        ["link_claimed", "link_labels_changed"]
    );
}

#[tokio::test]
async fn an_object_that_was_made_again_gets_its_link_back() {
    let (_database, app, _keys) = world().await;
    assert_eq!(
        apply_one(&app, wish("sale", "1", "spring")).await,
        "created"
    );
    let elsewhere = json!({"url": "https://example.com/other"});
    let other = with(wish("sale", "2", "spring"), elsewhere);
    assert_eq!(apply_one(&app, other).await, "taken");
    let again = wish("sale", "2", "spring");
    assert_eq!(apply_one(&app, again.clone()).await, "changed");
    assert_eq!(apply_one(&app, again).await, "unchanged");
    assert_eq!(release(&app, "sale", "1", "Delete").await, "unknown");
    assert_eq!(release(&app, "sale", "2", "Delete").await, "released");
    assert_eq!(status(&app, "sale").await, 410);
}

#[tokio::test]
async fn what_has_expired_or_was_deleted_is_never_made_again() {
    let (database, app, _keys) = world().await;
    let past = json!({"expires_at": "2020-01-01T00:00:00Z"});
    let never = with(wish("never", "1", "never"), past.clone());
    assert_eq!(apply_one(&app, never).await, "expired");
    assert_eq!(status(&app, "never").await, 404);

    let mine = with(wish("mine", "2", "mine"), json!({"expires_at": later()}));
    assert_eq!(apply_one(&app, mine.clone()).await, "created");
    shorten(app.public, json!({"url": URL, "code": "theirs"})).await;
    execute(
        &database,
        "UPDATE links SET expires_at = now() - interval '1 second'",
    )
    .await;
    let theirs = with(wish("theirs", "3", "theirs"), json!({"adopt": "IfSame"}));
    for purged in [false, true] {
        if purged {
            execute(&database, "UPDATE links SET url = NULL").await;
        }
        for wish in [&mine, &theirs] {
            assert_eq!(apply_one(&app, wish.clone()).await, "expired", "{purged}");
        }
        let stranger = wish("mine", "9", "stranger");
        assert_eq!(apply_one(&app, stranger).await, "taken", "{purged}");
        assert_eq!(shown(&app, "mine").await["owner"]["name"], "mine");
        assert_eq!(shown(&app, "theirs").await["owner"], Value::Null);
    }

    // The end of a link may be moved into the past, once.
    let ended = wish("ended", "4", "ended");
    assert_eq!(apply_one(&app, ended.clone()).await, "created");
    for _ in 0..2 {
        let ended = with(ended.clone(), past.clone());
        assert_eq!(apply_one(&app, ended).await, "expired");
    }
    assert_eq!(apply_one(&app, ended).await, "expired");
    assert_eq!(status(&app, "ended").await, 410);

    shorten(app.public, json!({"url": URL, "code": "gone"})).await;
    manage(&app, "DELETE", "/gone", None).await;
    let gone = with(wish("gone", "5", "gone"), json!({"adopt": "IfSame"}));
    assert_eq!(apply_one(&app, gone).await, "deleted");
}

#[tokio::test]
async fn a_link_that_is_released_is_disabled_deleted_or_left() {
    let (database, app, _keys) = world().await;
    for (policy, state, status_after, last) in [
        ("Disable", "disabled", 410, Some("link_disabled")),
        ("Delete", "deleted", 410, Some("link_deleted")),
        ("Retain", "live", 302, None),
    ] {
        let code = policy.to_lowercase();
        assert_eq!(apply_one(&app, wish(&code, "1", &code)).await, "created");
        assert_eq!(release(&app, &code, "2", policy).await, "unknown");
        assert_eq!(status(&app, &code).await, 302);
        assert_eq!(release(&app, &code, "1", policy).await, "released");
        assert_eq!(release(&app, &code, "1", policy).await, "unknown");
        assert_eq!(status(&app, &code).await, status_after);
        let link = shown(&app, &code).await;
        assert_eq!(
            (&link["owner"], &link["state"]),
            (&Value::Null, &json!(state))
        );
        let by = format!("shortlink/team/{code}");
        let expected = ["link_claimed", "link_released"].into_iter().chain(last);
        assert_eq!(
            actions(&app, &code, &by).await,
            expected.collect::<Vec<_>>()
        );
    }
    // The API manages it again.
    let enabled = manage(&app, "POST", "/disable/enable", None).await;
    assert_eq!(enabled.status, 200, "{enabled:?}");
    assert_eq!(
        apply_one(&app, wish("delete", "3", "delete")).await,
        "deleted"
    );
    assert_eq!(release(&app, "none", "1", "Delete").await, "unknown");

    assert_eq!(apply_one(&app, wish("late", "4", "late")).await, "created");
    execute(
        &database,
        "UPDATE links SET expires_at = now(), url = NULL WHERE code = 'late'",
    )
    .await;
    assert_eq!(release(&app, "late", "4", "Disable").await, "released");
    assert_eq!(shown(&app, "late").await["state"], "expired");
}

#[tokio::test]
async fn the_api_refuses_to_change_a_link_of_an_object_and_names_it() {
    let (database, app, _keys) = world().await;
    assert_eq!(
        apply_one(&app, wish("sale", "1", "spring")).await,
        "created"
    );
    let before = shown(&app, "sale").await;
    for (method, path, body) in [
        ("PATCH", "/sale", Some(json!({"title": "Other"}))),
        ("DELETE", "/sale", None),
    ] {
        let refused = manage(&app, method, path, body).await;
        let detail = refused.problem(409, "managed-link")["detail"].to_string();
        assert!(detail.contains("ShortLink team/spring"), "{detail}");
    }
    assert_eq!(shown(&app, "sale").await, before);
    let taken = json!({"url": URL, "code": "sale"}).to_string();
    let taken = post(app.public, "/shorten", taken).await;
    taken.problem(409, "code-taken");
    let line = r#"{"code": "sale", "url": "https://example.com/other"}"#;
    let imported = import(&app, "", line).await.json();
    assert_eq!(imported["results"][0]["result"], "conflict", "{imported}");
    let found = manage(&app, "GET", "?created_by=shortlink/team/spring", None).await;
    assert_eq!(found.json()["links"][0]["code"], "sale");
    // A version of the app that knows no owners may delete it during an upgrade.
    let deleted = "UPDATE links SET url = NULL, disabled_at = now(), disabled_as = 'deleted'";
    execute(&database, deleted).await;
    assert_eq!(shown(&app, "sale").await["owner"], Value::Null);
    assert_eq!(
        apply_one(&app, wish("sale", "1", "spring")).await,
        "deleted"
    );
}

#[tokio::test]
async fn management_takes_the_link_of_an_object_down_and_the_object_cannot_undo_it() {
    let (_database, app, _keys) = world().await;
    let on = |title: &str| with(wish("sale", "1", "spring"), json!({"title": title}));
    let off = || with(on("a"), json!({"enabled": false}));
    let disable = async || {
        let spam = Some(json!({"reason": "spam"}));
        let disabled = manage(&app, "POST", "/sale/disable", spam).await;
        assert_eq!(disabled.status, 200, "{disabled:?}");
    };
    let enable = async || manage(&app, "POST", "/sale/enable", None).await;
    assert_eq!(apply_one(&app, on("a")).await, "created");
    // Whether the object has switched it off before, or not.
    for before in [on("a"), off()] {
        apply_one(&app, before).await;
        disable().await;
        let results = apply(&app, &[on("b")]).await;
        assert_eq!(results[0]["result"], "taken-down", "{results:?}");
        assert_eq!(results[0]["short_url"], "http://sho.rt:8080/sale");
        assert_eq!(shown(&app, "sale").await["title"], "b");
        assert_eq!(apply_one(&app, on("b")).await, "taken-down");
        assert_eq!(apply_one(&app, off()).await, "changed");
        assert_eq!(apply_one(&app, off()).await, "unchanged");
        assert_eq!(status(&app, "sale").await, 410);
        assert_eq!(enable().await.status, 200);
        assert_eq!(apply_one(&app, on("a")).await, "unchanged");
        assert_eq!(status(&app, "sale").await, 302);
    }
    // What the object has done, management does not undo.
    assert_eq!(apply_one(&app, off()).await, "changed");
    enable().await.problem(409, "managed-link");
    disable().await;
    assert_eq!(release(&app, "sale", "1", "Delete").await, "released");
    assert_eq!(shown(&app, "sale").await["state"], "disabled");
    assert_eq!(apply_one(&app, on("a")).await, "taken");
    assert_eq!(enable().await.status, 200);
    assert_eq!(status(&app, "sale").await, 302);
}

#[tokio::test]
async fn an_object_that_is_deleted_and_made_again_gets_what_its_policy_left() {
    let (_database, app, _keys) = world().await;
    for (policy, again) in [
        ("Disable", "changed"),
        ("Retain", "changed"),
        ("Delete", "deleted"),
    ] {
        let code = policy.to_lowercase();
        apply_one(&app, wish(&code, "1", "spring")).await;
        assert_eq!(release(&app, &code, "1", policy).await, "released");
        let stranger = wish(&code, "2", "stranger");
        let refused = apply_one(&app, stranger).await;
        assert_eq!(
            refused,
            if again == "deleted" {
                "deleted"
            } else {
                "taken"
            }
        );
        assert_eq!(apply_one(&app, wish(&code, "3", "spring")).await, again);
        let found = status(&app, &code).await;
        assert_eq!(found, if again == "deleted" { 410 } else { 302 });
    }
}

#[tokio::test]
async fn a_request_that_is_late_takes_no_link_that_was_released_meanwhile() {
    let (database, app, _keys) = world().await;
    let on = wish("sale", "1", "spring");
    assert_eq!(apply_one(&app, on).await, "created");
    let management = Management::new(access(&database).await);
    let known = management.find_each(&["sale"]).await.unwrap();
    assert_eq!(release(&app, "sale", "1", "Disable").await, "released");
    let late = Wish {
        code: "sale".to_owned(),
        url: URL.to_owned(),
        enabled: true,
        owner: known["sale"].owner.clone().unwrap(),
        ..Wish::default()
    };
    let settled = management.settle(&late, known.get("sale"), Timestamp::now());
    let (applied, written) = settled.await.unwrap();
    assert!(
        matches!(applied, Applied::Refused(Refusal::Taken(_))),
        "{applied:?}"
    );
    assert_eq!(written, None);
    assert_eq!(status(&app, "sale").await, 410);
    assert_eq!(release(&app, "sale", "1", "Disable").await, "unknown");
}
