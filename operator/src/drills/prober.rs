//! The requests of a drill: through the gateway, like the end-to-end probes, at a fixed rate. The requests of one kind follow
//! each other.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::future::{self, join_all};
use http::{Response, StatusCode, header::LOCATION};
use hyper::body::Bytes;
use parking_lot::Mutex;
use rand::{RngExt, distr::Alphanumeric};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::{DrillRequest, LONGEST_DRILL},
    model::stack::EndToEndTarget,
    plan::{
        conditions::TASK,
        drills::{Answer, GAP_LIMIT, LONGEST_PAUSE, RECOVERY_LIMIT, Tally, kinds},
    },
};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::{
    probes::end_to_end::{Attempt, Connect, LIMIT, REDIRECTS, word},
    reconcile::context::Clock,
};

/// Lifetime in seconds of a link that is made during the drill, the shortest that the app accepts.
const SHORT_LIFE: u64 = 60;
/// Time between two looks at jobs whose results are awaited.
const JOB_PAUSE: Duration = Duration::from_secs(1);
/// Number of jobs of one look.
const JOBS_AT_ONCE: usize = 8;
/// Length of a code that was never given out.
const UNKNOWN_CODE: usize = 12;

// A single request without an answer is no outage.
const _: () = assert!(GAP_LIMIT.as_secs() > LIMIT.as_secs() + LONGEST_PAUSE.as_secs());

/// The way to the gateway of a stack.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) target: EndToEndTarget,
    pub(super) connect: Connect,
}

/// The requests of one drill, and what is known of them.
pub(super) struct Prober {
    way: Way,
    /// Code of the link whose redirects are tried.
    code: String,
    clock: Clock,
    tally: Mutex<Tally>,
    /// Jobs whose results are awaited.
    awaited: Mutex<VecDeque<String>>,
}

impl Way {
    async fn send(&self, path: &str, body: Option<Value>) -> Option<Response<Bytes>> {
        let attempt = Attempt::new(self.target.clone(), self.connect.clone());
        attempt.answer(path, body).await.ok()
    }

    /// Makes the link of a drill and opens it, so that it is in the cache. Returns its code.
    ///
    /// # Errors
    /// The reason for which it did not work, as part of a sentence.
    pub(super) async fn prepare(&self) -> Result<String, String> {
        let life = u64::from(LONGEST_DRILL.unsigned_abs()) + 2 * RECOVERY_LIMIT.as_secs();
        let (answer, code) = self.create(life).await;
        let code = code.ok_or_else(|| format!("a new link got {answer:?}"))?;
        match self.follow(&code).await {
            Answer::Served(_) => Ok(code),
            answer => Err(format!("the redirect of a new link got {answer:?}")),
        }
    }

    /// Makes a link. Returns its code if it was made.
    async fn create(&self, life: u64) -> (Answer, Option<String>) {
        let body = json!({"url": self.target.destination, "ttl_seconds": life});
        let Some(answer) = self.send("/api/shorten", Some(body)).await else {
            return (Answer::None, None);
        };
        match (answer.status(), word(&answer, "code")) {
            (StatusCode::CREATED | StatusCode::OK, Some(code)) => (served(&answer), Some(code)),
            (StatusCode::CREATED | StatusCode::OK, None) => (Answer::WrongContent, None),
            (status, _) => (Answer::Status(status.as_u16()), None),
        }
    }

    async fn follow(&self, code: &str) -> Answer {
        let Some(answer) = self.send(&format!("/{code}"), None).await else {
            return Answer::None;
        };
        let place = answer.headers().get(LOCATION);
        let leads =
            place.is_some_and(|place| place.as_bytes() == self.target.destination.as_bytes());
        match answer.status() {
            status if !REDIRECTS.contains(&status) => Answer::Status(status.as_u16()),
            _ if leads => served(&answer),
            _ => Answer::WrongContent,
        }
    }

