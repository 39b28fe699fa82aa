//! Lookups of codes. Those that wait at the same time are one command.
//!
//! The first lookup that waits starts a task. The other tasks of the runtime run before it, and then it asks for every
//! code that waits. Its deadline is that of all lookups in it, so none needs a timer of its own. A request that leaves
//! takes nothing from the others, and an error is told to each of them.

use std::{future::Future, sync::Arc, time::Duration};

use parking_lot::Mutex;
use redis::{Cmd, RedisResult, Value, aio::ConnectionLike};
use shortener_common::budget::Share;
use tokio::{sync::oneshot, task::yield_now, time::timeout};

use super::{
    Known,
    answer::{garbage, understand},
    channel::Channel,
    keys::Keys,
};

/// The maximum number of codes in one command, which keeps a server busy for a fraction of a millisecond.
const MOST: usize = 128;

/// The answer to a lookup; `None` if there was none in time.
pub(super) type Answer = Option<RedisResult<Option<Known>>>;

/// The lookups on one connection.
pub(super) struct Lookups {
    channel: Channel,
    /// The time limit of a command.
    deadline: Duration,
    /// The maximum number of codes in one command.
    most: usize,
    waiting: Mutex<Vec<Waiting>>,
}

/// A lookup that is not answered yet. Its memory is free once it is, even if its request left before.
struct Waiting {
    keys: Keys,
    answer: oneshot::Sender<RedisResult<Option<Known>>>,
    _share: Share,
}

impl Lookups {
    /// Returns the lookups on this channel. In a cluster each is a command of its own, because the codes are on several
    /// nodes.
    pub(super) fn new(channel: Channel, deadline: Duration) -> Self {
        let most = match channel {
            Channel::Server(_) => MOST,
            Channel::Cluster(_) => 1,
        };
        Self {
            channel,
            deadline,
            most,
            waiting: Mutex::default(),
        }
    }

    /// Starts a lookup, and returns its answer.
    pub(super) fn start(
        self: &Arc<Self>,
        keys: Keys,
        share: Share,
    ) -> impl Future<Output = Answer> + use<> {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        waiting.push(Waiting {
            keys,
            answer,
            _share: share,
        });
        let is_first = waiting.len() == 1;
        let is_full = waiting.len() == self.most;
        let all = is_full.then(|| std::mem::take(&mut *waiting));
        drop(waiting);
        if let Some(all) = all {
            tokio::spawn(Arc::clone(self).ask(all));
        } else if is_first {
            tokio::spawn(Arc::clone(self).ask_soon());
        }
        async move { answered.await.ok() }
    }

    async fn ask_soon(self: Arc<Self>) {
        // The tasks that are ready may have lookups as well.
        yield_now().await;
        let all = std::mem::take(&mut *self.waiting.lock());
        self.ask(all).await;
    }

    /// Asks for these codes, except those of requests that have left, and answers the requests.
    async fn ask(self: Arc<Self>, mut all: Vec<Waiting>) {
        all.retain(|lookup| !lookup.answer.is_closed());
        if all.is_empty() {
            return;
        }
        let command = both_of(all.iter().map(|lookup| &lookup.keys));
        let mut channel = self.channel.clone();
        let reply = timeout(self.deadline, command.query_async(&mut channel)).await;
        // Without an answer to it, a request knows that there was none in time.
        let Ok(reply) = reply else { return };
        match reply.and_then(|reply| values(reply, all.len())) {
            Ok(values) => {
                let mut values = values.into_iter();
                for lookup in all {
                    let mut value = || values.next().unwrap_or_default();
                    let _ = lookup.answer.send(understand(value(), value()));
                }
            }
            Err(error) => {
                for lookup in all {
                    let _ = lookup.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Looks up one code.
pub(super) async fn look_up(
    channel: &mut impl ConnectionLike,
    keys: &Keys,
) -> RedisResult<Option<Known>> {
    let reply = both_of(std::iter::once(keys)).query_async(channel).await?;
    let mut values = values(reply, 1)?.into_iter();
    let mut value = || values.next().unwrap_or_default();
    understand(value(), value())
}

/// Returns the command for both keys of each code.
fn both_of<'a>(codes: impl Iterator<Item = &'a Keys>) -> Cmd {
    let mut command = redis::cmd("MGET");
    for keys in codes {
        command.arg(keys.link()).arg(keys.none());
    }
    command
}

/// Returns the values in a reply about this many codes.
fn values(reply: Value, codes: usize) -> RedisResult<Vec<Value>> {
    match reply {
        Value::Array(values) if values.len() == 2 * codes => Ok(values),
        _ => Err(garbage()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_asks_for_both_keys_of_every_code() {
        let keys = ["a", "b"].map(|name| Keys::of(crate::code::Code::parse(name).unwrap()));
        let packed = both_of(keys.iter()).get_packed_command();
        let packed = String::from_utf8(packed).unwrap();
        let words: Vec<&str> = packed
            .lines()
            .filter(|line| !line.starts_with(['*', '$']))
            .collect();
        let expected = ["MGET", "link:a", "{link:a}:none", "link:b", "{link:b}:none"];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_reply_about_fewer_or_more_codes_is_an_error() {
        let array = |number| Value::Array(vec![Value::Nil; number]);
        assert_eq!(values(array(4), 2).unwrap().len(), 4);
        for bad in [
            Value::Nil,
            Value::Okay,
            Value::Int(1),
            array(0),
            array(3),
            array(5),
        ] {
            assert!(values(bad.clone(), 2).is_err(), "{bad:?}");
        }
    }
}
