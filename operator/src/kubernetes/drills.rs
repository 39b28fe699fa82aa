//! The drills of all scopes, as the watches see them.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Client, ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use parking_lot::RwLock;
use shortener_operator_core::{
    api::{ShortenerDrill, ShortenerStack},
    model::{drill::ActiveDrill, metadata::StackKey},
    plan::drills,
};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{
    beside_stacks::{Watched, watch},
    watch_report::Reports,
};
use crate::registry::Registry;

/// Longest time for which a scope waits, at its start, for the list of the drills. An operator that cannot list them gives
/// back what an earlier one took away.
const LIST_LIMIT: Duration = Duration::from_secs(5);

/// The drills of all scopes.
#[derive(Default)]
pub struct Drills {
    known: RwLock<Vec<Store<ShortenerDrill>>>,
    news: Registry<()>,
}

impl Drills {
    /// Watches the drills of a scope until the handle is dropped. Returns when they are listed, or the cluster lacks the kind.
    pub async fn follow(
        self: &Arc<Self>,
        client: &Client,
        reports: Reports<'_>,
    ) -> AbortOnDropHandle<()> {
        let Watched {
            store,
            mut stacks,
            absent,
        } = watch(client, reports, drills::target);
        self.known.write().push(store.clone());
        let own = self.clone();
        let watching = tokio::spawn(async move {
            while let Some(stack) = stacks.next().await {
                own.tell(&stack);
            }
        });
        let listed = async {
            tokio::select! {
                _ = store.wait_until_ready() => {}
                () = absent.cancelled() => {}
            }
        };
        if timeout(LIST_LIMIT, listed).await.is_err() {
            tracing::warn!("the ShortenerDrills could not be listed, so none is active");
        }
        AbortOnDropHandle::new(watching)
    }

    /// Returns the drill of a stack that is active now.
    pub fn active(&self, stack: &ShortenerStack, now: jiff::Timestamp) -> Option<ActiveDrill> {
        let (namespace, name) = (stack.namespace().unwrap_or_default(), stack.name_any());
        let its = self.of_stack(&(namespace, name));
        drills::active(its.iter().map(|drill| &**drill), stack, now)
    }

    /// Returns every drill of a stack.
    pub fn of_stack(&self, stack: &StackKey) -> Vec<Arc<ShortenerDrill>> {
        let known = self.known.read();
        let its = |drill: &ShortenerDrill| drills::target(drill) == *stack;
        known
            .iter()
            .flat_map(|store| store.state_filter(its))
            .collect()
    }

    /// Returns this very drill as it is now; `None` if it is gone, or was created again.
    pub fn current(&self, drill: &ShortenerDrill) -> Option<Arc<ShortenerDrill>> {
        let known = self.known.read();
        let key = ObjectRef::from_obj(drill);
        let mut found = known.iter().filter_map(|store| store.get(&key));
        found.find(|found| found.metadata.uid == drill.metadata.uid)
    }

    /// Returns the stacks of all drills.
    pub fn stacks(&self) -> Vec<StackKey> {
        let known = self.known.read();
        let drills = known.iter().flat_map(Store::state);
        drills.map(|drill| drills::target(&drill)).collect()
    }

    /// Tells the listeners that the drills of a stack have changed, or that one has begun or ended.
    pub fn tell(&self, stack: &StackKey) {
        self.news.tell(stack);
    }

    /// Returns a stream of the stacks whose drills change.
    pub fn listen(&self) -> futures::channel::mpsc::UnboundedReceiver<StackKey> {
        self.news.listen()
    }
}
