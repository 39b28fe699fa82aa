//! The decisions of the election, without a client or a clock: the lease as seen and the time come in, the next step
//! goes out.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use tokio::time::Instant;

/// Interval between two reads of the lease by a candidate; it bounds the duration of a handover.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A candidate for the lease, with its identity and lease duration.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    duration: Duration,
}

/// The lease as last seen, with the end of its holder's protection, which depends on the time of the observation.
#[derive(Clone, Debug)]
pub struct ObservedLease {
    lease: Option<Lease>,
    /// Moment before which only the holder may take the lease; `None` if the lease protects no holder.
    protected_until: Option<Instant>,
}

/// The next step of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionStep {
    /// Wait: the lease protects another holder.
    Wait,
    /// Take or renew the lease: it is free, expired or this candidate's own. The write fails if the lease has changed
    /// since it was last seen.
    Take,
}

impl ObservedLease {
    /// Returns the lease, if it exists.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }
}

impl Candidate {
    /// Creates a candidate with this identity and lease duration.
    pub fn new(identity: String, duration: Duration) -> Self {
        Self { identity, duration }
    }

    /// Returns the time from the start of a successful write during which the holder may act: two thirds of the lease
    /// duration. The rest is a margin for requests in flight and for clocks that run unevenly.
    pub fn renew_deadline(&self) -> Duration {
        self.duration * 2 / 3
    }

    /// Returns the pause between renewals.
    pub fn renew_interval(&self) -> Duration {
        self.duration / 6
    }

    /// Returns the pause between reads of a lease that another candidate holds.
    pub fn poll_interval(&self) -> Duration {
        POLL_INTERVAL.min(self.renew_interval())
    }

    /// Records a lease that was read at `now`. Every change of the lease restarts the protection of its holder.
    pub fn look(
        &self,
        earlier: Option<ObservedLease>,
        lease: Option<Lease>,
        now: Instant,
    ) -> ObservedLease {
        let protected_until = match (earlier, &lease) {
            (Some(earlier), Some(lease)) if same_version(earlier.lease(), lease) => {
                earlier.protected_until
            }
            (_, Some(lease)) => holder(lease).map(|_| now + self.duration.max(promised(lease))),
            // Deleting the lease does not move the holder's write deadline.
            (Some(earlier), None) => earlier.protected_until,
            // A live holder recreates a deleted lease with its next renewal.
            (None, None) => Some(now + self.renew_interval() * 2),
        };
        ObservedLease {
            lease,
            protected_until,
        }
    }

    pub fn step(&self, observed: &ObservedLease, now: Instant) -> ElectionStep {
        let protected = observed.protected_until.is_some_and(|until| now < until);
        if protected && !self.holds(observed) {
            ElectionStep::Wait
        } else {
            ElectionStep::Take
        }
    }

    /// Returns true when the lease names this candidate.
    pub fn holds(&self, observed: &ObservedLease) -> bool {
        observed.lease().and_then(holder) == Some(&self.identity)
    }

    /// Returns the holder of the lease if it is another candidate.
    pub fn rival<'a>(&self, observed: &'a ObservedLease) -> Option<&'a str> {
        observed
            .lease()
            .and_then(holder)
            .filter(|holder| *holder != self.identity)
    }

    /// Returns the lease with this candidate as holder, renewed at `now`. Everything else in it stays, including its
    /// resource version.
    pub fn renewed(&self, seen: Option<&Lease>, now: Timestamp) -> Lease {
        let mut lease = seen.cloned().unwrap_or_default();
        let first = seen.and_then(holder) != Some(&self.identity);
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if first {
            spec.acquire_time = Some(MicroTime(now));
            spec.lease_transitions = Some(
                spec.lease_transitions
                    .map_or(0, |count| count.saturating_add(1)),
            );
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = i32::try_from(self.duration.as_secs()).ok();
        spec.renew_time = Some(MicroTime(now));
        lease
    }

    /// Returns the lease without a holder. The time makes it differ from every earlier one, because a write that changes
    /// nothing leaves the resource version as it is.
    pub fn released(&self, seen: Option<&Lease>, now: Timestamp) -> Lease {
        let mut lease = seen.cloned().unwrap_or_default();
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(now));
        lease
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

/// Returns the duration for which the lease claims to protect its holder; zero if it is absent or negative.
fn promised(lease: &Lease) -> Duration {
    let seconds = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_duration_seconds);
    Duration::from_secs(
        seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or_default(),
    )
}

