//! Lookups of codes. Those that wait at the same time are one command.

use std::time::Duration;

use futures::future::join_all;
use redis::{Cmd, RedisResult, Value, aio::ConnectionLike};
use shortener_common::batcher::{Limits, Question};
use tokio::time::timeout;

use super::{
    Known,
    answer::{garbage, understand},
    channel::Channel,
    keys::Keys,
};

/// The limits of lookups. So many codes keep a server busy for a fraction of a millisecond.
pub(super) const LIMITS: Limits = Limits {
    questions: 2,
    keys: 128,
    waiting: 2048,
};

/// The question what the cache knows about codes.
pub(super) struct Codes {
    pub(super) channel: Channel,
    /// The time limit of a command.
    pub(super) deadline: Duration,
}

impl Question for Codes {
    type Key = Keys;
    type Answer = RedisResult<Option<Known>>;

    /// Without an answer in time, there are none.
    async fn ask(&self, codes: &[Keys]) -> Vec<Self::Answer> {
        let answers = async {
            match &self.channel {
                Channel::Server(_) => together(self.channel.clone(), codes).await,
                // The codes are on several nodes.
                Channel::Cluster(_) => {
                    let each = codes
                        .iter()
                        .map(|keys| async { look_up(&mut self.channel.clone(), keys).await });
                    join_all(each).await
                }
            }
        };
        timeout(self.deadline, answers).await.unwrap_or_default()
    }
}

/// Looks up these codes with one command.
async fn together(mut channel: Channel, codes: &[Keys]) -> Vec<RedisResult<Option<Known>>> {
    let reply = both_of(codes.iter()).query_async(&mut channel).await;
    match reply.and_then(|reply| values(reply, codes.len())) {
        Ok(values) => {
            let mut values = values.into_iter();
            let mut value = || values.next().unwrap_or_default();
            let answers = codes.iter().map(|_| understand(value(), value()));
            answers.collect()
        }
        Err(error) => vec![Err(error); codes.len()],
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
