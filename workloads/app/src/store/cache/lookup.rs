//! Lookups of codes. Those that wait at the same time are one command.

use std::sync::Arc;

use redis::{RedisResult, Value};
use shortener_common::batcher::{Limits, Question};

use super::{
    channel::Channel,
    connection::Connection,
    keys::CacheKeys,
    promises::{garbage, understand},
};
use crate::store::Resolved;

/// The limits of lookups. So many codes keep a server busy for a fraction of a millisecond. A connection waits for one
/// lookup, and a replica with 2 GiB has room for fewer connections than may wait.
pub(super) const LIMITS: Limits = Limits {
    questions: 2,
    keys: 128,
    waiting: 16_384,
};

/// The question what the cache knows about codes.
pub(super) struct Codes(pub(super) Arc<Connection>);

impl Question for Codes {
    type Key = CacheKeys;
    type Answer = RedisResult<Option<Resolved>>;

    async fn ask(&self, codes: &[CacheKeys]) -> Vec<Self::Answer> {
        let answers = self.0.ask(async |channel| look_up(&channel, codes).await);
        match answers.await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); codes.len()],
        }
    }
}

/// Looks up these codes with one command. The client of a cluster divides it among the nodes.
pub(super) async fn look_up(
    channel: &Channel,
    codes: &[CacheKeys],
) -> RedisResult<Vec<Option<Resolved>>> {
    let mut command = redis::cmd("MGET");
    for keys in codes {
        command.arg(keys.link()).arg(keys.none());
    }
    let reply = command.query_async(&mut channel.clone()).await?;
    found(reply, codes.len())
}

/// Returns what a reply says about each of this many codes.
fn found(reply: Value, codes: usize) -> RedisResult<Vec<Option<Resolved>>> {
    let values: Vec<(Value, Value)> = redis::from_redis_value(reply)?;
    if values.len() != codes {
        return Err(garbage());
    }
    let known = values.into_iter().map(|(url, none)| understand(url, none));
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_about_fewer_or_more_codes_is_an_error() {
        let array = |number| Value::Array(vec![Value::Nil; number]);
        assert_eq!(found(array(4), 2).unwrap(), [None, None]);
        for bad in [
            Value::Nil,
            Value::Okay,
            Value::Int(1),
            array(0),
            array(3),
            array(5),
            Value::Array(vec![Value::Nil, Value::Nil, Value::Nil, Value::Int(1)]),
        ] {
            assert!(found(bad.clone(), 2).is_err(), "{bad:?}");
        }
    }
}
