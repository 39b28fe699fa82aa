//! The channel to the cache: one server or a cluster.

use redis::{
    Cmd, Pipeline, RedisFuture, Value,
    aio::{ConnectionLike, ConnectionManager},
    cluster_async::ClusterConnection,
};

/// A channel that all requests share; cheap to clone. It replaces connections that broke by itself.
#[derive(Clone)]
pub enum Channel {
    /// A connection to one server.
    Server(ConnectionManager),
    /// Connections to the nodes of a cluster.
    Cluster(ClusterConnection),
}

impl Channel {
    fn client(&mut self) -> &mut (dyn ConnectionLike + Send) {
        match self {
            Self::Server(manager) => manager,
            Self::Cluster(connection) => connection,
        }
    }
}

impl ConnectionLike for Channel {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.client().req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.client().req_packed_commands(pipeline, offset, count)
    }

    /// Only subscriptions ask for the database.
    fn get_db(&self) -> i64 {
        0
    }
}
