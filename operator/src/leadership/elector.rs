//! Leader election with a Lease. This module reads and writes the Lease; [`term`] decides.
//!
//! - Every write is a compare-and-swap on the resource version, so only one of two candidates wins.
//! - A lease has expired when its record has not changed for the lease duration, by the local monotonic clock. The
//!   timestamps in the record are only informational.
//! - A renewal extends the write deadline by less than the lease duration, counted from before the renewal was sent.
//!   The deadline therefore passes before any other candidate may take the lease, and a leader that cannot renew stops
//!   writing on its own.

mod term;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{Api, Client, api::PostParams};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use crate::leadership::write_deadline::WriteDeadline;
pub use term::{Candidate, ElectionStep, ObservedLease};

/// The parameters of an election: the lease and the candidate.
#[derive(Clone, Debug)]
pub struct Election {
    pub namespace: String,
    /// Name of the lease.
    pub lease: String,
    /// Identity of the candidate. Only one process at a time may use it; the name of a pod satisfies this.
    pub identity: String,
    /// Duration for which the lease protects its holder.
    pub duration: Duration,
}

/// A reason for losing the leadership.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Another candidate holds the lease.
    #[error("`{0}` holds the lease")]
    Taken(String),
    /// The lease could not be renewed in time.
    #[error("the lease could not be renewed in time")]
    Expired,
}

/// A candidate with its view of the lease.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    candidate: Candidate,
    write_deadline: WriteDeadline,
    /// Lease as last read or written; `None` before the first read.
    observed: Option<ObservedLease>,
    /// True when the last write failed, so that it may or may not have been carried out.
    uncertain: bool,
}

impl Elector {
    /// Creates a candidate that has not read the lease yet.
    pub fn new(client: Client, election: Election, write_deadline: WriteDeadline) -> Self {
        Self {
            api: Api::namespaced(client, &election.namespace),
            name: election.lease,
            candidate: Candidate::new(election.identity, election.duration),
            write_deadline,
            observed: None,
            uncertain: false,
        }
    }

    /// Waits until this process leads. Errors are logged and retried.
    pub async fn acquire(&mut self) {
        let mut logged = String::new();
        loop {
            let state = match self.campaign().await {
                Ok(true) => return info!(lease.name = %self.name, "leading"),
                Ok(false) => format!("standing by: {}", self.holder()),
                Err(error) => format!("standing by: the lease cannot be read or written: {error}"),
            };
            if state != logged {
                info!(lease.name = %self.name, "{state}");
                logged = state;
            }
            sleep(self.candidate.poll_interval()).await;
        }
    }

    /// Renews the lease for as long as possible, then returns the reason of the loss. The write deadline has passed by
    /// then.
    pub async fn hold(&mut self) -> Lost {
        let mut pause = self.candidate.renew_interval();
        let lost = loop {
            sleep(pause).await;
            let Ok(until) = self.write_deadline.until() else {
                break Lost::Expired;
            };
            match timeout_at(until, self.renew()).await {
                Ok(Ok(None)) => pause = self.candidate.renew_interval(),
                Ok(Ok(Some(lost))) => break lost,
                Ok(Err(error)) => {
                    warn!(lease.name = %self.name, error = %error, "the lease could not be renewed; retrying");
                    pause = self.candidate.poll_interval();
                }
                Err(_) => break Lost::Expired,
            }
        };
        self.write_deadline.end();
        lost
    }

    /// Ends the writes and releases the lease if this process holds it, so that another replica takes over at once.
    pub async fn release(&mut self) {
        self.write_deadline.end();
        let mut released = self.give_back().await;
        if released.as_ref().is_err_and(is_conflict) {
            // A write that was given up has arrived in between.
            released = self.give_back().await;
        }
        match released {
            Ok(true) => info!(lease.name = %self.name, "released the lease"),
            Ok(false) => {}
            Err(error) => {
                warn!(lease.name = %self.name, error = %error, "the lease was not released; another replica takes over when it expires")
            }
        }
    }

