//! Operations on dead letters over the management API.
//!
//! That API takes messages from the head of a queue only, and a response may get lost. A message that has to stay is
//! therefore published again before its original is taken. A failure at any point leaves a message twice at worst,
//! which the workers' ledger detects, and never loses one. A full queue drops its oldest message for each copy, which
//! is the original. Copies have the name of their operation, so that they are never taken for originals.

use std::collections::BTreeSet;

use shortener_operator_core::model::topology::{DEAD_LETTERS, JOBS};

use crate::rabbitmq::broker::{Broker, BrokerError, message::Message};

/// Number of dead letters that are read at once to find an id.
pub const SCAN: usize = 1000;
/// Number of dead letters that are processed at once.
const WINDOW: usize = 100;
/// Number of other messages that may precede the originals in the queue.
const STRANGERS: usize = 10;

/// A choice of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Every dead letter that is in the queue now.
    All,
    /// The dead letters with these ids.
    Ids(BTreeSet<String>),
}

/// The operation on the chosen dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Put them back into the job queue.
    Replay,
    /// Delete them.
    Drop,
}

/// The result of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationResult {
    /// Number of dead letters that were replayed or deleted.
    pub done: usize,
    /// Chosen ids without a dead letter.
    pub missing: Vec<String>,
}

/// Returns the oldest dead letters, which stay in their queue.
pub async fn first(broker: &Broker, limit: usize) -> Result<Vec<Message>, BrokerError> {
    broker.peek(DEAD_LETTERS, limit).await
}

/// Replays or deletes the chosen dead letters. The others keep their content but change their order.
pub async fn sweep(
    broker: &Broker,
    choice: Choice,
    operation: Operation,
) -> Result<OperationResult, BrokerError> {
    let present = first(broker, SCAN).await?;
    let mut left = present
        .last()
        .map_or(0, |last| present.len() + last.message_count);
    let mut swept = OperationResult::default();
    let mut wanted = match choice {
        Choice::All => None,
        Choice::Ids(ids) => {
            // If the queue has more dead letters than were read, the remaining ids may still turn up.
            let gone =
                |id: &String| left <= SCAN && !present.iter().any(|letter| letter.id() == Some(id));
            let (missing, wanted): (Vec<_>, Vec<_>) = ids.into_iter().partition(gone);
            swept.missing = missing;
            Some(BTreeSet::from_iter(wanted))
        }
    };
    let name = format!("{:016x}", rand::random::<u64>());
    while left > 0 && wanted.as_ref().is_none_or(|wanted| !wanted.is_empty()) {
        let window = first(broker, left.min(WINDOW)).await?;
        if window.is_empty() {
            break;
        }
        left -= window.len();
        for letter in &window {
            let chosen = match &mut wanted {
                None => true,
                Some(wanted) => letter.id().is_some_and(|id| wanted.remove(id)),
            };
            match (chosen, operation) {
                (false, _) => {
                    let copy = letter.for_requeue().copied_by(&name);
                    broker.publish(DEAD_LETTERS, &copy).await?;
                }
                (true, Operation::Replay) => broker.publish(JOBS, &letter.for_replay()).await?,
                (true, Operation::Drop) => {}
            }
            swept.done += usize::from(chosen);
        }
        remove(broker, window, &name).await?;
    }
    swept.missing.extend(wanted.into_iter().flatten());
    Ok(swept)
}

/// Removes the originals of an operation from the queue. Other messages may precede them if another client works on the
/// same queue; these are published again at the end.
async fn remove(
    broker: &Broker,
    mut originals: Vec<Message>,
    operation: &str,
) -> Result<(), BrokerError> {
    let place = |originals: &[Message], letter: &Message| {
        let known = originals.iter().position(|known| same(known, letter));
        known.filter(|_| !letter.is_copy_by(operation))
    };
    while !originals.is_empty() {
        let head = first(broker, originals.len() + STRANGERS).await?;
        let last = head
            .iter()
            .rposition(|letter| place(&originals, letter).is_some());
        // A full queue has dropped the rest.
        let Some(last) = last else { break };
        for letter in broker.take(DEAD_LETTERS, last + 1).await? {
            match place(&originals, &letter) {
                Some(place) => {
                    originals.swap_remove(place);
                }
                None => broker.publish(DEAD_LETTERS, &letter.for_requeue()).await?,
            }
        }
    }
    Ok(())
}

