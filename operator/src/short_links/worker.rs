//! The worker of one stack: rounds of at most one request each, until nothing is left to do.

use std::{collections::HashSet, net::SocketAddr, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use shortener_operator_core::{
    api::ShortLink,
    model::metadata::StackKey,
    plan::short_links::{
        APPLY, AppliedLink, LinkToApply, LinkToRelease, LinkVerdict, MAX_LINKS, RELEASE, Released,
        StackState, Step, answered, ready, step,
    },
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};

use super::{
    CONCURRENT, Shared,
    app::App,
    ledger::{Ledger, Written},
    writes::{hold, let_go, tell, tell_left},
};
use crate::reconcile::context::{GuardedStack, is_of};

/// Time for which changes are collected.
const COLLECT: Duration = Duration::from_millis(100);
/// Time until the next round while something waits for a time to be over.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Time until the next round while the stacks are not listed yet.
const NOT_LISTED: Duration = Duration::from_secs(1);
/// Time after which stacks that are still not listed count as out of reach. Their namespace may be gone, and with it the
/// operator's rights there.
const UNLISTED: Duration = Duration::from_secs(60);

/// The worker of the ShortLinks of one stack.
pub(super) struct Worker {
    shared: Arc<Shared>,
    stack: StackKey,
    news: Arc<Notify>,
    app: App,
    ledger: Ledger,
    /// True if releases have failed. Links are applied before the next attempt, or one that fails for ever would stop them.
    postponed: bool,
    /// Time since which no release has succeeded, while one is wanted. Applying may succeed meanwhile, because it only reads
    /// what is unchanged.
    unreleased_since: Option<Instant>,
    begun: Instant,
    /// The pod that was reached last.
    pod: Option<SocketAddr>,
}

/// The ShortLinks of a round by what is to be done for them.
#[derive(Default)]
struct Round {
    release: Vec<Arc<ShortLink>>,
    apply: Vec<Arc<ShortLink>>,
    report: Vec<(Arc<ShortLink>, LinkVerdict)>,
    forget: Vec<Arc<ShortLink>>,
    leave: Vec<Arc<ShortLink>>,
    /// True if the time of a state may be over later.
    waits: bool,
}

impl Round {
    /// Leaves more than one batch of each kind to the next round, in which deletions may come first. Returns true if there is
    /// more.
    fn cut(&mut self) -> bool {
        let more = [&self.forget, &self.leave].map(|links| links.len() > MAX_LINKS);
        let is_cut = self.report.len() > MAX_LINKS || more.contains(&true);
        self.report.truncate(MAX_LINKS);
        self.forget.truncate(MAX_LINKS);
        self.leave.truncate(MAX_LINKS);
        is_cut
    }
}

/// The time until the next round.
enum Pause {
    None,
    /// Until this time, or until something changes.
    Until(Instant),
    /// For ever: there are no ShortLinks.
    End,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, stack: StackKey, news: Arc<Notify>) -> Self {
        Self {
            app: App::new(shared.clone(), stack.clone()),
            shared,
            stack,
            news,
            ledger: Ledger::new(),
            postponed: false,
            unreleased_since: None,
            begun: Instant::now(),
            pod: None,
        }
    }

    /// Works until the stack has no ShortLinks, or until the operator stops.
    pub(super) async fn work(mut self) {
        sleep(COLLECT).await;
        let stop = self.shared.stop.clone();
        while !stop.is_cancelled() {
            match self.round().await {
                Pause::None => {}
                Pause::Until(time) => {
                    let news = timeout_at(time, self.news.notified());
                    if let Some(Ok(())) = stop.run_until_cancelled(news).await {
                        sleep(COLLECT).await;
                    }
                }
                Pause::End => break,
            }
        }
    }

    async fn round(&mut self) -> Pause {
        let context = self.shared.context.clone();
        let links = self.shared.of_stack(&self.stack);
        self.ledger.tidy(&links);
        let stack = context.known_stack(&self.stack);
        let is_watched = self.shared.watches(&self.stack.0);
        let unlisted = stack.is_none() && is_watched && !context.has_listed_stacks(&self.stack.0);
        if unlisted && self.begun.elapsed() < UNLISTED {
            return Pause::Until(Instant::now() + NOT_LISTED);
        }
        let own = stack
            .as_deref()
            .filter(|stack| is_of(&context.class, stack));
        let (namespace, name) = &self.stack;
        let counts = own.filter(|_| !links.is_empty()).map(|_| counts(&links));
        context.metrics.short_links(namespace, name, counts);
        if own.is_none() {
            // Nobody is there who could end a claim.
            self.ledger.orphans.clear();
        }
        if links.is_empty() && self.ledger.orphans.is_empty() {
            return Pause::End;
        }
        let pod = context.managers.read(&self.stack, |pod| *pod);
        let parsed = own.and_then(|stack| stack.0.as_ref().ok());
        let reached = self.app.reach(parsed, pod);
        if let Ok(pod) = reached {
            self.meet(pod);
        }
        let state = match stack.as_deref() {
            Some(stack) => state(stack, own.is_some(), &reached, self.silent_for()),
            None if unlisted => StackState::Unreachable {
                links: None,
                why: "its namespace cannot be listed",
                since: self.begun.elapsed(),
            },
            None if is_watched => StackState::Missing,
            None => StackState::Unwatched,
        };
        let round = self.sort(&links, state);
        if let Ok(pod) = reached {
            let releases = !round.release.is_empty() || !self.ledger.orphans.is_empty();
            if !releases {
                self.unreleased_since = None;
            }
            if releases && (!self.postponed || round.apply.is_empty()) {
                self.release(pod, &round.release, &links).await;
                return Pause::None;
            }
            if !round.apply.is_empty() {
                self.postponed = false;
                self.apply(pod, &round.apply).await;
                return Pause::None;
            }
        }
        self.without_app(round, stack.as_deref()).await
    }

    /// Lets every link be compared again if this is another pod than before. It may be that of a new stack of the same name,
    /// with another database.
    fn meet(&mut self, pod: SocketAddr) {
        if self.pod.replace(pod).is_some_and(|before| before != pod) {
            self.ledger.reopen_all();
        }
    }

    /// Returns the time for which the app could not be reached, or has released nothing of what it was asked to.
    fn silent_for(&self) -> Duration {
        let since = self.unreleased_since;
        let unreleased = since.map_or(Duration::ZERO, |since| since.elapsed());
        self.app.silent_for().max(unreleased)
    }

    /// Does what needs no request to the app.
    async fn without_app(&mut self, mut round: Round, stack: Option<&GuardedStack>) -> Pause {
        let is_cut = round.cut();
        self.report(round.report).await;
        let (namespace, name) = &self.stack;
        if !round.forget.is_empty() {
            tracing::info!(stack = %name, %namespace, count = round.forget.len(), "the stack of deleted ShortLinks is gone, so their finalizers go without it");
        }
        self.free(round.forget).await;
        self.leave(round.leave, stack).await;
        if is_cut {
            return Pause::None;
        }
        let again = round.waits.then(|| Instant::now() + LOOK_AGAIN);
        let times = self.app.next_attempt().into_iter().chain(again);
        Pause::Until(self.ledger.next(times))
    }

    /// Removes the finalizers of ShortLinks whose links stay. Those of an own stack are released when the app answers again.
    async fn leave(&mut self, links: Vec<Arc<ShortLink>>, stack: Option<&GuardedStack>) {
        if links.is_empty() {
            return;
        }
        let (namespace, name) = &self.stack;
        tracing::warn!(stack = %name, %namespace, count = links.len(), "ShortLinks were deleted and their stack could not be reached, so their links stay");
        if let Some(stack) = stack {
            tell_left(&self.shared, stack, &links).await;
        }
        for claim in links.iter().map(|link| LinkToRelease::of(link)) {
            if !self.ledger.orphans.contains(&claim) {
                self.ledger.orphans.push(claim);
            }
        }
        self.free(links).await;
    }

    /// Returns what is to be done.
    fn sort(&self, links: &[Arc<ShortLink>], stack: StackState<'_>) -> Round {
        let (mut round, now) = (Round::default(), jiff::Timestamp::now());
        for link in links {
            let is_done = |reported| self.ledger.is_done(link, reported);
            match step(link, stack, now) {
                Step::Rest => {}
                Step::Wait => round.waits = true,
                Step::Report(verdict) if is_done(Some(&verdict)) => {}
                Step::Report(verdict) => round.report.push((link.clone(), verdict)),
                _ if is_done(None) => {}
                Step::Apply => round.apply.push(link.clone()),
                Step::Release => round.release.push(link.clone()),
                Step::Forget => round.forget.push(link.clone()),
                Step::Leave => round.leave.push(link.clone()),
            }
        }
        round
    }

    /// Ends the ownership of links, first of those whose ShortLinks are gone.
    async fn release(&mut self, pod: SocketAddr, links: &[Arc<ShortLink>], all: &[Arc<ShortLink>]) {
        let orphans = self.ledger.orphans.len();
        let mut items = self.ledger.orphans.clone();
        items.extend(links.iter().map(|link| LinkToRelease::of(link)));
        let codes: Vec<&str> = items.iter().map(|item| item.code.as_str()).collect();
        let sent = self.app.send::<_, Released>(pod, RELEASE, &items, &codes);
        let Some(answers) = sent.await else {
            self.postponed = true;
            self.unreleased_since.get_or_insert_with(Instant::now);
            return;
        };
        self.unreleased_since = None;
        let count = answers.len();
        let free: HashSet<&str> = codes[..count].iter().copied().collect();
        for link in all
            .iter()
            .filter(|link| free.contains(link.spec.code.as_str()))
        {
            // Another ShortLink may have waited for the code.
            self.ledger.reopen(link);
        }
        self.ledger.orphans.drain(..count.min(orphans));
        self.free(links[..count.saturating_sub(orphans)].to_vec())
            .await;
    }

    /// Makes links as they are asked for, then gives the ShortLinks their finalizers and statuses.
    async fn apply(&mut self, pod: SocketAddr, links: &[Arc<ShortLink>]) {
        let items: Vec<LinkToApply<'_>> = links.iter().map(|link| LinkToApply::of(link)).collect();
        let codes: Vec<&str> = links.iter().map(|link| link.spec.code.as_str()).collect();
        let sent = self.app.send::<_, AppliedLink>(pod, APPLY, &items, &codes);
        let Some(answers) = sent.await else {
            self.ledger.doubt(links);
            return;
        };
        let settled = links.iter().cloned().zip(answers);
        let settled = settled.map(async |(link, answer)| Written {
            result: settle(&self.shared, &link, &answer).await,
            link,
            reported: None,
            claimed: answer.result.is_kept(),
        });
        let settled = together(settled).await;
        self.ledger.record(settled);
    }

    /// Writes what statuses say without a question to the app.
    async fn report(&mut self, reports: Vec<(Arc<ShortLink>, LinkVerdict)>) {
        let told = reports.into_iter().map(async |(link, verdict)| Written {
            result: tell(&self.shared, &link, &verdict).await,
            link,
            reported: Some(verdict),
            claimed: false,
        });
        let told = together(told).await;
        self.ledger.record(told);
    }

    /// Removes the finalizers of ShortLinks.
    async fn free(&mut self, links: Vec<Arc<ShortLink>>) {
        let freed = links.into_iter().map(async |link| Written {
            result: let_go(&self.shared, &link).await,
            link,
            reported: None,
            claimed: false,
        });
        let freed = together(freed).await;
        self.ledger.record(freed);
    }
}