    /// Asks for a code that was never given out. The stack may redirect it to a page.
    async fn miss(&self) -> Answer {
        let letters = rand::rng().sample_iter(Alphanumeric).take(UNKNOWN_CODE);
        let code: String = letters.map(char::from).collect();
        match self.send(&format!("/{code}"), None).await {
            Some(answer) if answer.status() == StatusCode::NOT_FOUND => served(&answer),
            Some(answer) if REDIRECTS.contains(&answer.status()) => served(&answer),
            Some(answer) => Answer::Status(answer.status().as_u16()),
            None => Answer::None,
        }
    }
}

impl Prober {
    pub(super) fn new(way: Way, code: String, clock: Clock, tally: Tally) -> Arc<Self> {
        Arc::new(Self {
            way,
            code,
            clock,
            tally: Mutex::new(tally),
            awaited: Mutex::default(),
        })
    }

    /// Returns what is known now.
    pub(super) fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }

    /// Sets the time at which the store is given back.
    pub(super) fn ends(&self, at: jiff::Timestamp) {
        self.tally.lock().ends(at);
    }

    /// Remembers that the pods of the store are gone.
    pub(super) fn sees_away(&self) {
        self.tally.lock().sees_away();
    }

    /// Sends requests forever.
    pub(super) async fn run(&self) {
        let jobs = self.tally.lock().jobs.is_some();
        let requests = kinds(jobs).map(|(request, pause)| self.repeat(request, pause));
        let results = async {
            if jobs {
                self.await_results().await;
            }
        };
        future::join(join_all(requests), results).await;
    }

    async fn repeat(&self, request: DrillRequest, pause: Duration) {
        let mut ticks = interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let at = (self.clock)();
            if request == DrillRequest::Job && self.tally.lock().is_steady(at) {
                continue;
            }
            let answer = match request {
                DrillRequest::CachedRedirect => self.way.follow(&self.code).await,
                DrillRequest::UncachedCode => self.way.miss().await,
                DrillRequest::Create => self.way.create(SHORT_LIFE).await.0,
                DrillRequest::Job => self.enqueue().await,
            };
            self.tally.lock().count(request, at, answer);
        }
    }

    async fn enqueue(&self) -> Answer {
        let body = json!({"task": TASK});
        let Some(answer) = self.way.send("/api/jobs", Some(body)).await else {
            return Answer::None;
        };
        match (answer.status(), word(&answer, "id")) {
            (StatusCode::ACCEPTED, Some(id)) => {
                if let Some(jobs) = &mut self.tally.lock().jobs {
                    jobs.accepted += 1;
                }
                self.awaited.lock().push_back(id);
                served(&answer)
            }
            (StatusCode::ACCEPTED, None) => Answer::WrongContent,
            (status, _) => Answer::Status(status.as_u16()),
        }
    }

    /// Asks for the results of jobs forever, of the oldest first.
    async fn await_results(&self) {
        loop {
            sleep(JOB_PAUSE).await;
            let due: Vec<String> = {
                let mut awaited = self.awaited.lock();
                let count = awaited.len().min(JOBS_AT_ONCE);
                awaited.drain(..count).collect()
            };
            for id in due {
                if !self.is_settled(&id).await {
                    self.awaited.lock().push_back(id);
                }
            }
        }
    }

    /// Returns true when the result of a job is known, and counts it then.
    async fn is_settled(&self, id: &str) -> bool {
        let Some(answer) = self.way.send(&format!("/jobs/{id}"), None).await else {
            return false;
        };
        let state: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let is_lost = match (answer.status(), state["status"].as_str()) {
            (StatusCode::OK, Some("done")) => false,
            (StatusCode::OK, Some("failed")) | (StatusCode::NOT_FOUND, _) => true,
            _ => return false,
        };
        if let Some(jobs) = &mut self.tally.lock().jobs {
            jobs.lost += i64::from(is_lost);
            jobs.done += i64::from(!is_lost);
            jobs.repeated += i64::from(state["attempts"].as_i64() > Some(1));
        }
        true
    }
}

fn served(answer: &Response<Bytes>) -> Answer {
    Answer::Served(answer.status().as_u16())
}
