//! The worker of one stack: it conducts its drills one after the other, and refuses those that come meanwhile.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::{ResourceExt, runtime::events::EventType};
use shortener_operator_core::{
    api::{DrillPhase, Profile, ShortenerDrill, ShortenerDrillStatus, ShortenerStack},
    model::metadata::StackKey,
    plan::drills::{
        Refusal, Report, Step, Tally, admit, begun, complete, inconclusive, is_over, phase,
        refused, reported, step,
    },
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    Shared,
    prober::{Prober, Way},
    writes::write,
};
use crate::{
    kubernetes::events::{event, publish},
    reconcile::context::{GuardedStack, is_of},
};

/// Time between two looks at a drill that runs.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two reports of a drill that runs.
const REPORT: Duration = Duration::from_secs(10);
/// Time until a step that failed is repeated.
const RETRY: Duration = Duration::from_secs(5);
/// Longest time for which the address of the gateway is awaited.
const TARGET_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of one write.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// The worker of the drills of one stack.
pub(super) struct Worker {
    shared: Arc<Shared>,
    stack: StackKey,
    news: Arc<Notify>,
}

/// What becomes of a drill that has not begun.
enum Beginning {
    Begun(Box<ShortenerDrill>, Arc<Prober>),
    /// It is refused or proves nothing.
    Over(Box<ShortenerDrillStatus>),
    /// Nothing can be said yet.
    Later,
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

    /// Waits until the next attempt, or until something changes.
    async fn rest(&self) {
        let _ = timeout(RETRY, self.news.notified()).await;
    }

    /// Checks a drill, tries its requests and lets it begin. The absolute end is stored before anything is taken away.
    async fn begin(&self, drill: &ShortenerDrill) -> Beginning {
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
        let tally = Tally::new(drill.spec.store, (jobs, is_cached(&stack)), (start, end));
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

    /// Takes over a drill that another operator has begun.
    async fn resume(&self, drill: &ShortenerDrill) -> Option<(ShortenerDrill, Arc<Prober>)> {
        let status = drill.status.clone().unwrap_or_default();
        let cached = self.stack().is_some_and(|stack| is_cached(&stack));
        let start = status.start_time.as_ref()?.0;
        let end = status.end_time.as_ref()?.0;
        let kinds = (status.jobs.is_some(), cached);
        let tally = Tally::new(drill.spec.store, kinds, (start, end));
        let clock = self.shared.context.clock.clone();
        let code = status.code.clone().unwrap_or_default();
        let Some(way) = self.way().await else {
            let tally = tally.resumed(&status, clock());
            self.finish(drill, &tally, false).await;
            return None;
        };
        let tally = tally.resumed(&status, clock());
        Some((drill.clone(), Prober::new(way, code, clock, tally)))
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
            let (now, tally) = ((context.clock)(), prober.tally());
            let report = Report { tally: &tally, now };
            match step(&drill, self.stack().as_deref(), &tally, now) {
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

    /// Returns the stack on which a drill may begin now.
    fn admitted(&self, drill: &ShortenerDrill) -> Result<Arc<ShortenerStack>, Refusal> {
        let stack = self.stack();
        let open = self.shared.open(&self.stack);
        admit(drill, open.iter().map(|drill| &**drill), stack.as_deref())?;
        stack.ok_or(Refusal::StackNotFound)
    }

    /// Returns the stack, if it parses.
    fn stack(&self) -> Option<Arc<ShortenerStack>> {
        let known = self.shared.context.known_stack(&self.stack)?;
        let GuardedStack(stack, _) = &*known;
        stack.as_ref().ok().cloned().map(Arc::new)
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
        let event = event(EventType::Warning, "Drill", reason, note);
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

/// Returns true for a stack with a cache.
fn is_cached(stack: &ShortenerStack) -> bool {
    stack.spec.profiles.contains(&Profile::Caching)
}
