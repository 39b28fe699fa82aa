//! The operator's controller against the API server in memory, in virtual time.
//!
//! The clock is paused and jumps ahead whenever every task waits, so an hour of rest costs nothing and no test depends
//! on the speed of the machine.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    api_server::{Effect, FakeApiServer},
    stack::{settings, stored_stack},
};
use crate::{api::ShortenerStack, context::Context, controller, metrics::Metrics};

/// Namespace of every stack of the tests.
pub const NAMESPACE: &str = "links";

/// A running operator and the server that it talks to.
pub struct World {
    /// The server.
    pub server: FakeApiServer,
    stop: CancellationToken,
    controller: JoinHandle<()>,
}

impl World {
    /// Starts the operator against what a server holds.
    pub fn start(server: FakeApiServer) -> Self {
        let stop = CancellationToken::new();
        let context = Context::new(server.client(), settings(), Metrics::new().unwrap());
        let controller = tokio::spawn(controller::run(Arc::new(context), None, stop.clone()));
        Self {
            server,
            stop,
            controller,
        }
    }

    /// Starts the operator, creates the stack `acme` and waits until it is built.
    pub async fn with_stack(spec: serde_json::Value) -> Self {
        let world = Self::start(FakeApiServer::default());
        world.server.create(&stored_stack(spec));
        world.settle().await;
        world.server.forget_writes();
        world
    }

    /// Lets everything happen that is due: a reconcile that meets its deadline and its retry included.
    pub async fn settle(&self) {
        self.pass(Duration::from_secs(60)).await;
    }

    /// Lets virtual time pass.
    pub async fn pass(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Ends the operator like a crash and starts a new one, which remembers nothing.
    pub async fn restart(self) -> Self {
        self.controller.abort();
        let _ = self.controller.await;
        Self::start(self.server)
    }

    /// Asks the operator to end and waits until it has.
    pub async fn end(self) {
        self.stop.cancel();
        self.controller.await.unwrap();
    }

    /// The live stack.
    pub fn stack(&self, name: &str) -> ShortenerStack {
        self.server.get(NAMESPACE, name).unwrap()
    }

    /// A condition of the live stack.
    pub fn condition(&self, name: &str, type_: &str) -> Condition {
        let status = self.stack(name).status.unwrap_or_default();
        let found = status
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == type_);
        found.unwrap_or_else(|| panic!("stack {name} has no condition {type_}"))
    }

    /// Edits the spec of a stack like a user.
    pub fn edit_spec(&self, name: &str, edit: impl FnOnce(&mut serde_json::Value)) {
        self.server
            .edit::<ShortenerStack>(NAMESPACE, name, |stack| edit(&mut stack["spec"]));
    }

    /// Paths of the writes to children that changed something, without status and Events.
    pub fn child_writes(&self) -> Vec<String> {
        let writes = self.server.writes().into_iter();
        writes
            .filter(|write| !write.path.ends_with("/status") && !write.path.contains("/events"))
            .filter(|write| write.effect != Some(Effect::Unchanged))
            .map(|write| write.path)
            .collect()
    }

    /// Every child as `plural/name`.
    pub fn children(&self) -> Vec<String> {
        let mut names = self.server.names();
        names.retain(|name| !name.starts_with("shortenerstacks/") && !name.starts_with("events/"));
        names
    }

    /// How many objects were created, Events apart.
    pub fn creations(&self) -> usize {
        let created = |write: &&super::api_server::Write| {
            write.effect == Some(Effect::Created) && !write.path.contains("/events")
        };
        self.server.writes().iter().filter(created).count()
    }

    /// The uid of a live object.
    pub fn uid<K>(&self, name: &str) -> Option<String>
    where
        K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned,
    {
        self.server.get::<K>(NAMESPACE, name)?.uid()
    }
}
