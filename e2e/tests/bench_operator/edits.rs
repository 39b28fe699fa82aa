//! The time from an edit of a stack to its changed children.

use std::{cell::Cell, collections::BTreeSet, pin::pin, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{Stream, StreamExt};
use k8s_openapi::api::networking::v1::Ingress;
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::json;
use shortener_e2e::Stack;
use tokio::time::{Instant, sleep, timeout};

use crate::wave::{CHILDREN, INGRESSES, Wave};

pub(crate) const EDITS: usize = 200;
/// The pause after an edit. The status is written meanwhile, so that each edit finds the operator at rest.
const PAUSE: Duration = Duration::from_millis(500);
/// The time for one edit.
const LONGEST: Duration = Duration::from_secs(30);
/// The annotation that is edited. It is on both Ingresses of a stack, and no controller reads it.
const ANNOTATION: &str = "bench.example.com/edit";

/// A change of an Ingress.
type Change = Result<Event<PartialObjectMeta<Ingress>>, watcher::Error>;

/// The times of the edits, in ascending order.
pub(crate) struct Latencies {
    /// From sending an edit to seeing its last changed child.
    pub(crate) changed: Vec<Duration>,
    /// From sending an edit to the answer of the API server.
    pub(crate) answered: Vec<Duration>,
}

/// Edits stacks one after another, each once if there are enough, and counts the edits.
pub(crate) async fn edit(
    client: &Client,
    wave: &Wave<'_>,
    done: &Cell<usize>,
) -> Result<Latencies> {
    let ingresses = Api::<PartialObjectMeta<Ingress>>::all(client.clone());
    let config = watcher::Config::default().labels(CHILDREN);
    let mut changes = pin!(watcher(ingresses, config).default_backoff());
    let listed = timeout(LONGEST, async {
        while !matches!(next(&mut changes).await?, Event::InitDone) {}
        anyhow::Ok(())
    });
    listed.await.context("the Ingresses are not listed")??;
    let (mut changed, mut answered) = (Vec::new(), Vec::new());
    for number in 0..EDITS {
        let stack = wave.stack(number % wave.stacks);
        let value = number.to_string();
        let begin = Instant::now();
        stack
            .edit(json!({"gateway": {"annotations": {ANNOTATION: value}}}))
            .await?;
        answered.push(begin.elapsed());
        timeout(LONGEST, seen(&mut changes, &stack, &value))
            .await
            .with_context(|| format!("edit {number} of {} changes nothing", stack.name))??;
        changed.push(begin.elapsed());
        done.set(number + 1);
        sleep(PAUSE).await;
    }
    changed.sort_unstable();
    answered.sort_unstable();
    Ok(Latencies { changed, answered })
}

/// Waits until all Ingresses of a stack have the value.
async fn seen(
    changes: &mut (impl Stream<Item = Change> + Unpin),
    stack: &Stack,
    value: &str,
) -> Result<()> {
    let mut names = BTreeSet::new();
    while names.len() < INGRESSES {
        let (Event::Apply(ingress) | Event::InitApply(ingress)) = next(changes).await? else {
            continue;
        };
        let ours = ingress.namespace().as_deref() == Some(stack.namespace.as_str())
            && ingress.name_any().starts_with(&stack.name);
        let edited = ingress.annotations().get(ANNOTATION).map(String::as_str) == Some(value);
        if ours && edited {
            names.insert(ingress.name_any());
        }
    }
    Ok(())
}

async fn next(
    changes: &mut (impl Stream<Item = Change> + Unpin),
) -> Result<Event<PartialObjectMeta<Ingress>>> {
    loop {
        match changes.next().await {
            Some(Ok(event)) => return Ok(event),
            // It goes on by itself.
            Some(Err(error)) => eprintln!("    the watch was interrupted: {error}"),
            None => bail!("the watch of the Ingresses has ended"),
        }
    }
}

/// Returns the value below which so many of a hundred sorted values are; zero without any.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent).div_ceil(100);
    let value = sorted.get(place.saturating_sub(1));
    value.copied().unwrap_or_default()
}
