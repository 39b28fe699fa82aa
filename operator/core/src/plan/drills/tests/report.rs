//! Tables of the counts, of the report and of the verdict.

use super::*;
use crate::api::{DrillPromise, DrillVerdict, JobReport, ShortenerDrillStatus};

/// Returns the status of a drill that is complete at this second, with its store back.
fn completed(drill: &ShortenerDrill, tally: &Tally, second: i64) -> ShortenerDrillStatus {
    let now = at(second);
    complete(drill, true, Report { tally, now })
}

/// Returns the verdict on a drill of a store during which these kinds of requests got 503.
fn judged(store: &str, cached: bool, refused: &[DrillRequest]) -> ShortenerDrillStatus {
    let drill = of_store(store);
    let mut tally = tally(&drill, cached);
    for second in 0..60 {
        serve(&mut tally, second, refused);
    }
    (60..80).for_each(|second| serve(&mut tally, second, &[]));
    completed(&drill, &tally, 80)
}

#[test]
fn a_promise_is_held_or_broken() {
    use DrillRequest::{CachedRedirect, Create, Job, UncachedCode};
    for (store, cached, refused, expected) in [
        ("Cache", true, &[][..], DrillVerdict::Held),
        ("Cache", true, &[CachedRedirect], DrillVerdict::Broken),
        ("Queue", true, &[Job], DrillVerdict::Held),
        ("Queue", true, &[Job, Create], DrillVerdict::Broken),
        (
            "Database",
            true,
            &[UncachedCode, Create],
            DrillVerdict::Held,
        ),
        (
            "Database",
            true,
            &[CachedRedirect, UncachedCode, Create],
            DrillVerdict::Broken,
        ),
        (
            "Database",
            false,
            &[CachedRedirect, UncachedCode, Create],
            DrillVerdict::Held,
        ),
        ("Vector", true, &[], DrillVerdict::Held),
        ("Telemetry", true, &[Job], DrillVerdict::Broken),
    ] {
        let status = judged(store, cached, refused);
        let case = format!("{store} {refused:?}: {status:?}");
        assert_eq!(status.verdict, Some(expected), "{case}");
        assert_eq!(status.phase, Some(DrillPhase::Complete), "{case}");
        assert_eq!(
            status.conditions[0].reason,
            format!("{expected:?}"),
            "{case}"
        );
    }
}

#[test]
fn a_store_that_was_never_away_proves_nothing() {
    for (store, refused, expected) in [
        ("Cache", &[][..], DrillVerdict::Inconclusive),
        ("Vector", &[], DrillVerdict::Inconclusive),
        ("Queue", &[], DrillVerdict::Inconclusive),
        ("Database", &[], DrillVerdict::Inconclusive),
        ("Queue", &[DrillRequest::Job], DrillVerdict::Held),
        ("Database", &[DrillRequest::Create], DrillVerdict::Held),
        ("Cache", &[DrillRequest::Create], DrillVerdict::Broken),
    ] {
        let drill = of_store(store);
        let mut tally = Tally::new(drill.spec.store, (true, true), (at(0), at(60)));
        (0..60).for_each(|second| serve(&mut tally, second, refused));
        (60..80).for_each(|second| serve(&mut tally, second, &[]));
        let status = completed(&drill, &tally, 80);
        assert_eq!(status.verdict, Some(expected), "{store}: {status:?}");
    }
}

#[test]
fn the_report_has_counts_gaps_and_the_time_of_recovery() {
    let drill = of_store("Queue");
    let mut tally = tally(&drill, true);
    serve(&mut tally, 0, &[]);
    (2..64).for_each(|second| serve(&mut tally, second, &[DrillRequest::Job]));
    (64..70).for_each(|second| serve(&mut tally, second, &[]));
    let status = completed(&drill, &tally, 70);
    let jobs = &status.requests[3];
    assert_eq!(
        (jobs.request, jobs.sent, jobs.served),
        (DrillRequest::Job, 69, 7)
    );
    assert_eq!(json!(jobs.answers), json!({"302": 7, "503": 62}));
    assert_eq!(jobs.longest_gap_milliseconds, 62_000);
    assert_eq!(jobs.recovery_milliseconds, Some(4000));
    assert!(jobs.kept);
    let redirects = &status.requests[0];
    assert_eq!(
        (
            redirects.longest_gap_milliseconds,
            redirects.recovery_milliseconds
        ),
        (0, Some(0))
    );
}