fn same(one: &Message, other: &Message) -> bool {
    one.id() == other.id() && one.payload == other.payload
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::broker::FakeBroker;

    fn letter(id: &str) -> Message {
        serde_json::from_value(json!({
            "properties": {"message_id": id, "headers": {
                "traceparent": "00-abc", "x-delivery-count": 3,
                "x-death": [{"reason": "rejected"}], "x-first-death-reason": "rejected",
            }},
            "payload": "{}", "payload_encoding": "string",
        }))
        .unwrap()
    }

    fn with_letters(count: usize) -> FakeBroker {
        let fake = FakeBroker::default();
        fake.fill(
            DEAD_LETTERS,
            (0..count).map(|number| letter(&format!("m{number}"))),
        );
        fake
    }

    fn ids(ids: &[&str]) -> Choice {
        Choice::Ids(ids.iter().map(|&id| id.to_owned()).collect())
    }

    #[tokio::test]
    async fn a_replayed_job_keeps_its_id_and_trace_and_the_others_stay() {
        let fake = with_letters(5);
        let swept = sweep(&fake.broker(), ids(&["m1", "m3"]), Operation::Replay)
            .await
            .unwrap();
        assert_eq!((swept.done, swept.missing.len()), (2, 0));
        assert_eq!(fake.ids(JOBS), ["m1", "m3"]);
        let job = &fake.messages(JOBS)[0];
        assert_eq!(
            job.properties.0["headers"],
            json!({"traceparent": "00-abc"})
        );
        let mut stayed = fake.ids(DEAD_LETTERS);
        stayed.sort();
        assert_eq!(stayed, ["m0", "m2", "m4"]);
        let reasons = fake.messages(DEAD_LETTERS);
        assert!(
            reasons
                .iter()
                .all(|letter| letter.reason() == Some("rejected"))
        );
    }

    #[tokio::test]
    async fn all_dead_letters_are_replayed_in_their_order_over_several_windows() {
        let fake = with_letters(250);
        let swept = sweep(&fake.broker(), Choice::All, Operation::Replay)
            .await
            .unwrap();
        assert_eq!(swept.done, 250);
        assert_eq!(fake.ids(DEAD_LETTERS), Vec::<String>::new());
        let expected: Vec<String> = (0..250).map(|number| format!("m{number}")).collect();
        assert_eq!(fake.ids(JOBS), expected);
    }

    #[tokio::test]
    async fn dropped_dead_letters_are_gone() {
        let fake = with_letters(3);
        let swept = sweep(&fake.broker(), ids(&["m2"]), Operation::Drop)
            .await
            .unwrap();
        assert_eq!(swept.done, 1);
        assert_eq!(fake.ids(JOBS), Vec::<String>::new());
        let mut stayed = fake.ids(DEAD_LETTERS);
        stayed.sort();
        assert_eq!(stayed, ["m0", "m1"]);
    }

    #[tokio::test]
    async fn an_unknown_id_changes_nothing() {
        let fake = with_letters(3);
        let swept = sweep(&fake.broker(), ids(&["m9"]), Operation::Drop)
            .await
            .unwrap();
        assert_eq!((swept.done, swept.missing), (0, vec!["m9".to_owned()]));
        assert_eq!(fake.changes(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_full_queue_of_dead_letters_loses_only_the_one_that_was_named() {
        for count in [3, 150, 250] {
            let fake = with_letters(count);
            fake.bound(DEAD_LETTERS, count);
            let named = format!("m{}", count - 1);
            let broker = fake.broker();
            let swept = sweep(&broker, ids(&[&named]), Operation::Drop);
            assert_eq!(swept.await.unwrap().done, 1);
            let stayed: BTreeSet<String> = fake.ids(DEAD_LETTERS).into_iter().collect();
            assert_eq!(stayed.len(), count - 1, "of {count}");
            assert!(!stayed.contains(&named));
        }
    }

    #[tokio::test]
    async fn a_full_queue_leaves_every_dead_letter_in_its_place() {
        let fake = with_letters(3);
        fake.refuse_messages();
        let error = sweep(&fake.broker(), Choice::All, Operation::Replay)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("Check queue limits"), "{error}");
        assert_eq!(fake.ids(DEAD_LETTERS), ["m0", "m1", "m2"]);
    }

    #[tokio::test]
    async fn a_stranger_before_the_originals_goes_to_the_end() {
        let fake = with_letters(2);
        let originals = first(&fake.broker(), 1).await.unwrap();
        // Another client has moved the first message to the end, so a different one is at the head.
        fake.broker().take(DEAD_LETTERS, 1).await.unwrap();
        fake.fill(DEAD_LETTERS, originals.clone());
        remove(&fake.broker(), originals, "test").await.unwrap();
        assert_eq!(fake.ids(DEAD_LETTERS), ["m1"]);
    }
}
