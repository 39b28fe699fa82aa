//! Elections against the in-memory API server, on a paused clock.

use tokio::{task::JoinHandle, time::timeout};

use super::*;
use crate::testing::api_server::{Effect, FakeApiServer, Fault};

const NAMESPACE: &str = "ops";
const LEASE: &str = "shortener-operator";
const SECOND: Duration = Duration::from_secs(1);
const DURATION: Duration = Duration::from_secs(15);

struct Replica {
    write_deadline: WriteDeadline,
    elector: Elector,
}

impl Replica {
    fn new(server: &FakeApiServer, name: &str) -> Self {
        let election = Election {
            namespace: NAMESPACE.to_owned(),
            lease: LEASE.to_owned(),
            identity: name.to_owned(),
            duration: DURATION,
        };
        let write_deadline = WriteDeadline::default();
        Self {
            elector: Elector::new(server.client(), election, write_deadline.clone()),
            write_deadline,
        }
    }

    /// Returns a replica that leads and has just renewed the lease.
    async fn leading(server: &FakeApiServer, name: &str) -> Self {
        let mut replica = Self::new(server, name);
        replica.elector.acquire().await;
        replica
    }

    /// Runs the replica until it loses the lease.
    fn start(mut self) -> (WriteDeadline, JoinHandle<Lost>) {
        let write_deadline = self.write_deadline.clone();
        let task = tokio::spawn(async move {
            self.elector.acquire().await;
            self.elector.hold().await
        });
        (write_deadline, task)
    }
}

fn holder(server: &FakeApiServer) -> Option<String> {
    server.get::<Lease>(NAMESPACE, LEASE)?.spec?.holder_identity
}

fn created(server: &FakeApiServer) -> usize {
    server
        .writes()
        .iter()
        .filter(|write| write.effect == Some(Effect::Created))
        .count()
}