#[test]
fn failures_for_a_moment_are_no_outage() {
    for (failures, expected) in [(4, DrillVerdict::Held), (5, DrillVerdict::Broken)] {
        let drill = of_store("Cache");
        let mut tally = tally(&drill, true);
        for second in (0..80).step_by(2) {
            let fails = (20..20 + 2 * failures).contains(&second);
            serve(
                &mut tally,
                second,
                if fails { &[DrillRequest::Create] } else { &[] },
            );
        }
        let status = completed(&drill, &tally, 80);
        assert_eq!(status.verdict, Some(expected), "{status:?}");
    }
}

#[test]
fn a_request_without_an_answer_breaks_no_promise_unless_there_are_many() {
    for (every, expected) in [(20, DrillVerdict::Held), (5, DrillVerdict::Broken)] {
        let drill = of_store("Queue");
        let mut tally = tally(&drill, true);
        for second in 0..60 {
            serve(&mut tally, second, &[DrillRequest::Job]);
            if second % every == 0 {
                tally.count(DrillRequest::Job, at(second), Answer::None);
            }
        }
        (60..80).for_each(|second| serve(&mut tally, second, &[]));
        let status = completed(&drill, &tally, 80);
        assert_eq!(status.verdict, Some(expected), "{status:?}");
    }
}

#[test]
fn another_answer_than_503_breaks_the_promise_of_503() {
    let drill = of_store("Queue");
    let mut tally = tally(&drill, true);
    serve(&mut tally, 0, &[]);
    tally.count(DrillRequest::Job, at(1), Answer::Status(500));
    (60..80).for_each(|second| serve(&mut tally, second, &[]));
    let status = completed(&drill, &tally, 80);
    assert_eq!(status.verdict, Some(DrillVerdict::Broken), "{status:?}");
}

#[test]
fn a_lost_job_and_a_store_that_is_not_back_break_a_drill() {
    let drill = of_store("Queue");
    let mut tally = tally(&drill, true);
    (0..60).for_each(|second| serve(&mut tally, second, &[DrillRequest::Job]));
    (60..80).for_each(|second| serve(&mut tally, second, &[]));
    let now = at(80);
    let never = complete(&drill, false, Report { tally: &tally, now });
    assert_eq!(never.verdict, Some(DrillVerdict::Broken));
    tally.jobs.as_mut().unwrap().accepted = 3;
    tally.jobs.as_mut().unwrap().done = 2;
    let lost = complete(&drill, true, Report { tally: &tally, now });
    assert_eq!(
        (lost.verdict, lost.jobs.unwrap().lost),
        (Some(DrillVerdict::Broken), 1)
    );
}

/// Returns the status of a drill of the queue that an operator took over after so many seconds, and of which it saw no end.
fn taken_over(after: i64, before: impl FnOnce(&mut Tally)) -> ShortenerDrillStatus {
    let drill = of_store("Queue");
    let mut first = tally(&drill, true);
    (0..20).for_each(|second| serve(&mut first, second, &[DrillRequest::Job]));
    before(&mut first);
    let report = |tally: &Tally, now| reported(&drill, DrillPhase::Active, Report { tally, now });
    let now = at(19 + after);
    let second = tally(&drill, true).resumed(&report(&first, at(19)), now);
    complete(
        &drill,
        false,
        Report {
            tally: &second,
            now,
        },
    )
}

#[test]
fn an_operator_that_was_replaced_breaks_no_drill_and_what_the_first_one_saw_does() {
    let nothing = |_: &mut Tally| {};
    let lost = |tally: &mut Tally| {
        let jobs = tally.jobs.as_mut().unwrap();
        (jobs.accepted, jobs.lost) = (1, 1);
    };
    let gap = |tally: &mut Tally| tally.count(DrillRequest::Create, at(10), Answer::Status(500));
    for (case, status, expected) in [
        (
            "replaced",
            taken_over(30, nothing),
            DrillVerdict::Inconclusive,
        ),
        ("at once", taken_over(1, nothing), DrillVerdict::Broken),
        ("lost", taken_over(30, lost), DrillVerdict::Broken),
        ("gap", taken_over(30, gap), DrillVerdict::Broken),
    ] {
        assert_eq!(status.verdict, Some(expected), "{case}: {status:?}");
    }
    let kept = |status: ShortenerDrillStatus| status.requests.iter().all(|report| report.kept);
    assert!(kept(taken_over(30, nothing)));
}

