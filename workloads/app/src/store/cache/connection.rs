//! The connection that all requests of a process share.

use std::{convert::Infallible, num::NonZeroU64, sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, PushInfo, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
};

use super::{keys, local_cache::LocalCache};

/// The maximum number of commands waiting to be sent. It is far above the usual number, so that no command waits
/// for a free slot.
const QUEUE: usize = 4096;

/// A multiplexed connection for all requests; cheap to clone.
#[derive(Clone)]
pub struct Connection {
    channel: Channel,
    /// The copies in this process that the server of this connection invalidates.
    near: Option<Arc<LocalCache>>,
}

#[derive(Clone)]
enum Channel {
    /// A connection to one server.
    Server(MultiplexedConnection),
    /// Connections to the nodes of a cluster.
    Cluster(ClusterConnection),
}

impl Connection {
    /// Connects to one server. If `near` allows memory for copies in this process, client tracking is enabled.
    ///
    /// # Errors
    /// Fails if the server is unreachable, rejects the login, or does not support client tracking.
    pub async fn to_server(
        client: &Client,
        deadline: Duration,
        near: Option<NonZeroU64>,
    ) -> RedisResult<Self> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(deadline))
            // The breaker measures whole operations.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let near = near.map(|bytes| Arc::new(LocalCache::new(bytes)));
        if let Some(near) = near.clone() {
            config = config.set_push_sender(move |push: PushInfo| {
                near.on_push(&push);
                Ok::<_, Infallible>(())
            });
        }
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        if near.is_some() {
            track(&mut connection).await?;
        }
        Ok(Self {
            channel: Channel::Server(connection),
            near,
        })
    }

    /// Connects to a cluster.
    ///
    /// # Errors
    /// Fails if no node is reachable, or if the nodes reject the login.
    pub async fn to_cluster(client: &ClusterClient) -> RedisResult<Self> {
        Ok(Self {
            channel: Channel::Cluster(client.get_async_connection().await?),
            near: None,
        })
    }

    /// Returns the copies in this process.
    #[must_use]
    pub fn near(&self) -> Option<&Arc<LocalCache>> {
        self.near.as_ref()
    }
}

/// Enables client tracking in broadcasting mode. In the default mode the server would remember every key that was
/// read, including guessed codes, and that memory would be lost for entries.
async fn track(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let mut command = redis::cmd("CLIENT");
    command.arg(&["TRACKING", "ON", "BCAST", "PREFIX", keys::PREFIX]);
    command.exec_async(connection).await
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match &mut self.channel {
            Channel::Server(connection) => connection.req_packed_command(command),
            Channel::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match &mut self.channel {
            Channel::Server(connection) => connection.req_packed_commands(pipeline, offset, count),
            Channel::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match &self.channel {
            Channel::Server(connection) => connection.get_db(),
            Channel::Cluster(connection) => connection.get_db(),
        }
    }
}
