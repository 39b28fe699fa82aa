//! The connection that all requests of a process share.

use std::{
    convert::Infallible,
    future::{Future, pending},
    num::NonZeroU64,
    sync::Arc,
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, ProtocolVersion, PushInfo, RedisError,
    RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
};
use shortener_common::budget::Share;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    channel::Channel,
    keys::{self, Keys},
    local_cache::{LEASE, LocalCache},
    lookup::{Answer, Lookups},
    refusal::is_refusal,
};

/// The maximum number of commands waiting to be sent. It is far above the usual number, so that no command waits
/// for a free slot. A command stays here although its request no longer waits for it.
const QUEUE: usize = 1024;

/// A multiplexed connection for all requests; cheap to clone.
#[derive(Clone)]
pub struct Connection {
    channel: Channel,
    /// The copies in this process that the server of this connection invalidates.
    near: Option<Arc<LocalCache>>,
    lookups: Arc<Lookups>,
}

impl Connection {
    /// Connects to one server. If `near` allows memory for copies in this process, client tracking is enabled; a server
    /// that refuses it, or that does not know the protocol for it, is used without copies.
    ///
    /// # Errors
    /// Fails if the server is unreachable or rejects the login.
    pub async fn to_server(
        client: &Client,
        deadline: Duration,
        near: Option<NonZeroU64>,
    ) -> RedisResult<Self> {
        let Some(bytes) = near else {
            return Self::plain(client, deadline).await;
        };
        let refusal = match Self::tracking(client, deadline, bytes).await {
            Err(error) if may_be_the_protocol(&error) => error,
            connected => return connected,
        };
        // A login that is refused is refused again.
        let connected = Self::plain(&without_pushes(client)?, deadline).await?;
        let reason = refusal.to_string();
        tracing::warn!(
            event = "near_memory_off",
            error.message = reason,
            "near_memory_off"
        );
        Ok(connected)
    }

    /// Connects to one server without copies in this process.
    async fn plain(client: &Client, deadline: Duration) -> RedisResult<Self> {
        let connection = client
            .get_multiplexed_async_connection_with_config(&settings(deadline))
            .await?;
        Ok(Self::over(Channel::Server(connection), None, deadline))
    }

    /// Connects to one server that invalidates copies in this process.
    async fn tracking(client: &Client, deadline: Duration, bytes: NonZeroU64) -> RedisResult<Self> {
        let near = Arc::new(LocalCache::new(bytes, LEASE));
        let told = Arc::clone(&near);
        let settings = settings(deadline).set_push_sender(move |push: PushInfo| {
            told.on_push(&push);
            Ok::<_, Infallible>(())
        });
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&settings)
            .await?;
        track(&mut connection).await?;
        Ok(Self::over(
            Channel::Server(connection),
            Some(near),
            deadline,
        ))
    }

    /// Connects to a cluster.
    ///
    /// # Errors
    /// Fails if no node is reachable, or if the nodes reject the login.
    pub async fn to_cluster(client: &ClusterClient, deadline: Duration) -> RedisResult<Self> {
        let channel = Channel::Cluster(client.get_async_connection().await?);
        Ok(Self::over(channel, None, deadline))
    }

    fn over(channel: Channel, near: Option<Arc<LocalCache>>, deadline: Duration) -> Self {
        let lookups = Lookups::new(channel.clone(), near.clone(), deadline);
        Self {
            channel,
            near,
            lookups: Arc::new(lookups),
        }
    }

    /// Starts a lookup, together with those that wait at the same time. The share is that of its memory.
    pub(super) fn look_up(&self, keys: Keys, share: Share) -> impl Future<Output = Answer> + use<> {
        self.lookups.start(keys, share)
    }

    /// Asks the server for any answer.
    ///
    /// # Errors
    /// Fails if the connection is broken, or if the server refuses the command.
    pub async fn ping(&mut self) -> RedisResult<()> {
        redis::cmd("PING").exec_async(self).await
    }

    /// Renews the lease of the copies in this process while they are used. Completes once an answer takes longer than the
    /// deadline or the connection is broken.
    pub async fn keep_lease(mut self, deadline: Duration) {
        let Some(near) = self.near.clone() else {
            return pending().await;
        };
        loop {
            near.until_used().await;
            let sent = Instant::now();
            match timeout(deadline, self.ping()).await {
                Ok(Ok(())) => near.renew(sent),
                Ok(Err(error)) if is_refusal(&error) => near.renew(sent),
                Ok(Err(_)) | Err(_) => return,
            }
            // So that the next answer arrives before the lease ends.
            sleep_until(sent + LEASE / 2).await;
        }
    }

    /// Returns the copies in this process.
    #[must_use]
    pub fn near(&self) -> Option<&Arc<LocalCache>> {
        self.near.as_ref()
    }
}

fn settings(deadline: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(deadline))
        // The breaker measures whole operations.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
}

/// Returns true if another server would accept the connection: this one refuses a command, or hangs up on it as some
/// proxies do.
fn may_be_the_protocol(error: &RedisError) -> bool {
    let hung_up = error.is_connection_dropped() && !error.is_connection_refusal();
    hung_up || is_refusal(error) || error.kind() == ErrorKind::RESP3NotSupported
}

/// Returns a client of the same server with the protocol in which a server never speaks unasked.
fn without_pushes(client: &Client) -> RedisResult<Client> {
    let info = client.get_connection_info().clone();
    let login = info.redis_settings().clone();
    let login = login.set_protocol(ProtocolVersion::RESP2);
    Client::open(info.set_redis_settings(login))
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
