//! The connection that all requests of a process share.

use std::{sync::Arc, time::Duration};

use prometheus_client::metrics::gauge::Gauge;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, RedisFuture, RedisResult, Value,
    aio::ConnectionLike, cluster::ClusterClient,
};
use shortener_common::batcher::Batcher;

use super::{
    channel::Channel,
    lookup::{Codes, LIMITS},
};

/// The maximum number of commands waiting to be sent. It is far above the usual number, so that no command waits
/// for a free slot. A command stays here although its request no longer waits for it.
const QUEUE: usize = 1024;

/// A multiplexed connection for all requests; cheap to clone.
#[derive(Clone)]
pub struct Connection {
    channel: Channel,
    pub(super) lookups: Arc<Batcher<Codes>>,
}

impl Connection {
    /// Connects to one server.
    ///
    /// # Errors
    /// Fails if the server is unreachable or rejects the login.
    pub async fn to_server(client: &Client, deadline: Duration) -> RedisResult<Self> {
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(deadline))
            // The breaker measures whole operations.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let connection = client
            .get_multiplexed_async_connection_with_config(&settings)
            .await?;
        Ok(Self::over(Channel::Server(connection), deadline))
    }

    /// Connects to a cluster.
    ///
    /// # Errors
    /// Fails if no node is reachable, or if the nodes reject the login.
    pub async fn to_cluster(client: &ClusterClient, deadline: Duration) -> RedisResult<Self> {
        let channel = Channel::Cluster(client.get_async_connection().await?);
        Ok(Self::over(channel, deadline))
    }

    fn over(channel: Channel, deadline: Duration) -> Self {
        let codes = Codes {
            channel: channel.clone(),
            deadline,
        };
        // How many wait is no metric of the cache.
        let lookups = Batcher::new(codes, LIMITS, Gauge::default());
        Self {
            channel,
            lookups: Arc::new(lookups),
        }
    }

    /// Asks the server for any answer.
    ///
    /// # Errors
    /// Fails if the connection is broken, or if the server refuses the command.
    pub async fn ping(&mut self) -> RedisResult<()> {
        redis::cmd("PING").exec_async(self).await
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.channel.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.channel.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.channel.get_db()
    }
}
