//! Leader election with a Lease: reads and writes it; [`term`] decides.
//!
//! - Every write is a compare-and-swap on the resource version, so of two candidates one wins.
//! - A lease has run out when its record has not changed for its duration by the local monotonic clock. Time stamps in
//!   the record are for people.
//! - The mandate that a renewal gives ends before anyone else may take the lease, counted from before the renewal was
//!   sent. Whoever cannot renew stops writing by itself.

mod term;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{Api, Client, api::PostParams};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use crate::mandate::Mandate;
pub use term::{Candidate, Sighting, Step};

/// Where the lease is, and who asks for it.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub lease: String,
    /// The candidate's name. One process at a time may use it: a pod's name does.
    pub identity: String,
    /// How long the lease protects its holder.
    pub duration: Duration,
}

/// Why this process leads no longer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Another candidate holds the lease.
    #[error("`{0}` holds the lease")]
    Taken(String),
    /// The lease could not be renewed in time.
    #[error("the lease could not be renewed in time")]
    Expired,
}

/// One candidate's view of the lease.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    candidate: Candidate,
    mandate: Mandate,
    /// The lease as last read or written; `None` before the first look.
    sighting: Option<Sighting>,
    /// The last write may or may not have been carried out.
    uncertain: bool,
}

impl Elector {
    /// A candidate that has not looked yet.
    pub fn new(client: Client, election: Election, mandate: Mandate) -> Self {
        Self {
            api: Api::namespaced(client, &election.namespace),
            name: election.lease,
            candidate: Candidate::new(election.identity, election.duration),
            mandate,
            sighting: None,
            uncertain: false,
        }
    }

    /// Waits until this process leads. Errors are waited out.
    pub async fn acquire(&mut self) {
        let mut told = String::new();
        loop {
            let state = match self.campaign().await {
                Ok(true) => return info!(lease.name = %self.name, "leading"),
                Ok(false) => format!("standing by: {}", self.holder()),
                Err(error) => format!("standing by: the lease cannot be read or written: {error}"),
            };
            if state != told {
                info!(lease.name = %self.name, "{state}");
                told = state;
            }
            sleep(self.candidate.poll_interval()).await;
        }
    }

    /// Renews the lease for as long as possible. The mandate has ended when this returns.
    pub async fn hold(&mut self) -> Lost {
        let mut pause = self.candidate.renew_interval();
        let lost = loop {
            sleep(pause).await;
            let Ok(until) = self.mandate.until() else {
                break Lost::Expired;
            };
            match timeout_at(until, self.renew()).await {
                Ok(Ok(None)) => pause = self.candidate.renew_interval(),
                Ok(Ok(Some(lost))) => break lost,
                Ok(Err(error)) => {
                    warn!(lease.name = %self.name, error = %error, "the lease could not be renewed, trying again");
                    pause = self.candidate.poll_interval();
                }
                Err(_) => break Lost::Expired,
            }
        };
        self.mandate.end();
        lost
    }

    /// Ends the mandate and gives the lease back, if this process holds it, so that another takes over at once.
    pub async fn release(&mut self) {
        self.mandate.end();
        match self.give_back().await {
            Ok(true) => info!(lease.name = %self.name, "released the lease"),
            Ok(false) => {}
            Err(error) => {
                warn!(lease.name = %self.name, error = %error, "the lease was not released and has to run out")
            }
        }
    }

    /// Looks at the lease and takes it if nobody is protected by it. Tells whether this process leads.
    async fn campaign(&mut self) -> Result<bool, kube::Error> {
        let lease = self.api.get_opt(&self.name).await?;
        let sighting = self
            .candidate
            .look(self.sighting.take(), lease, Instant::now());
        let step = self.candidate.step(&sighting, Instant::now());
        self.sighting = Some(sighting);
        match step {
            Step::Wait => Ok(false),
            Step::Take => self.write().await.or_else(|error| {
                if is_conflict(&error) {
                    Ok(false)
                } else {
                    Err(error)
                }
            }),
        }
    }

    /// Renews once; a conflict is looked into, because edits of the lease's labels and its deletion are no loss.
    async fn renew(&mut self) -> Result<Option<Lost>, kube::Error> {
        if !self.uncertain {
            match self.write().await {
                Err(error) if is_conflict(&error) => {}
                outcome => return outcome.map(|_| None),
            }
        }
        let lease = self.api.get_opt(&self.name).await?;
        let sighting = self
            .candidate
            .look(self.sighting.take(), lease, Instant::now());
        let rival = self.candidate.rival(&sighting).map(str::to_owned);
        self.sighting = Some(sighting);
        match rival {
            Some(rival) => Ok(Some(Lost::Taken(rival))),
            None => self.write().await.map(|_| None),
        }
    }

    /// Writes this candidate into the lease as last seen, which fails if it has changed since, and extends the mandate.
    async fn write(&mut self) -> Result<bool, kube::Error> {
        let asked = Instant::now();
        let lease = self
            .swap(|candidate, seen| candidate.renewed(seen, Timestamp::now()))
            .await?;
        self.sighting = Some(self.candidate.look(None, Some(lease), Instant::now()));
        self.mandate.extend(asked + self.candidate.renew_deadline());
        Ok(true)
    }

    async fn give_back(&mut self) -> Result<bool, kube::Error> {
        if self.sighting.is_none() {
            return Ok(false);
        }
        let lease = self.api.get_opt(&self.name).await?;
        let sighting = self.candidate.look(None, lease, Instant::now());
        let held = self.candidate.holds(&sighting);
        self.sighting = Some(sighting);
        if held {
            self.swap(|candidate, seen| candidate.released(seen))
                .await?;
        }
        Ok(held)
    }

    async fn swap(
        &mut self,
        change: impl FnOnce(&Candidate, Option<&Lease>) -> Lease,
    ) -> Result<Lease, kube::Error> {
        let seen = self.sighting.as_ref().and_then(Sighting::lease);
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
        // A conflict is certain to have changed nothing, but what was seen is out of date.
        self.uncertain = written.is_err();
        written
    }

    fn holder(&self) -> String {
        let rival = self
            .sighting
            .as_ref()
            .and_then(|sighting| self.candidate.rival(sighting));
        rival.map_or_else(
            || "nobody holds the lease".to_owned(),
            |rival| format!("`{rival}` holds the lease"),
        )
    }
}

/// The lease is not as it was seen: changed, created or deleted by somebody else.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}
