use tokio::time::advance;

use super::*;

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

#[test]
fn a_code_without_a_destination_is_denied_expired_down_or_a_miss() {
    let expired = Entry::of(Some(Stored::Expired), Duration::from_secs(3600)).unwrap();
    assert_eq!((expired.key, expired.lifetime), (NONE, EXPIRED_TTL.into()));
    let notice = Some("a notice".to_owned());
    for (value, known) in [
        (Value::Nil, None),
        (text("1"), Some(Resolved::Nothing)),
        (text(&expired.value), Some(Resolved::Gone)),
        (text("410"), Some(Resolved::Down(Takedown::Disabled))),
        (
            text("451\na notice"),
            Some(Resolved::Down(Takedown::Legal { notice })),
        ),
    ] {
        let found = without_destination(Value::Nil, &value);
        assert_eq!(found.unwrap(), known, "{value:?}");
    }
}

#[test]
fn a_template_takes_precedence_over_a_negative_entry_and_anything_else_under_its_key_is_a_miss() {
    let template = "https://example.com/{1}";
    for (value, known) in [
        (template, Some(Resolved::Template(template.to_owned()))),
        ("https://example.com/", None),
        ("https://{1}.example/", None),
        ("javascript:{1}", None),
        ("https://example.com/\r\n{1}", None),
    ] {
        for entry in [Value::Nil, text("1")] {
            let found = without_destination(text(value), &entry);
            assert_eq!(found.unwrap(), known, "{value}");
        }
    }
}

#[test]
fn what_could_not_have_been_shortened_is_a_miss() {
    let garbage = [
        "",
        "garbage",
        "javascript:alert(1)",
        "https://example.com/\r\nSet-Cookie: a=b",
        "https://a:b@example.com/",
        "https://b\u{fc}cher.example/",
        "https://exa<mple.com/",
    ];
    for bad in garbage
        .map(text)
        .into_iter()
        .chain([Value::BulkString(vec![0xff])])
    {
        assert_eq!(destination(bad.clone()).unwrap(), None, "{bad:?}");
    }
}

#[test]
fn a_long_uri_is_a_destination() {
    // A destination may be 2,048 bytes long as given, and is longer as a URI.
    for host in ["example.com", "192.0.2.7"] {
        let long = format!("https://{host}/{}", "%C3%BC".repeat(1000));
        let known = Some(Resolved::To(long.clone().into()));
        assert_eq!(destination(text(&long)).unwrap(), known);
    }
}

#[test]
fn what_no_cache_would_answer_is_an_error() {
    for value in [Value::Int(1), Value::Okay, Value::Array(vec![])] {
        assert!(destination(value.clone()).is_err(), "{value:?}");
        assert!(
            without_destination(Value::Nil, &value).is_err(),
            "{value:?}"
        );
        assert!(
            without_destination(value.clone(), &Value::Nil).is_err(),
            "{value:?}"
        );
    }
}

#[test]
fn a_mark_says_what_the_takedown_was() {
    for takedown in [
        Takedown::Disabled,
        Takedown::Legal { notice: None },
        Takedown::Legal {
            notice: Some("by order of a court\nin Bücher".to_owned()),
        },
    ] {
        let mark = mark_of(&takedown);
        assert_eq!(takedown_in(mark.as_bytes()), Some(takedown));
    }
}

#[test]
fn a_negative_entry_is_no_mark_and_garbage_is_no_notice() {
    for other in [&b""[..], b"1", b"41", b"404", b"x410"] {
        assert_eq!(takedown_in(other), None, "{other:?}");
    }
    let long = format!("451\n{}", "x".repeat(MAX_NOTICE + 1));
    for unreadable in [&b"451"[..], b"451x", b"451\n\xff", long.as_bytes()] {
        let takedown = takedown_in(unreadable);
        assert_eq!(takedown, Some(Takedown::Legal { notice: None }));
    }
}

#[test]
fn the_script_and_this_file_agree_on_what_a_mark_is() {
    let script = include_str!("../write.lua");
    for kind in [DISABLED, LEGAL] {
        assert!(script.contains(&format!("kind == '{kind}'")), "{kind}");
    }
}

fn link(number: usize) -> Acknowledged {
    Acknowledged::created(Link {
        code: number.to_string(),
        url: "https://example.com/".to_owned(),
        template: false,
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
    })
}

fn list() -> PendingWrites {
    PendingWrites::new(Duration::from_secs(3600))
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_deny_any_more_is_forgotten() {
    let pending = list();
    pending.push(link(1));
    advance(CACHE_RETENTION).await;
    pending.push(link(2));
    assert_eq!(pending.oldest(), Some(link(1)));
    advance(Duration::from_millis(1)).await;
    assert_eq!(pending.oldest(), Some(link(2)));
    assert!(!pending.holds("1"));
}

#[test]
fn their_memory_is_bounded_and_the_latest_are_kept() {
    const NUMBER: usize = 2000;
    let pending = list();
    for number in 0..NUMBER {
        let mut missed = link(number);
        missed.link.url = "x".repeat(2000);
        pending.push(missed);
    }
    let kept = (0..NUMBER).filter(|number| pending.holds(&number.to_string()));
    let kept: Vec<usize> = kept.collect();
    assert!((900..1050).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.first(), Some(&(NUMBER - kept.len())));
}

#[test]
fn a_link_on_the_list_is_found_by_its_code() {
    let pending = list();
    assert!(!pending.holds("1"));
    pending.push(link(1));
    assert!(pending.holds("1") && !pending.holds("2"));
    pending.forget("2");
    assert!(pending.holds("1"));
    pending.forget("1");
    assert!(!pending.holds("1"));
}
