//! The controller of the drills: it decides which begin, sends requests through the gateways meanwhile, and reports.
//!
//! `operator/core/src/plan/drills/` decides. All that a drill needs is in its status, so another replica continues it. The
//! store is taken away and given back by the reconciles of its stack, which need nothing from here.

mod prober;
mod worker;
mod writes;

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use futures::StreamExt;
use kube::ResourceExt;
use parking_lot::Mutex;
use shortener_operator_core::{
    api::ShortenerDrill,
    model::metadata::StackKey,
    plan::drills::{is_over, phase},
};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{probes::end_to_end::Connect, reconcile::context::Context};
use worker::Worker;

/// The state that all workers share.
struct Shared {
    context: Arc<Context>,
    connect: Connect,
    /// Identifiers of the drills that this operator has completed or refused. The watch may not show it yet.
    over: Mutex<HashSet<String>>,
    stop: CancellationToken,
}

impl Shared {
    /// Returns the drills of a stack that are not over: the one that has begun, and the others by their age.
    fn open(&self, stack: &StackKey) -> Vec<Arc<ShortenerDrill>> {
        let over = self.over.lock();
        let mut drills = self.context.drills.of_stack(stack);
        drills.retain(|drill| !is_over(drill) && !over.contains(&drill.uid().unwrap_or_default()));
        drills.sort_by_key(|drill| {
            let created = drill.metadata.creation_timestamp.as_ref();
            let age = created.map(|created| created.0);
            (phase(drill).is_none(), age, drill.name_any())
        });
        drills
    }

    /// Remembers that a drill is over.
    fn close(&self, drill: &ShortenerDrill) {
        self.over.lock().extend(drill.uid());
    }
}

/// Conducts the drills until `stop` is cancelled.
pub async fn run(context: Arc<Context>, connect: Connect, stop: CancellationToken) {
    let mut due = context.drills.listen();
    let known = context.drills.stacks();
    let shared = Arc::new(Shared {
        context,
        connect,
        over: Mutex::default(),
        stop,
    });
    let mut workers = Workers::default();
    for stack in known {
        workers.wake(&shared, stack);
    }
    while !shared.stop.is_cancelled() {
        tokio::select! {
            () = shared.stop.cancelled() => {}
            Some(stack) = due.next() => workers.wake(&shared, stack),
            Some(ended) = workers.running.join_next() => match ended {
                Ok(stack) => workers.ended(&shared, stack),
                // A bug. The process starts anew.
                Err(_) => return,
            },
        }
    }
    while workers.running.join_next().await.is_some() {}
}

/// The workers of the stacks that have drills which are not over.
#[derive(Default)]
struct Workers {
    running: JoinSet<StackKey>,
    news: HashMap<StackKey, Arc<Notify>>,
}

impl Workers {
    /// Tells the worker of a stack that something has changed. Starts it if there is none.
    fn wake(&mut self, shared: &Arc<Shared>, stack: StackKey) {
        match self.news.entry(stack) {
            Entry::Occupied(news) => news.get().notify_one(),
            Entry::Vacant(free) if !shared.open(free.key()).is_empty() => {
                let news = Arc::<Notify>::default();
                let worker = Worker::new(shared.clone(), free.key().clone(), news.clone());
                free.insert(news);
                self.running.spawn(worker.work());
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Removes a worker whose stack had no open drill. There may be one again.
    fn ended(&mut self, shared: &Arc<Shared>, stack: StackKey) {
        self.news.remove(&stack);
        self.wake(shared, stack);
    }
}
