//! One worker for each stack that has work.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use futures::{Stream, StreamExt};
use shortener_operator_core::model::metadata::StackKey;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Runs a worker for each stack that has work, until `stop` is cancelled and every worker has ended. Returns early if one
/// panics: that is a bug, and the process starts anew.
///
/// - `changed`: the stacks whose work may have changed. A running worker is notified.
/// - `has_work`: returns true if a stack needs a worker. Also called when its worker ends.
/// - `work`: a worker, which ends when its stack has no work, or when `stop` is cancelled.
pub async fn run<W>(
    mut changed: impl Stream<Item = StackKey> + Unpin,
    stop: &CancellationToken,
    has_work: impl Fn(&StackKey) -> bool,
    work: impl Fn(StackKey, Arc<Notify>) -> W,
) where
    W: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut news = HashMap::<StackKey, Arc<Notify>>::new();
    while !stop.is_cancelled() {
        let stack = tokio::select! {
            () = stop.cancelled() => break,
            Some(stack) = changed.next() => stack,
            Some(ended) = running.join_next() => {
                let Ok(stack) = ended else {
                    return;
                };
                news.remove(&stack);
                stack
            }
        };
        match news.entry(stack) {
            Entry::Occupied(news) => news.get().notify_one(),
            Entry::Vacant(free) if has_work(free.key()) => {
                let stack = free.key().clone();
                let news = free.insert(Arc::default()).clone();
                let worker = work(stack.clone(), news);
                running.spawn(async move {
                    worker.await;
                    stack
                });
            }
            Entry::Vacant(_) => {}
        }
    }
    while running.join_next().await.is_some() {}
}
