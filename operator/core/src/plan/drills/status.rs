//! The status of a drill.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use super::{admission::Refusal, tally::Tally};
use crate::api::{DrillPhase, DrillVerdict, ShortenerDrill, ShortenerDrillStatus};

/// The one type of condition of a drill.
const COMPLETE: &str = "Complete";

/// What a report says of a drill.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    pub tally: &'a Tally,
    /// The time now.
    pub now: Timestamp,
}

/// Returns the status of a drill that is refused.
pub fn refused(drill: &ShortenerDrill, refusal: Refusal, now: Timestamp) -> ShortenerDrillStatus {
    let status = ShortenerDrillStatus {
        phase: Some(DrillPhase::Refused),
        ..ShortenerDrillStatus::default()
    };
    stamped(
        drill,
        status,
        ("True", refusal.reason(), refusal.message().to_owned()),
        now,
    )
}

/// Returns the status of a drill that begins now with this link.
pub fn begun(drill: &ShortenerDrill, code: &str, report: Report<'_>) -> ShortenerDrillStatus {
    let now = report.now;
    let length = std::time::Duration::from_secs(drill.spec.seconds.unsigned_abs().into());
    let status = ShortenerDrillStatus {
        phase: Some(DrillPhase::Active),
        start_time: Some(Time(now)),
        end_time: Some(Time(now + length)),
        code: Some(code.to_owned()),
        ..with(ShortenerDrillStatus::default(), report, false)
    };
    let message = "the store is away until endTime, whatever happens to this drill";
    stamped(drill, status, ("False", "Active", message.to_owned()), now)
}

/// Returns the status of a drill that has begun, in a phase.
pub fn reported(
    drill: &ShortenerDrill,
    phase: DrillPhase,
    report: Report<'_>,
) -> ShortenerDrillStatus {
    let (reason, message) = match phase {
        DrillPhase::Recovering => (
            "Recovering",
            "the store is given back, and requests are sent until all are served again",
        ),
        DrillPhase::Active | DrillPhase::Complete | DrillPhase::Refused => (
            "Active",
            "the store is away until endTime, whatever happens to this drill",
        ),
    };
    let mut known = drill.status.clone().unwrap_or_default();
    // It may be given back early.
    if let Some(Time(end)) = known
        .end_time
        .as_mut()
        .filter(|_| phase == DrillPhase::Recovering)
    {
        *end = report.now.min(*end);
    }
    let status = ShortenerDrillStatus {
        phase: Some(phase),
        ..with(known, report, false)
    };
    stamped(
        drill,
        status,
        ("False", reason, message.to_owned()),
        report.now,
    )
}

/// Returns the status of a drill that is complete. `is_back` is true when its store is ready again.
pub fn complete(drill: &ShortenerDrill, is_back: bool, report: Report<'_>) -> ShortenerDrillStatus {
    let known = drill.status.clone().unwrap_or_default();
    let mut status = with(known, report, true);
    let (verdict, message) = judge(&status, report.tally, is_back);
    status.verdict = Some(verdict);
    status.phase = Some(DrillPhase::Complete);
    status.completion_time = Some(Time(report.now));
    let reason = match verdict {
        DrillVerdict::Held => "Held",
        DrillVerdict::Broken => "Broken",
        DrillVerdict::Inconclusive => "Inconclusive",
    };
    stamped(drill, status, ("True", reason, message), report.now)
}

/// Returns the status of a drill that did not begin, because its requests did not work before.
pub fn inconclusive(drill: &ShortenerDrill, why: &str, now: Timestamp) -> ShortenerDrillStatus {
    let status = ShortenerDrillStatus {
        phase: Some(DrillPhase::Complete),
        verdict: Some(DrillVerdict::Inconclusive),
        ..ShortenerDrillStatus::default()
    };
    let message =
        format!("nothing was taken away, because the requests of the drill do not work: {why}");
    stamped(drill, status, ("True", "ProberFailed", message), now)
}

fn judge(status: &ShortenerDrillStatus, tally: &Tally, is_back: bool) -> (DrillVerdict, String) {
    let jobs = status.jobs.unwrap_or_default();
    let broken = status.requests.iter().find(|report| !report.kept);
    let inconclusive = |why: &str| {
        (
            DrillVerdict::Inconclusive,
            format!("nothing is known for sure: {why}"),
        )
    };
    match (broken, tally.doubt()) {
        _ if tally.is_unreached() => inconclusive("the gateway did not answer the operator"),
        (Some(report), _) => (
            DrillVerdict::Broken,
            format!(
                "{:?}: {} of {} requests were served, with a gap of at most {} ms, and the documentation promises more",
                report.request, report.served, report.sent, report.longest_gap_milliseconds
            ),
        ),
        _ if jobs.lost > 0 => (
            DrillVerdict::Broken,
            format!(
                "{} of {} accepted jobs were not done",
                jobs.lost, jobs.accepted
            ),
        ),
        (None, Some(doubt)) => inconclusive(&doubt),
        (None, None) if !is_back => (
            DrillVerdict::Broken,
            "the store is not ready again: see the conditions of the stack".to_owned(),
        ),
        (None, None) => (
            DrillVerdict::Held,
            "users saw what the documentation promises".to_owned(),
        ),
    }
}

/// Returns a status with the report.
fn with(known: ShortenerDrillStatus, report: Report<'_>, over: bool) -> ShortenerDrillStatus {
    let Report { tally, now } = report;
    let mut jobs = tally.jobs;
    if let Some(jobs) = jobs.as_mut().filter(|_| over) {
        jobs.lost += tally.awaited_jobs().max(0);
    }
    ShortenerDrillStatus {
        observed_until: Some(Time(tally.observed_until())),
        unobserved_seconds: tally.unobserved / 1000,
        requests: tally.reports(now, over),
        jobs,
        ..known
    }
}

/// Returns a status with its condition and generation.
fn stamped(
    drill: &ShortenerDrill,
    status: ShortenerDrillStatus,
    (is_complete, reason, message): (&str, &str, String),
    now: Timestamp,
) -> ShortenerDrillStatus {
    let before = drill.status.iter().flat_map(|status| &status.conditions);
    let same = before.into_iter().find(|old| old.status == is_complete);
    let since = same.map_or(Time(now), |old| old.last_transition_time.clone());
    ShortenerDrillStatus {
        observed_generation: drill.metadata.generation,
        conditions: vec![Condition {
            type_: COMPLETE.to_owned(),
            status: is_complete.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: drill.metadata.generation,
            last_transition_time: since,
        }],
        ..status
    }
}