/// Polls two write deadlines for some time and fails as soon as both allow writes.
async fn never_both(a: &WriteDeadline, b: &WriteDeadline, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        assert!(a.until().is_err() || b.until().is_err(), "two leaders");
        sleep(SECOND / 20).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_candidates_one_wins_and_keeps_the_lease() {
    let server = FakeApiServer::default();
    let (a, _a) = Replica::new(&server, "a").start();
    let (b, _b) = Replica::new(&server, "b").start();
    never_both(&a, &b, 10 * DURATION).await;
    assert!(a.until().is_ok() != b.until().is_ok());
    assert_eq!(
        holder(&server).as_deref(),
        Some(if a.until().is_ok() { "a" } else { "b" })
    );
    assert_eq!(created(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_runs_out_by_the_local_clock_and_not_by_its_time_stamps() {
    let server = FakeApiServer::default();
    let gone = Candidate::new("gone".to_owned(), DURATION);
    let mut lease = gone.renewed(None, Timestamp::UNIX_EPOCH);
    lease.metadata.name = Some(LEASE.to_owned());
    lease.metadata.namespace = Some(NAMESPACE.to_owned());
    server.create(&lease);
    let mut replica = Replica::new(&server, "a");
    let started = Instant::now();
    assert!(
        timeout(DURATION - SECOND, replica.elector.acquire())
            .await
            .is_err()
    );
    assert_eq!(holder(&server).as_deref(), Some("gone"));
    replica.elector.acquire().await;
    assert!(started.elapsed() < DURATION + SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_paused_leader_has_stopped_writing_before_another_takes_over() {
    let server = FakeApiServer::default();
    // This replica is not polled any more, as if its process had been stopped.
    let paused = Replica::leading(&server, "a").await;
    let (other, _task) = Replica::new(&server, "b").start();
    never_both(&paused.write_deadline, &other, DURATION + SECOND).await;
    assert!(other.until().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_paused_too_long_finds_out_and_ends() {
    let server = FakeApiServer::default();
    let mut paused = Replica::leading(&server, "a").await;
    let (_other, _task) = Replica::new(&server, "b").start();
    sleep(2 * DURATION).await;
    server.forget_writes();
    assert_eq!(paused.elector.hold().await, Lost::Expired);
    paused.elector.release().await;
    assert_eq!(holder(&server).as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_compare_and_swap_does_not_take_over() {
    let server = FakeApiServer::default();
    Replica::leading(&server, "a").await.elector.release().await;
    let mut late = Replica::new(&server, "b");
    server.fail_write(1, Fault::Refuse(409));
    assert!(!late.elector.campaign().await.unwrap());
    assert!(late.write_deadline.until().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_changed_since_it_was_read_is_not_overwritten() {
    let server = FakeApiServer::default();
    let mut late = Replica::leading(&server, "b").await;
    late.elector.release().await;
    let mut winner = Replica::leading(&server, "a").await;
    assert!(is_conflict(&late.elector.write().await.unwrap_err()));
    assert!(late.write_deadline.until().is_err());
    assert!(timeout(DURATION, winner.elector.hold()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn releasing_hands_over_within_a_second() {
    let server = FakeApiServer::default();
    let mut leader = Replica::leading(&server, "a").await;
    let (next, _task) = Replica::new(&server, "b").start();
    assert!(timeout(DURATION, leader.elector.hold()).await.is_err());
    leader.elector.release().await;
    assert!(leader.write_deadline.until().is_err());
    never_both(&leader.write_deadline, &next, SECOND).await;
    assert_eq!(holder(&server).as_deref(), Some("b"));
}

/// Stops a replica whose write of the lease is still on its way after this time, and returns the holder of the lease after
/// the write has arrived.
async fn stopped(server: &FakeApiServer, mut replica: Replica, after: Duration) -> Option<String> {
    server.fail_write(1, Fault::ArriveLate(SECOND));
    let work = async {
        replica.elector.acquire().await;
        replica.elector.hold().await
    };
    assert!(timeout(after, work).await.is_err());
    assert_eq!(server.pending_faults(), 0, "nothing was written in time");
    replica.elector.release().await;
    sleep(SECOND).await;
    holder(server)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_after_the_release_does_not_take_the_lease() {
    let server = FakeApiServer::default();
    let soon = SECOND / 2;
    // No lease exists, and then one without a holder.
    let first = Replica::new(&server, "a");
    let patience = first.elector.candidate.renew_interval() * 2;
    assert_eq!(stopped(&server, first, patience + soon).await, None);
    let next = Replica::new(&server, "b");
    assert_eq!(stopped(&server, next, soon).await, None);
    // Its holder died.
    drop(Replica::leading(&server, "c").await);
    let heir = Replica::new(&server, "d");
    assert_eq!(stopped(&server, heir, DURATION + soon).await, None);
    // It is renewed.
    let leader = Replica::leading(&server, "e").await;
    assert_eq!(stopped(&server, leader, soon).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_during_the_release_does_not_keep_the_lease() {
    let server = FakeApiServer::default();
    let mut leader = Replica::leading(&server, "a").await;
    server.fail_write(1, Fault::ArriveLate(SECOND));
    assert!(timeout(SECOND / 2, leader.elector.renew()).await.is_err());
    server.fail_reads::<Lease>(Some(Fault::AnswerLate(SECOND)));
    leader.elector.release().await;
    assert_eq!(holder(&server), None);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_steps_down_at_its_deadline() {
    for fault in [
        Fault::Refuse(500),
        Fault::Hang,
        Fault::LoseRequest,
        Fault::LoseResponse,
        Fault::CommitThenAnswer(504),
    ] {
        let server = FakeApiServer::default();
        let mut leader = Replica::leading(&server, "a").await;
        let started = Instant::now();
        server.fail_all(Some(fault));
        assert_eq!(leader.elector.hold().await, Lost::Expired, "{fault:?}");
        assert_eq!(started.elapsed().as_secs(), 10, "{fault:?}");
        assert!(leader.write_deadline.until().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_survives_failures_that_pass_before_its_deadline() {
    for fault in [
        Fault::Refuse(500),
        Fault::LoseRequest,
        Fault::LoseResponse,
        Fault::CommitThenAnswer(504),
    ] {
        let server = FakeApiServer::default();
        let mut leader = Replica::leading(&server, "a").await;
        for number in [1, 2, 4] {
            server.fail_write(number, fault);
        }
        assert!(
            timeout(4 * DURATION, leader.elector.hold()).await.is_err(),
            "{fault:?}"
        );
        assert_eq!(holder(&server).as_deref(), Some("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_put_back_by_its_holder_alone() {
    let server = FakeApiServer::default();
    let (leader, _a) = Replica::leading(&server, "a").await.start();
    let (other, _b) = Replica::new(&server, "b").start();
    let (late, _c) = {
        sleep(2 * DURATION).await;
        server.delete::<Lease>(NAMESPACE, LEASE);
        Replica::new(&server, "c").start()
    };
    never_both(&leader, &other, DURATION).await;
    never_both(&leader, &late, DURATION).await;
    assert!(leader.until().is_ok());
    assert_eq!(created(&server), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_of_a_dead_holder_is_created_by_one_candidate() {
    let server = FakeApiServer::default();
    let dead = Replica::leading(&server, "dead").await;
    let (a, _a) = Replica::new(&server, "a").start();
    let (b, _b) = Replica::new(&server, "b").start();
    sleep(SECOND).await;
    server.delete::<Lease>(NAMESPACE, LEASE);
    never_both(&a, &b, 2 * DURATION).await;
    assert!(dead.write_deadline.until().is_err());
    assert!(a.until().is_ok() != b.until().is_ok());
    assert_eq!(created(&server), 2);
}

#[tokio::test(start_paused = true)]
async fn labels_on_the_lease_do_not_end_a_term() {
    let server = FakeApiServer::default();
    let mut leader = Replica::leading(&server, "a").await;
    server.edit::<Lease>(NAMESPACE, LEASE, |lease| {
        lease["metadata"]["labels"]["team"] = "links".into()
    });
    assert!(timeout(4 * DURATION, leader.elector.hold()).await.is_err());
    let lease = server.get::<Lease>(NAMESPACE, LEASE).unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["team"], "links");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_ends_at_once() {
    let server = FakeApiServer::default();
    let mut leader = Replica::leading(&server, "a").await;
    server.edit::<Lease>(NAMESPACE, LEASE, |lease| {
        lease["spec"]["holderIdentity"] = "b".into()
    });
    assert_eq!(leader.elector.hold().await, Lost::Taken("b".to_owned()));
    assert!(leader.write_deadline.until().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_container_that_restarts_in_its_pod_takes_its_lease_up_again() {
    let server = FakeApiServer::default();
    drop(Replica::leading(&server, "a").await);
    let started = Instant::now();
    Replica::leading(&server, "a").await;
    assert!(started.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_first_write_is_found_out() {
    let server = FakeApiServer::default();
    server.fail_write(1, Fault::LoseResponse);
    Replica::leading(&server, "a").await;
    assert_eq!(holder(&server).as_deref(), Some("a"));
    assert_eq!(created(&server), 1);
}
