//! The finished work of a worker, in memory. The watch shows it only later, and until then no request repeats it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use shortener_operator_core::{
    api::ShortLink,
    plan::short_links::{LinkToRelease, LinkVerdict, is_held},
};
use tokio::time::Instant;

use crate::reconcile::context::{backoff, shortened};

/// Longest time until every link is compared with the database again. The actual time is up to a fifth shorter.
const CHECK: Duration = Duration::from_secs(300);
/// Longest time until a write that has failed is repeated.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// What was done for the ShortLinks of a stack, by their uids.
pub(super) struct Ledger {
    done: HashMap<String, Done>,
    /// Links that were claimed, or may have been, and whose ShortLinks did not get the finalizer.
    claims: HashMap<String, LinkToRelease>,
    /// Claims whose ShortLinks are gone.
    pub(super) orphans: Vec<LinkToRelease>,
    /// Time of the next comparison of every link with the database.
    check_at: Instant,
    /// Number of times in a row that a write has failed.
    failures: u32,
}

/// What was last done for a ShortLink.
struct Done {
    generation: Option<i64>,
    deleted: bool,
    /// What its status says without a question to the app.
    reported: Option<LinkVerdict>,
    /// Time at which it is done again, because a write has failed.
    until: Option<Instant>,
}

/// The result of the writes to one ShortLink.
pub(super) struct Written {
    pub(super) link: Arc<ShortLink>,
    /// What its status says without a question to the app.
    pub(super) reported: Option<LinkVerdict>,
    /// True if the database has the link now.
    pub(super) claimed: bool,
    pub(super) result: kube::Result<()>,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            done: HashMap::new(),
            claims: HashMap::new(),
            orphans: Vec::new(),
            check_at: Instant::now() + shortened(CHECK),
            failures: 0,
        }
    }

    /// Removes what is due again, and ShortLinks that are gone.
    pub(super) fn tidy(&mut self, links: &[Arc<ShortLink>]) {
        let now = Instant::now();
        if now >= self.check_at {
            self.done.clear();
            self.check_at = now + shortened(CHECK);
        }
        let uids: HashSet<&str> = links.iter().map(|link| uid(link)).collect();
        self.done.retain(|uid, done| {
            uids.contains(uid.as_str()) && done.until.is_none_or(|until| now < until)
        });
        if self.claims.is_empty() {
            return;
        }
        let ours = |link: &&Arc<ShortLink>| is_held(&***link) || !is_deleted(link);
        let held: HashSet<&str> = links.iter().filter(ours).map(|link| uid(link)).collect();
        let gone = self
            .claims
            .extract_if(|uid, _| !held.contains(uid.as_str()));
        self.orphans.extend(gone.map(|(_, claim)| claim));
    }

    /// Returns true if nothing is to be done for a ShortLink, of which the status says `reported` without a question to the app.
    pub(super) fn is_done(&self, link: &ShortLink, reported: Option<&LinkVerdict>) -> bool {
        self.done.get(uid(link)).is_some_and(|done| {
            done.generation == link.metadata.generation
                && done.deleted == is_deleted(link)
                && done.reported.as_ref() == reported
        })
    }

    /// Lets what was done for a ShortLink be done again.
    pub(super) fn reopen(&mut self, link: &ShortLink) {
        self.done.remove(uid(link));
    }

    /// Lets everything be done again.
    pub(super) fn reopen_all(&mut self) {
        self.done.clear();
    }

    /// Records links that a request may have claimed, although no answer came.
    pub(super) fn doubt(&mut self, links: &[Arc<ShortLink>]) {
        let unheld = links.iter().filter(|link| !is_held(&***link));
        let claims = unheld.map(|link| (uid(link).to_owned(), LinkToRelease::of(link)));
        self.claims.extend(claims);
    }

    /// Records writes that have ended together.
    pub(super) fn record(&mut self, writes: Vec<Written>) {
        if writes.iter().any(|written| written.result.is_err()) {
            self.failures = self.failures.saturating_add(1);
        } else if !writes.is_empty() {
            self.failures = 0;
        }
        let again = Instant::now() + backoff(self.failures, LONGEST_BACKOFF);
        for Written {
            link,
            reported,
            claimed,
            result,
        } in writes
        {
            let uid = uid(&link).to_owned();
            match &result {
                Ok(()) if claimed => {
                    self.claims.remove(&uid);
                }
                Err(error) => {
                    complain(&link, error);
                    if claimed {
                        self.claims.insert(uid.clone(), LinkToRelease::of(&link));
                    }
                }
                Ok(()) => {}
            }
            let done = Done {
                generation: link.metadata.generation,
                deleted: is_deleted(&link),
                reported,
                until: result.err().map(|_| again),
            };
            self.done.insert(uid, done);
        }
    }

    /// Returns the time of the next work if nothing changes before: the first of these times that is not over, or that of a
    /// repetition, which may be over since the ledger was tidied.
    pub(super) fn next(&self, times: impl IntoIterator<Item = Instant>) -> Instant {
        let now = Instant::now();
        let repetitions = self.done.values().filter_map(|done| done.until);
        let times = times.into_iter().filter(|time| *time > now);
        let next = times.chain(repetitions).min();
        next.map_or(self.check_at, |next| next.min(self.check_at))
    }
}

/// Logs a write that has failed, unless the ShortLink was changed or deleted meanwhile.
fn complain(link: &ShortLink, error: &kube::Error) {
    if matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409)) {
        return;
    }
    let (name, namespace) = (&link.metadata.name, &link.metadata.namespace);
    tracing::warn!(link = name, namespace, %error, "a ShortLink could not be written; retrying");
}

fn uid(link: &ShortLink) -> &str {
    link.metadata.uid.as_deref().unwrap_or_default()
}

fn is_deleted(link: &ShortLink) -> bool {
    link.metadata.deletion_timestamp.is_some()
}