fn same_version(earlier: Option<&Lease>, now: &Lease) -> bool {
    earlier.is_some_and(|earlier| {
        earlier.metadata.uid == now.metadata.uid
            && earlier.metadata.resource_version == now.metadata.resource_version
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn candidate(name: &str) -> Candidate {
        Candidate::new(name.to_owned(), DURATION)
    }

    fn lease(holder: &str, seconds: i32, version: &str) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.resource_version = Some(version.to_owned());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            ..LeaseSpec::default()
        });
        lease
    }

    /// Returns the time that a candidate waits for a lease that does not change.
    fn time_until_takeover(lease: Option<Lease>) -> Duration {
        let (candidate, now) = (candidate("a"), Instant::now());
        let seen = candidate.look(None, lease, now);
        (0..600)
            .map(Duration::from_secs)
            .find(|wait| candidate.step(&seen, now + *wait) == ElectionStep::Take)
            .unwrap()
    }

    #[test]
    fn a_held_lease_is_waited_out_whatever_its_time_stamps_say() {
        assert_eq!(time_until_takeover(Some(lease("b", 15, "1"))), DURATION);
    }

    #[test]
    fn the_longer_of_both_durations_protects_the_holder() {
        assert_eq!(
            time_until_takeover(Some(lease("b", 60, "1"))),
            Duration::from_secs(60)
        );
        assert_eq!(time_until_takeover(Some(lease("b", 1, "1"))), DURATION);
        assert_eq!(time_until_takeover(Some(lease("b", -1, "1"))), DURATION);
    }

    #[test]
    fn a_lease_without_a_holder_or_of_our_own_is_taken_at_once() {
        assert_eq!(
            time_until_takeover(Some(lease("", 15, "1"))),
            Duration::ZERO
        );
        assert_eq!(time_until_takeover(Some(Lease::default())), Duration::ZERO);
        assert_eq!(
            time_until_takeover(Some(lease("a", 15, "1"))),
            Duration::ZERO
        );
    }

    #[test]
    fn a_lease_that_never_was_there_gives_a_live_holder_time_to_put_it_back() {
        assert_eq!(time_until_takeover(None), Duration::from_secs(5));
    }

    #[test]
    fn every_change_protects_the_holder_anew() {
        let (candidate, now) = (candidate("a"), Instant::now());
        let first = candidate.look(None, Some(lease("b", 15, "1")), now);
        let unchanged = candidate.look(Some(first), Some(lease("b", 15, "1")), now + DURATION / 2);
        assert_eq!(
            candidate.step(&unchanged, now + DURATION),
            ElectionStep::Take
        );
        let renewed = candidate.look(
            Some(unchanged),
            Some(lease("b", 15, "2")),
            now + DURATION / 2,
        );
        assert_eq!(candidate.step(&renewed, now + DURATION), ElectionStep::Wait);
        assert_eq!(
            candidate.step(&renewed, now + DURATION * 3 / 2),
            ElectionStep::Take
        );
    }

    #[test]
    fn deleting_the_lease_does_not_end_its_holders_protection() {
        let (candidate, now) = (candidate("a"), Instant::now());
        let seen = candidate.look(None, Some(lease("b", 15, "1")), now);
        let gone = candidate.look(Some(seen), None, now + DURATION / 3);
        assert_eq!(
            candidate.step(&gone, now + DURATION / 2),
            ElectionStep::Wait
        );
        assert_eq!(candidate.step(&gone, now + DURATION), ElectionStep::Take);
    }

    #[test]
    fn the_holder_stops_well_before_anyone_else_may_start() {
        let candidate = candidate("a");
        assert!(candidate.renew_deadline() + Duration::from_secs(5) <= DURATION);
        assert!(candidate.renew_interval() * 3 < candidate.renew_deadline());
        assert!(candidate.poll_interval() < Duration::from_secs(1));
    }

    #[test]
    fn taking_over_counts_a_transition_and_keeps_everything_else() {
        let mut seen = lease("b", 60, "7");
        seen.metadata.labels = Some([("team".to_owned(), "links".to_owned())].into());
        let taken = candidate("a").renewed(Some(&seen), Timestamp::UNIX_EPOCH);
        assert_eq!(taken.metadata, seen.metadata);
        let spec = taken.spec.clone().unwrap();
        assert_eq!(
            (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
            (Some("a"), Some(15))
        );
        assert_eq!(spec.lease_transitions, Some(0));
        let again = candidate("b")
            .renewed(Some(&taken), Timestamp::UNIX_EPOCH)
            .spec
            .unwrap();
        assert_eq!(again.lease_transitions, Some(1));
    }
}