#[test]
fn a_prober_that_saw_too_little_proves_nothing() {
    let drill = running();
    let fresh = || tally(&drill, true);
    let limited = |answer| {
        let mut tally = fresh();
        for second in 0..80 {
            serve(&mut tally, second, &[]);
            if second % 5 == 0 {
                tally.count(DrillRequest::Create, at(second), answer);
            }
        }
        tally
    };
    let mut silent = fresh();
    for second in 0..80 {
        for (request, _) in kinds(true) {
            silent.count(request, at(second), Answer::None);
        }
    }
    let mut replaced = fresh();
    serve(&mut replaced, 1, &[]);
    let status = reported(
        &drill,
        DrillPhase::Active,
        Report {
            tally: &replaced,
            now: at(2),
        },
    );
    let mut replaced = fresh().resumed(&status, at(20));
    (20..80).for_each(|second| serve(&mut replaced, second, &[]));
    assert_eq!(replaced.unobserved, 19_000);
    for (tally, words) in [
        (limited(Answer::Status(429)), "rate limits"),
        (silent, "did not answer"),
        (replaced, "for 19 s"),
        (fresh(), "not every kind"),
    ] {
        let report = Report {
            tally: &tally,
            now: at(80),
        };
        let status = complete(&drill, true, report);
        assert_eq!(
            status.verdict,
            Some(DrillVerdict::Inconclusive),
            "{words}: {status:?}"
        );
        let message = &status.conditions[0].message;
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn an_operator_that_takes_over_keeps_the_counts_and_knows_no_awaited_job() {
    let drill = running();
    let mut first = tally(&drill, true);
    (0..10).for_each(|second| serve(&mut first, second, &[DrillRequest::Job]));
    *first.jobs.as_mut().unwrap() = serde_json::from_value(json!({
        "accepted": 5, "done": 3, "lost": 0, "repeated": 1, "unknown": 0,
    }))
    .unwrap();
    let status = reported(
        &drill,
        DrillPhase::Active,
        Report {
            tally: &first,
            now: at(10),
        },
    );
    assert_eq!(status.start_time, Some(Time(at(0))));
    assert_eq!(status.code.as_deref(), Some("k7Qm2xB"));
    let second = tally(&drill, true).resumed(&status, at(11));
    assert_eq!(second.jobs.unwrap().unknown, 2);
    assert_eq!(second.awaited_jobs(), 0);
    let again = reported(
        &drill,
        DrillPhase::Active,
        Report {
            tally: &second,
            now: at(11),
        },
    );
    assert_eq!(again.requests[0].sent, 10);
    assert_eq!(again.unobserved_seconds, 2);
}

#[test]
fn a_report_that_somebody_has_edited_is_counted_on() {
    let mut drill = running();
    let mut tally = tally(&drill, true);
    (0..10).for_each(|second| serve(&mut tally, second, &[DrillRequest::Job]));
    let (active, now) = (DrillPhase::Active, at(10));
    let mut status = reported(&drill, active, Report { tally: &tally, now });
    for number in [i64::MAX, i64::MIN] {
        for report in &mut status.requests {
            (report.sent, report.served) = (number, number);
            report.longest_gap_milliseconds = number;
            report.answers = ["503", "429"].map(|name| (name.to_owned(), number)).into();
        }
        status.jobs = Some(JobReport {
            accepted: number,
            done: number,
            lost: number,
            repeated: number,
            unknown: number,
        });
        status.unobserved_seconds = number;
        let mut resumed = tally.clone().resumed(&status, at(11));
        (11..80).for_each(|second| serve(&mut resumed, second, &[]));
        completed(&drill, &resumed, 80);
    }
    status.start_time = Some(Time(Timestamp::MAX));
    drill.status = Some(status);
    assert!(times(&drill).is_some());
}

#[test]
fn an_operator_that_takes_over_keeps_the_promises() {
    let drill = of_store("Database");
    let reports = |tally: &Tally| {
        let now = at(1);
        reported(&drill, DrillPhase::Active, Report { tally, now })
    };
    let status = reports(&tally(&drill, true));
    let second = tally(&drill, false).resumed(&status, at(1));
    let redirects = &reports(&second).requests[0];
    assert_eq!(redirects.request, DrillRequest::CachedRedirect);
    assert_eq!(redirects.promise, DrillPromise::Served);
}
