//! Operations on dead letters over the management API.
//!
//! That API takes messages from the head of a queue only, and a response may get lost. A message that has to stay is
//! therefore published again before its original is taken. A failure at any point leaves a message twice at worst,
//! which the workers' ledger detects, and never loses one.

use std::collections::BTreeSet;

use shortener_operator_core::model::topology::{DEAD_LETTERS, JOBS};

use crate::rabbitmq::broker::{Broker, BrokerError, message::Message};

/// Number of dead letters that are read at once to find an id.
pub const SCAN: usize = 1000;
/// Number of dead letters that are processed at once.
const WINDOW: usize = 100;

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
            copy(broker, letter, chosen, operation).await?;
            swept.done += usize::from(chosen);
        }
        remove(broker, window, left).await?;
    }
    swept.missing.extend(wanted.into_iter().flatten());
    Ok(swept)
}

/// Publishes a dead letter that stays or is replayed; one that is deleted needs no copy.
async fn copy(
    broker: &Broker,
    letter: &Message,
    chosen: bool,
    operation: Operation,
) -> Result<(), BrokerError> {
    match (chosen, operation) {
        (false, _) => broker.publish(DEAD_LETTERS, &letter.for_requeue()).await,
        (true, Operation::Replay) => broker.publish(JOBS, &letter.for_replay()).await,
        (true, Operation::Drop) => Ok(()),
    }
}

/// Removes originals from the queue. Other messages may precede them if another client works on the same queue; these
/// are published again at the end.
async fn remove(
    broker: &Broker,
    mut originals: Vec<Message>,
    behind: usize,
) -> Result<(), BrokerError> {
    let mut remaining = behind + originals.len();
    while !originals.is_empty() && remaining > 0 {
        let taken = broker.take(DEAD_LETTERS, originals.len()).await?;
        if taken.is_empty() {
            break;
        }
        remaining = remaining.saturating_sub(taken.len());
        for letter in taken {
            match originals.iter().position(|known| same(known, &letter)) {
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
        remove(&fake.broker(), originals, 2).await.unwrap();
        assert_eq!(fake.ids(DEAD_LETTERS), ["m1"]);
    }
}
