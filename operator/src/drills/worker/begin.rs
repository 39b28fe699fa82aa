//! The beginning of a drill: it is checked, and its requests are tried before anything is taken away.

use std::{sync::Arc, time::Duration};

use shortener_operator_core::{
    api::{ShortenerDrill, ShortenerDrillStatus, ShortenerStack},
    plan::drills::{
        RECOVERY_LIMIT, Refusal, Report, Tally, admit, begun, inconclusive, is_cached, refused,
    },
};
use tokio::time::{sleep, timeout};

use super::{LOOK, Worker};
use crate::drills::prober::{Prober, Way};

/// Longest time for which the address of the gateway is awaited.
const TARGET_LIMIT: Duration = Duration::from_secs(30);

/// The next step of a drill that has not begun.
pub(super) enum Beginning {
    Begun(Box<ShortenerDrill>, Arc<Prober>),
    /// It is refused or proves nothing.
    Over(Box<ShortenerDrillStatus>),
    /// Nothing can be said yet.
    Later,
}

impl Worker {
    /// Checks a drill, tries its requests and lets it begin. The absolute end is stored before anything is taken away.
    pub(super) async fn begin(&self, drill: &ShortenerDrill) -> Beginning {
        let context = &self.shared.context;
        let now = || (context.clock)();
        let over = |status| Beginning::Over(Box::new(status));
        if let Err(refusal) = self.admitted(drill) {
            return over(refused(drill, refusal, now()));
        }
        let Some(way) = self.way().await else {
            return over(inconclusive(
                drill,
                "the address of the gateway is not known",
                now(),
            ));
        };
        let code = match way.prepare().await {
            Ok(code) => code,
            Err(why) => return over(inconclusive(drill, &why, now())),
        };
        // The stack may have changed meanwhile.
        let stack = match self.admitted(drill) {
            Ok(stack) => stack,
            Err(refusal) => return over(refused(drill, refusal, now())),
        };
        let jobs = way.target.jobs;
        let (start, length) = (now(), drill.spec.seconds.unsigned_abs().into());
        let end = start + Duration::from_secs(length);
        let cached = is_cached(&stack.spec, drill.spec.seconds);
        let tally = Tally::new(drill.spec.store, (jobs, cached), (start, end));
        let report = Report {
            tally: &tally,
            now: start,
        };
        let Some(drill) = self.write(drill, &begun(drill, &code, report)).await else {
            return Beginning::Later;
        };
        let store = drill.spec.store;
        let what = format!("takes the store {store:?} away until {end:.0}");
        self.note("DrillBegun", &what, &drill).await;
        let prober = Prober::new(way, code, context.clock.clone(), tally);
        Beginning::Begun(Box::new(drill), prober)
    }

    /// Takes over a drill that another operator has begun. One whose requests cannot be sent is complete.
    pub(super) async fn resume(
        &self,
        drill: &ShortenerDrill,
    ) -> Option<(ShortenerDrill, Arc<Prober>)> {
        let status = drill.status.clone().unwrap_or_default();
        let start = status.start_time.as_ref()?.0;
        let end = status.end_time.as_ref()?.0;
        // The promises are in the last report.
        let kinds = (status.jobs.is_some(), false);
        let tally = Tally::new(drill.spec.store, kinds, (start, end));
        let clock = self.shared.context.clock.clone();
        let code = status.code.clone().unwrap_or_default();
        // Later, the link may have expired, and its requests would show nothing.
        let is_late = clock() >= end + RECOVERY_LIMIT;
        let way = if is_late { None } else { self.way().await };
        let Some(way) = way else {
            let tally = tally.resumed(&status, clock());
            if !self.finish(drill, &tally, false).await {
                self.rest().await;
            }
            return None;
        };
        let tally = tally.resumed(&status, clock());
        Some((drill.clone(), Prober::new(way, code, clock, tally)))
    }

    /// Returns the stack on which a drill may begin now.
    fn admitted(&self, drill: &ShortenerDrill) -> Result<Arc<ShortenerStack>, Refusal> {
        let stack = self.stack();
        let open = self.shared.open(&self.stack);
        let open = open.iter().map(|drill| &**drill);
        admit(drill, open, stack.as_deref(), (self.shared.context.clock)())?;
        stack.ok_or(Refusal::StackNotFound)
    }

    /// Waits for the way to the gateway, which the reconciles name.
    async fn way(&self) -> Option<Way> {
        let target = async {
            loop {
                if let Some(target) = self.shared.context.end_to_end.subject(&self.stack) {
                    return target;
                }
                sleep(LOOK).await;
            }
        };
        Some(Way {
            target: timeout(TARGET_LIMIT, target).await.ok()?,
            connect: self.shared.connect.clone(),
        })
    }
}