    /// Reads the lease and takes it unless it protects another holder. Returns true when this process leads.
    async fn campaign(&mut self) -> Result<bool, kube::Error> {
        let lease = self.api.get_opt(&self.name).await?;
        let observed = self
            .candidate
            .look(self.observed.take(), lease, Instant::now());
        let step = self.candidate.step(&observed, Instant::now());
        self.observed = Some(observed);
        match step {
            ElectionStep::Wait => Ok(false),
            ElectionStep::Take => self.write().await.or_else(|error| {
                if is_conflict(&error) {
                    Ok(false)
                } else {
                    Err(error)
                }
            }),
        }
    }

    /// Renews the lease once. After a conflict it reads the lease again, because edits of the lease's labels and its
    /// deletion do not end the term.
    async fn renew(&mut self) -> Result<Option<Lost>, kube::Error> {
        if !self.uncertain {
            match self.write().await {
                Err(error) if is_conflict(&error) => {}
                outcome => return outcome.map(|_| None),
            }
        }
        let lease = self.api.get_opt(&self.name).await?;
        let observed = self
            .candidate
            .look(self.observed.take(), lease, Instant::now());
        let rival = self.candidate.rival(&observed).map(str::to_owned);
        self.observed = Some(observed);
        match rival {
            Some(rival) => Ok(Some(Lost::Taken(rival))),
            None => self.write().await.map(|_| None),
        }
    }

    /// Writes this candidate into the lease as last seen and extends the write deadline. The write fails if the lease
    /// has changed since.
    async fn write(&mut self) -> Result<bool, kube::Error> {
        let asked = Instant::now();
        let lease = self
            .swap(|candidate, seen| candidate.renewed(seen, Timestamp::now()))
            .await?;
        self.observed = Some(self.candidate.look(None, Some(lease), Instant::now()));
        self.write_deadline
            .extend(asked + self.candidate.renew_deadline());
        Ok(true)
    }

    /// Removes this process from the lease. A write that was given up may still arrive and name it, so the lease is then
    /// written also if it names nobody: the later write fails. Returns true if the lease was written.
    async fn give_back(&mut self) -> Result<bool, kube::Error> {
        if self.observed.is_none() {
            return Ok(false);
        }
        let lease = self.api.get_opt(&self.name).await?;
        let observed = self
            .candidate
            .look(self.observed.take(), lease, Instant::now());
        let may_arrive = self.uncertain
            && (observed.lease().is_none()
                || self.candidate.step(&observed, Instant::now()) == ElectionStep::Take);
        let gives = may_arrive || self.candidate.holds(&observed);
        self.observed = Some(observed);
        if gives {
            self.swap(|candidate, seen| candidate.released(seen, Timestamp::now()))
                .await?;
        }
        Ok(gives)
    }

    async fn swap(
        &mut self,
        change: impl FnOnce(&Candidate, Option<&Lease>) -> Lease,
    ) -> Result<Lease, kube::Error> {
        let seen = self.observed.as_ref().and_then(ObservedLease::lease);
        let mut wanted = change(&self.candidate, seen);
        wanted.metadata.name = Some(self.name.clone());
        self.uncertain = true;
        let written = match seen {
            Some(_) => {
                self.api
                    .replace(&self.name, &PostParams::default(), &wanted)
                    .await
            }
            None => self.api.create(&PostParams::default(), &wanted).await,
        };
        // A conflict certainly changed nothing, but the lease as last seen is out of date.
        self.uncertain = written.is_err();
        written
    }

    fn holder(&self) -> String {
        let rival = self
            .observed
            .as_ref()
            .and_then(|observed| self.candidate.rival(observed));
        rival.map_or_else(
            || "the lease has no holder".to_owned(),
            |rival| format!("`{rival}` holds the lease"),
        )
    }
}

/// Returns true when the lease was changed, created or deleted by another client since it was last seen.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}
