//! The history of a number of pods: every change of an object's spec, as a watch shows it.

use std::{pin::pin, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use shortener_operator_core::model::metadata::APPLIED_HASH;
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::harness::{PATIENCE, Stack};

/// A number in the spec of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// The generation of the object. The API server raises it by 1 with each change of the spec, and with each of the
    /// annotations of a Deployment.
    generation: i64,
    number: i64,
    /// The annotation that the operator writes on its children.
    applied: Option<String>,
}

/// The numbers that the spec of an object had, from the moment on at which it is watched.
pub struct History {
    /// Name of the number in error messages.
    title: String,
    seen: watch::Receiver<Vec<Step>>,
    /// The watch ends with the history.
    _watch: JoinSet<()>,
}

impl History {
    /// Watches the number of workers that the spec of a stack asks for, which its scale subresource sets.
    pub fn of_workers_asked_for(stack: &Stack) -> Self {
        let title = "spec.workers.replicas of the stack".to_owned();
        Self::of(title, stack.api.clone(), &stack.name, "/workers/replicas")
    }

    /// Watches the number of pods of the Deployment of a component.
    pub fn of_pods(stack: &Stack, component: &str) -> Self {
        let kind = ApiResource::erase::<Deployment>(&());
        let api = Api::namespaced_with(stack.client.clone(), &stack.namespace, &kind);
        let name = format!("{}-{component}", stack.name);
        Self::of(
            format!("replicas of Deployment {name}"),
            api,
            &name,
            "/replicas",
        )
    }

    fn of(title: String, api: Api<DynamicObject>, name: &str, path: &'static str) -> Self {
        let (sender, seen) = watch::channel(Vec::new());
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut watch = JoinSet::new();
        watch.spawn(follow(api, only, path, Arc::new(sender)));
        Self {
            title,
            seen,
            _watch: watch,
        }
    }

    /// Waits until the number is this one.
    pub async fn until(&mut self, number: i64) -> Result<()> {
        let is_it = |steps: &Vec<Step>| steps.last().is_some_and(|step| step.number == number);
        let found = timeout(PATIENCE, self.seen.wait_for(is_it))
            .await
            .map(|found| found.map(|_| ()));
        match found {
            Ok(found) => Ok(found?),
            Err(_) => bail!(
                "{} did not become {number} within {} s: {:?}",
                self.title,
                PATIENCE.as_secs(),
                self.seen.borrow()
            ),
        }
    }

    /// Returns every number, the oldest first.
    ///
    /// # Errors
    /// A change of the spec was not seen, or was one of another field.
    pub fn numbers(&self) -> Result<Vec<i64>> {
        let steps = self.seen.borrow();
        numbers(&steps).with_context(|| format!("{}: {steps:?}", self.title))
    }
}

async fn follow(
    api: Api<DynamicObject>,
    only: watcher::Config,
    path: &'static str,
    steps: Arc<watch::Sender<Vec<Step>>>,
) {
    let events = watcher(api, only).default_backoff();
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(object) | Event::InitApply(object)) = event else {
            // The watch is opened again where it was interrupted.
            continue;
        };
        let number = object.data["spec"].pointer(path);
        if let (Some(generation), Some(number)) = (
            object.metadata.generation,
            number.and_then(serde_json::Value::as_i64),
        ) {
            let applied = object.annotations().get(APPLIED_HASH).cloned();
            steps.send_modify(|seen| {
                seen.push(Step {
                    generation,
                    number,
                    applied,
                });
            });
        }
    }
}

fn numbers(steps: &[Step]) -> Result<Vec<i64>> {
    let first = steps.first().context("the object was not seen")?;
    let mut numbers = vec![first.number];
    for pair in steps.windows(2) {
        let [before, after] = [&pair[0], &pair[1]];
        let edits = after.generation - before.generation;
        let changed = after.number != before.number;
        let written = after.applied != before.applied;
        ensure!(
            edits == i64::from(changed || written),
            "of {before:?} and {after:?} not every difference is one of this number"
        );
        if changed {
            numbers.push(after.number);
        }
    }
    Ok(numbers)
}

/// Returns true when numbers rise and then fall: nothing changes them back and forth.
pub fn is_one_wave(numbers: &[i64]) -> bool {
    let rising = numbers.windows(2).take_while(|pair| pair[0] <= pair[1]);
    numbers[rising.count()..].is_sorted_by(|before, after| before >= after)
}

/// Returns true when the numbers of `some` are among those of `all`, in the same order.
pub fn is_part_of(some: &[i64], all: &[i64]) -> bool {
    let mut all = all.iter();
    some.iter().all(|number| all.any(|one| one == number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(generation: i64, number: i64, applied: Option<&str>) -> Step {
        let applied = applied.map(str::to_owned);
        Step {
            generation,
            number,
            applied,
        }
    }

    fn steps(steps: &[(i64, i64)]) -> Vec<Step> {
        let steps = steps.iter();
        steps
            .map(|&(generation, number)| step(generation, number, None))
            .collect()
    }

    #[test]
    fn every_edit_of_a_spec_has_to_be_one_of_its_number() {
        let found = numbers(&steps(&[(4, 1), (4, 1), (5, 3), (6, 1)]));
        assert_eq!(found.ok(), Some(vec![1, 3, 1]));
        for hidden in [
            &[] as &[_],
            // Another field.
            &[(4, 1), (5, 1)],
            // To and back again, unseen.
            &[(4, 1), (6, 1)],
            &[(4, 1), (6, 3)],
        ] {
            assert!(numbers(&steps(hidden)).is_err(), "{hidden:?}");
        }
    }

    #[test]
    fn what_the_operator_writes_on_a_deployment_is_an_edit_too() {
        let found = numbers(&[
            step(1, 1, Some("a")),
            step(2, 2, Some("a")),
            step(3, 2, Some("b")),
            step(4, 1, Some("c")),
        ]);
        assert_eq!(found.ok(), Some(vec![1, 2, 1]));
    }

    #[test]
    fn a_wave_does_not_rise_again() {
        for (numbers, expected) in [
            (&[] as &[_], true),
            (&[0], true),
            (&[0, 1, 3, 2, 0], true),
            (&[3, 0], true),
            (&[0, 1, 0, 1], false),
            (&[1, 0, 1], false),
            (&[0, 3, 2, 3, 0], false),
        ] {
            assert_eq!(is_one_wave(numbers), expected, "{numbers:?}");
        }
    }

    #[test]
    fn what_follows_may_skip_numbers_and_has_none_of_its_own() {
        let asked = [1, 0, 1, 3, 2, 0];
        assert!(is_part_of(&[1, 0, 3, 0], &asked));
        assert!(!is_part_of(&[1, 0, 2, 3], &asked));
        assert!(!is_part_of(&[1, 4], &asked));
    }
}
