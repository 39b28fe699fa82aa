//! Lookups of codes. Those that wait at the same time share their commands.

use std::sync::Arc;

use redis::{RedisResult, Value};
use shortener_common::batcher::{Limits, Question};

use super::{
    channel::Channel,
    connection::Connection,
    keys::CacheKeys,
    promises::{destination, garbage, without_destination},
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

/// Looks up these codes: their destinations, and then the entries of those that have none. So the server counts no miss
/// for a hit.
pub(super) async fn look_up(
    channel: &Channel,
    codes: &[CacheKeys],
) -> RedisResult<Vec<Option<Resolved>>> {
    let urls = values(channel, codes.iter().map(CacheKeys::link).collect()).await?;
    let absent = codes
        .iter()
        .zip(&urls)
        .filter(|(_, url)| **url == Value::Nil);
    let others = absent.flat_map(|(keys, _)| [keys.template(), keys.none()]);
    let mut others = values(channel, others.collect()).await?.into_iter();
    let mut next = || others.next().ok_or_else(garbage);
    let known = urls.into_iter().map(|url| match url {
        Value::Nil => without_destination(next()?, &next()?),
        url => destination(url),
    });
    known.collect()
}

/// Returns the values of these keys with one command. The client of a cluster divides it among the nodes.
async fn values(channel: &Channel, keys: Vec<String>) -> RedisResult<Vec<Value>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = redis::cmd("MGET");
    let reply = command.arg(&keys).query_async(&mut channel.clone()).await?;
    found(reply, keys.len())
}

/// Returns the values in a reply about this many keys.
fn found(reply: Value, keys: usize) -> RedisResult<Vec<Value>> {
    match reply {
        Value::Array(values) if values.len() == keys => Ok(values),
        _ => Err(garbage()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_about_fewer_or_more_keys_is_an_error() {
        let array = |number| Value::Array(vec![Value::Nil; number]);
        assert_eq!(found(array(2), 2).unwrap(), [Value::Nil, Value::Nil]);
        for bad in [
            Value::Nil,
            Value::Okay,
            Value::Int(1),
            array(0),
            array(1),
            array(3),
        ] {
            assert!(found(bad.clone(), 2).is_err(), "{bad:?}");
        }
    }
}
