//! The connection that all requests of a process share.

use std::{convert::Infallible, num::NonZeroU64, sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, PushInfo, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
};

use super::{keys, near::Near};

/// Commands on their way to the connection; far more than wait at any time, so that none waits for a place.
const QUEUE: usize = 4096;

/// A connection that many requests use at the same time; cheap to clone.
#[derive(Clone)]
pub struct Connection {
    channel: Channel,
    /// What its server keeps true.
    near: Option<Arc<Near>>,
}

#[derive(Clone)]
enum Channel {
    /// To one server.
    Server(MultiplexedConnection),
    /// To each node of a cluster.
    Cluster(ClusterConnection),
}

impl Connection {
    /// Connects to one server, and has it tell of changes when copies in this process may take some bytes.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses the login, or does not tell of changes.
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
        let near = near.map(|bytes| Arc::new(Near::new(bytes)));
        if let Some(near) = near.clone() {
            config = config.set_push_sender(move |push: PushInfo| {
                near.hear(&push);
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
    /// When none of the nodes can be reached, or they refuse the login.
    pub async fn to_cluster(client: &ClusterClient) -> RedisResult<Self> {
        Ok(Self {
            channel: Channel::Cluster(client.get_async_connection().await?),
            near: None,
        })
    }

    /// The copies in this process.
    #[must_use]
    pub fn near(&self) -> Option<&Arc<Near>> {
        self.near.as_ref()
    }
}

/// Has the server tell of every change of a link. Told of those only that were read, it would have to remember them all,
/// codes that were guessed included, and that is memory which it lacks for copies.
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