/// Runs a few futures at a time.
async fn together<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    stream::iter(futures)
        .buffer_unordered(CONCURRENT)
        .collect()
        .await
}

/// Writes what follows from the answer of the app. The claim comes first: a ShortLink whose code belongs to another gets no
/// finalizer.
async fn settle(shared: &Shared, link: &ShortLink, answer: &AppliedLink) -> kube::Result<()> {
    if answer.result.is_kept() {
        hold(shared, link).await?;
    }
    let verdict = answered(link, answer, jiff::Timestamp::now());
    tell(shared, link, &verdict).await
}

fn state<'a>(
    stack: &'a GuardedStack,
    is_own: bool,
    reached: &'a Result<SocketAddr, String>,
    since: Duration,
) -> StackState<'a> {
    let parsed = stack.0.as_ref().ok();
    let links = parsed.map(|stack| &stack.spec.links);
    match (reached, links) {
        _ if !is_own => StackState::Foreign,
        _ if parsed.is_some_and(|stack| stack.metadata.deletion_timestamp.is_some()) => {
            StackState::Deleted
        }
        (Ok(_), Some(links)) => StackState::Reachable(links),
        (reached, links) => StackState::Unreachable {
            links,
            why: reached.as_ref().err().map_or("", String::as_str),
            since,
        },
    }
}

/// Returns the numbers of ShortLinks that are ready, are not, and of which nothing is known.
fn counts(links: &[Arc<ShortLink>]) -> [i64; 3] {
    ["True", "False", "Unknown"].map(|state| {
        let count = links.iter().filter(|link| ready(link) == state).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    })
}
