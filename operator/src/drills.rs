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

use futures::{StreamExt, stream};
use kube::ResourceExt;
use parking_lot::Mutex;
use shortener_operator_core::{
    api::ShortenerDrill,
    model::metadata::StackKey,
    plan::drills::{is_over, phase, target},
};
use tokio_util::sync::CancellationToken;

use crate::{probes::end_to_end::Connect, reconcile::context::Context, workers};
use worker::Worker;

/// The state that all workers share.
struct Shared {
    context: Arc<Context>,
    connect: Connect,
    /// UIDs of the drills that this operator has completed or refused, while the watch does not show it.
    over: Mutex<HashMap<StackKey, HashSet<String>>>,
    stop: CancellationToken,
}

impl Shared {
    /// Returns the drills of a stack that are not over: the one that has begun, and the others by their age.
    fn open(&self, stack: &StackKey) -> Vec<Arc<ShortenerDrill>> {
        let mut drills = self.context.drills.of_stack(stack);
        drills.retain(|drill| !is_over(drill));
        if let Entry::Occupied(mut over) = self.over.lock().entry(stack.clone()) {
            let seen: HashSet<_> = drills.iter().filter_map(|drill| drill.uid()).collect();
            over.get_mut().retain(|uid| seen.contains(uid));
            drills.retain(|drill| drill.uid().is_none_or(|uid| !over.get().contains(&uid)));
            if over.get().is_empty() {
                over.remove();
            }
        }
        drills.sort_by_key(|drill| {
            let created = drill.metadata.creation_timestamp.as_ref();
            let age = created.map(|created| created.0);
            (phase(drill).is_none(), age, drill.name_any())
        });
        drills
    }

    /// Remembers that a drill is over, until the watch shows it.
    fn close(&self, drill: &ShortenerDrill) {
        let mut over = self.over.lock();
        over.entry(target(drill)).or_default().extend(drill.uid());
    }
}

/// Conducts the drills until `stop` is cancelled.
pub async fn run(context: Arc<Context>, connect: Connect, stop: CancellationToken) {
    let changed = context.drills.listen();
    let known = context.drills.stacks();
    let shared = Arc::new(Shared {
        context,
        connect,
        over: Mutex::default(),
        stop,
    });
    workers::run(
        stream::iter(known).chain(changed),
        &shared.stop,
        |stack| !shared.open(stack).is_empty(),
        |stack, news| Worker::new(shared.clone(), stack, news).work(),
    )
    .await;
}
