//! The background task that starts the purge at the times of its schedule.
//!
//! Every replica looks once a minute, and one of them claims each time. With the queue profile it publishes the job;
//! without, it removes the expired data itself.

use std::{iter::successors, time::Duration};

use axum::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use shortener_common::{
    database::{Database, StoreError},
    purge::Purge,
    queue::origin::Origin,
    schedule::Schedule,
};
use tokio::time::sleep;
use uuid::{Builder, Uuid};

use crate::{
    metrics::ScheduleMetrics,
    publisher::{NewJob, Publisher},
    store::schedules::Schedules,
};

/// The interval at which a replica looks for a time that has come.
const INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of missed times that are counted.
const MOST_MISSED: usize = 100;

/// Starts the purge.
pub struct Scheduler {
    /// The times of the purge.
    pub schedule: Schedule,
    pub database: Database,
    /// The publisher of jobs; without it, the task removes the data itself.
    pub publisher: Option<Publisher>,
    /// The removal of expired data.
    pub purge: Purge,
    pub metrics: ScheduleMetrics,
}

impl Scheduler {
    /// Runs without end.
    pub async fn run(self) {
        let mut last_reason = String::new();
        loop {
            let reason = match self.look(Timestamp::now()).await {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            };
            if !reason.is_empty() && reason != last_reason {
                tracing::warn!(
                    event = "schedule_unknown",
                    error.message = reason,
                    "schedule_unknown"
                );
            }
            last_reason = reason;
            sleep(INTERVAL).await;
        }
    }

    /// Starts the purge if its time has come and no other replica has started it.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn look(&self, now: Timestamp) -> Result<(), StoreError> {
        let Some(time) = self.schedule.latest(now) else {
            return Ok(());
        };
        let schedules = Schedules::new(self.database.clone());
        if schedules.claim(time).await?
            && let Err(reason) = self.start(time).await
        {
            tracing::warn!(
                event = "purge_not_started",
                error.message = reason,
                "purge_not_started"
            );
            schedules.release(time).await?;
        }
        if let Some(success) = schedules.last_success().await? {
            let missed = self.missed(success, time);
            self.metrics.set(success, missed);
        }
        Ok(())
    }

    async fn start(&self, time: Timestamp) -> Result<(), String> {
        match &self.publisher {
            Some(publisher) => {
                let published = publisher.publish(job(time)).await;
                published.map_err(|refusal| refusal.to_string())
            }
            None => {
                let removed = self.purge.run(&self.database).await;
                removed.map_err(|error| error.to_string())
            }
        }
    }

    /// Returns the number of times after the last success, up to the latest time.
    fn missed(&self, success: Timestamp, latest: Timestamp) -> usize {
        let minute = SignedDuration::from_mins(1);
        let before = |time: &Timestamp| self.schedule.latest(time.checked_sub(minute).ok()?);
        successors(Some(latest), before)
            .take_while(|time| *time > success)
            .take(MOST_MISSED)
            .count()
    }
}

/// Returns the job of a time. Its identifier depends on the time alone, so that publishing it twice makes one job.
fn job(time: Timestamp) -> NewJob {
    NewJob {
        id: id(time),
        origin: Origin::Internal,
        body: Bytes::from_static(br#"{"task":"purge_expired"}"#),
        request: None,
        tracestate: None,
    }
}

fn id(time: Timestamp) -> Uuid {
    let mut bytes = *b"purge\0\0\0\0\0\0\0\0\0\0\0";
    bytes[8..].copy_from_slice(&time.as_second().to_be_bytes());
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_has_a_job_of_its_own() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let first = id(time("2026-11-23T03:17:00Z"));
        assert_eq!(first, id(time("2026-11-23T03:17:00Z")));
        assert_ne!(first, id(time("2026-11-24T03:17:00Z")));
        assert_eq!(first.get_version_num(), 8);
    }
}
