//! The controller of the ShortLinks: it keeps their links in the databases of the stacks, through the apps' management
//! ports.
//!
//! `operator/core/src/plan/short_links/` decides. Each stack with ShortLinks has a worker, which sends batches to one pod of
//! its app, deletions first. A link is claimed in the database before its ShortLink gets the finalizer, so one whose code
//! belongs to another never has a finalizer.

mod app;
mod ledger;
mod worker;
mod writes;

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use futures::{
    StreamExt,
    stream::{self, BoxStream, SelectAll},
};
use kube::runtime::reflector::Store;
use shortener_operator_core::{
    api::ShortLink,
    model::metadata::StackKey,
    plan::short_links::{names, target},
};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    kubernetes::{
        beside_stacks::{Watched, watch},
        watch_report::Reports,
    },
    leadership::write_deadline::WriteDeadline,
    reconcile::context::{Context, covers},
    transport::Transport,
};
pub use app::MAX_ANSWER;
use worker::Worker;

/// Maximum number of writes to ShortLinks at the same time.
const CONCURRENT: usize = 8;

/// The way to the apps. A leader that cannot renew its lease must not change links either.
#[derive(Clone)]
pub struct Apps {
    /// Reads at most [`MAX_ANSWER`] bytes.
    pub transport: Transport,
    pub write_deadline: WriteDeadline,
}

/// The state that all workers share.
struct Shared {
    context: Arc<Context>,
    apps: Apps,
    scopes: Vec<Option<String>>,
    /// ShortLinks of each scope.
    links: Vec<Store<ShortLink>>,
    /// Permits that limit concurrent writes to ShortLinks.
    permits: Semaphore,
    stop: CancellationToken,
}

impl Shared {
    /// Returns the ShortLinks of a stack.
    fn of_stack(&self, stack: &StackKey) -> Vec<Arc<ShortLink>> {
        let stores = self.links.iter();
        stores
            .flat_map(|links| links.state_filter(|link| names(link, stack)))
            .collect()
    }

    /// Returns true if a scope covers this namespace.
    fn watches(&self, namespace: &str) -> bool {
        let mut scopes = self.scopes.iter();
        scopes.any(|scope| covers(scope.as_deref(), namespace))
    }
}

/// Keeps the ShortLinks of these scopes until `stop` is cancelled. Requests in flight finish first.
pub async fn run(
    context: Arc<Context>,
    scopes: Vec<Option<String>>,
    apps: Apps,
    stop: CancellationToken,
) {
    let (links, changed) = watch_all(&context, &scopes);
    let mut due = stream::select(changed, context.managers.listen());
    let shared = Arc::new(Shared {
        context,
        apps,
        scopes,
        links,
        permits: Semaphore::new(CONCURRENT),
        stop,
    });
    let mut workers = Workers::default();
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

fn watch_all(
    context: &Context,
    scopes: &[Option<String>],
) -> (Vec<Store<ShortLink>>, BoxStream<'static, StackKey>) {
    let (mut stores, mut changed) = (Vec::new(), SelectAll::new());
    for namespace in scopes {
        let reports = Reports {
            metrics: &context.metrics,
            health: &context.health,
            namespace: namespace.as_deref(),
        };
        let Watched { store, stacks, .. } = watch(&context.client, reports, target);
        stores.push(store);
        changed.push(stacks);
    }
    (stores, changed.boxed())
}

/// The workers of the stacks that have ShortLinks.
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
            Entry::Vacant(free) if !shared.of_stack(free.key()).is_empty() => {
                let worker = Worker::new(shared.clone(), free.key().clone());
                free.insert(worker.news());
                self.running.spawn(worker.work());
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Removes a worker whose stack had no ShortLinks. There may be some again.
    fn ended(&mut self, shared: &Arc<Shared>, stack: StackKey) {
        self.news.remove(&stack);
        self.wake(shared, stack);
    }
}
