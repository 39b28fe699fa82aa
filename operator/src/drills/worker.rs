//! The worker of one stack: it conducts its drills one after the other, and refuses those that come meanwhile.

mod begin;

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::{
    Resource, ResourceExt,
    runtime::events::{Event, EventType},
};
use shortener_operator_core::{
    api::{DrillPhase, ShortenerDrill, ShortenerDrillStatus, ShortenerStack},
    model::metadata::StackKey,
    plan::drills::{
        Refusal, Report, Step, Tally, complete, is_away, is_over, phase, refused, reported, step,
    },
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{Shared, prober::Prober, writes::write};
use crate::{
    kubernetes::events::{event, publish},
    reconcile::context::{GuardedStack, is_of},
};
use begin::Beginning;

/// Time between two looks at a drill that runs.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two reports of a drill that runs.
const REPORT: Duration = Duration::from_secs(10);
/// Time until a step that failed is repeated.
const RETRY: Duration = Duration::from_secs(5);
/// Time limit of one write.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// The worker of the drills of one stack.
pub(super) struct Worker {
    shared: Arc<Shared>,
    stack: StackKey,
    news: Arc<Notify>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, stack: StackKey, news: Arc<Notify>) -> Self {
        Self {
            shared,
            stack,
            news,
        }
    }

    /// Works until every drill of the stack is over, or until the operator stops.
    pub(super) async fn work(self) {
        let stop = self.shared.stop.clone();
        while !stop.is_cancelled() {
            let Some(drill) = self.shared.open(&self.stack).into_iter().next() else {
                break;
            };
            if stop
                .run_until_cancelled(self.conduct(&drill))
                .await
                .is_none()
            {
                break;
            }
        }
    }

    /// Conducts one drill, or a step of it.
    async fn conduct(&self, drill: &ShortenerDrill) {
        if !self.is_own() {
            return self.rest().await;
        }
        let running = match phase(drill) {
            // Its class is not known, so the drill may be that of another operator. The reconcile gives the store back.
            Some(_) if self.is_unreadable() => return self.rest().await,
            Some(DrillPhase::Active | DrillPhase::Recovering) => self.resume(drill).await,
            _ => match self.begin(drill).await {
                Beginning::Begun(drill, prober) => Some((*drill, prober)),
                Beginning::Over(status) => {
                    if self.write(drill, &status).await.is_some() {
                        self.shared.close(drill);
                    } else {
                        self.rest().await;
                    }
                    None
                }
                Beginning::Later => {
                    self.rest().await;
                    None
                }
            },
        };
        if let Some((drill, prober)) = running {
            tokio::select! {
                () = prober.run() => {}
                () = self.follow(drill, &prober) => {}
            }
        }
    }

    /// Returns true when this operator conducts the drills of the stack, also of one that does not exist. Just after the start,
    /// no stack is known.
    fn is_own(&self) -> bool {
        let context = &self.shared.context;
        match context.known_stack(&self.stack) {
            Some(known) => is_of(&context.class, &known),
            None => context.has_listed_stacks(&self.stack.0),
        }
    }

    /// Returns true when the stack exists and does not parse.
    fn is_unreadable(&self) -> bool {
        let known = self.shared.context.known_stack(&self.stack);
        known.is_some_and(|known| known.0.is_err())
    }

    /// Waits until the next attempt, or until something changes.
    async fn rest(&self) {
        let _ = timeout(RETRY, self.news.notified()).await;
    }

    /// Looks at a drill until it is over or gone, and reports.
    async fn follow(&self, mut drill: ShortenerDrill, prober: &Prober) {
        let context = &self.shared.context;
        let mut told = (context.clock)();
        self.tell();
        loop {
            self.refuse_others(&drill).await;
            sleep(self.until_next_look(&drill)).await;
            let current = context.drills.current(&drill);
            if current.is_none_or(|current| is_over(&current)) {
                self.tell();
                self.note("DrillEnded", "is gone, so the store is given back", &drill)
                    .await;
                return;
            }
            let stack = self.stack();
            if stack.as_deref().is_some_and(|stack| is_away(&drill, stack)) {
                prober.sees_away();
            }
            let (now, tally) = ((context.clock)(), prober.tally());
            let report = Report { tally: &tally, now };
            match step(&drill, stack.as_deref(), &tally, now) {
                Step::Send if now.duration_since(told) < REPORT.try_into().unwrap_or_default() => {}
                Step::Send => {
                    let phase = phase(&drill).unwrap_or(DrillPhase::Active);
                    let status = reported(&drill, phase, report);
                    drill = self.write(&drill, &status).await.unwrap_or(drill);
                    told = now;
                }
                Step::GiveBack => {
                    prober.ends(now);
                    let status = reported(&drill, DrillPhase::Recovering, report);
                    // The reconcile gives the store back whether this write succeeds or not.
                    self.tell();
                    let Some(written) = self.write(&drill, &status).await else {
                        continue;
                    };
                    (drill, told) = (written, now);
                    self.tell();
                    self.note("DrillEnded", "gives the store back", &drill)
                        .await;
                }
                Step::Complete { is_back } => {
                    if self.finish(&drill, &tally, is_back).await {
                        return;
                    }
                }
            }
        }
    }

    /// Returns the time until the next look, which is exactly the end of an active drill at the latest.
    fn until_next_look(&self, drill: &ShortenerDrill) -> Duration {
        let now: Timestamp = (self.shared.context.clock)();
        let end = drill
            .status
            .as_ref()
            .and_then(|status| status.end_time.as_ref());
        let left = end.map(|end| end.0.duration_since(now));
        let left = left.and_then(|left| Duration::try_from(left).ok());
        left.filter(|left| !left.is_zero())
            .map_or(LOOK, |left| left.min(LOOK))
    }

    /// Writes the verdict. Returns false if that must be repeated.
    async fn finish(&self, drill: &ShortenerDrill, tally: &Tally, is_back: bool) -> bool {
        let now = (self.shared.context.clock)();
        let status = complete(drill, is_back, Report { tally, now });
        let written = self.write(drill, &status).await.is_some();
        if written {
            self.shared.close(drill);
            let verdict = status.verdict;
            tracing::info!(drill = %drill.name_any(), stack = %self.stack.1, namespace = %self.stack.0, ?verdict, "a drill is complete");
        }
        written
    }

    /// Refuses the drills that were created while this one runs.
    async fn refuse_others(&self, drill: &ShortenerDrill) {
        for other in self.shared.open(&self.stack) {
            if other.metadata.uid == drill.metadata.uid {
                continue;
            }
            let now = (self.shared.context.clock)();
            let status = refused(&other, Refusal::AnotherDrill, now);
            if self.write(&other, &status).await.is_some() {
                self.shared.close(&other);
            }
        }
    }

    /// Returns the stack, if it parses.
    fn stack(&self) -> Option<Arc<ShortenerStack>> {
        let known = self.shared.context.known_stack(&self.stack)?;
        let GuardedStack(stack, _) = &*known;
        stack.as_ref().ok().cloned().map(Arc::new)
    }

    /// Lets the stack be reconciled.
    fn tell(&self) {
        self.shared.context.drills.tell(&self.stack);
    }

    /// Publishes an Event on the stack, if it parses.
    async fn note(&self, reason: &str, what: &str, drill: &ShortenerDrill) {
        let Some(stack) = self.stack() else {
            return;
        };
        let note = format!("ShortenerDrill {} {what}", drill.name_any());
        let event = Event {
            // Otherwise, it counts as a repeat of the Event about an earlier drill.
            secondary: Some(drill.object_ref(&())),
            ..event(EventType::Warning, "Drill", reason, note)
        };
        publish(&self.shared.context.recorder, &*stack, event).await;
    }

    /// Writes a status. Returns the drill as it is then, or `None` if that failed.
    async fn write(
        &self,
        drill: &ShortenerDrill,
        status: &ShortenerDrillStatus,
    ) -> Option<ShortenerDrill> {
        let written = timeout(WRITE_LIMIT, write(&self.shared, drill, status)).await;
        let why = match written {
            Ok(Ok(written)) => return Some(written),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server did not answer in time".to_owned(),
        };
        tracing::warn!(drill = %drill.name_any(), namespace = %self.stack.0, why, "the status of a drill could not be written");
        None
    }
}
