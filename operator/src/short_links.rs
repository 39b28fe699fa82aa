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

use std::sync::Arc;

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
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    kubernetes::{
        beside_stacks::{Watched, watch},
        watch_report::Reports,
    },
    leadership::write_deadline::WriteDeadline,
    reconcile::context::{Context, covers},
    transport::Transport,
    workers,
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
    let changed = stream::select(changed, context.managers.listen());
    let shared = Arc::new(Shared {
        context,
        apps,
        scopes,
        links,
        permits: Semaphore::new(CONCURRENT),
        stop,
    });
    workers::run(
        changed,
        &shared.stop,
        |stack| !shared.of_stack(stack).is_empty(),
        |stack, news| Worker::new(shared.clone(), stack, news).work(),
    )
    .await;
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
