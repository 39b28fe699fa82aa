//! The operator's controller against the in-memory API server, in virtual time.
//!
//! The clock is paused and jumps ahead whenever every task waits, so an idle hour costs nothing and no test depends
//! on the speed of the machine.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use shortener_operator_core::{api::ShortenerStack, model::metadata::CONFIG_CHECKSUM};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    api_server::{Effect, FakeApiServer},
    app::FakeApp,
    broker::FakeBroker,
    settings,
    shared::stored_stack,
};
use crate::{
    backends,
    leadership::write_deadline::WriteDeadline,
    rabbitmq::queues::monitor::Monitor,
    reconcile::{context::Context, controller},
    server::metrics::Metrics,
    telemetry::span::Tracer,
};

/// Namespace of every stack in the tests.
pub const NAMESPACE: &str = "links";

/// A duration longer than any test.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// A running operator, its API server, and the broker and the pods of every stack. Dropping it stops the operator;
/// otherwise it would keep running beside the later worlds of the same test.
pub struct World {
    /// API server.
    pub server: FakeApiServer,
    /// Broker, which accepts any credentials.
    pub broker: FakeBroker,
    /// Pods of the app, as soon as a test creates one.
    pub app: FakeApp,
    tracer: Tracer,
    scope: Option<&'static str>,
    stop: CancellationToken,
    controller: AbortOnDropHandle<()>,
    watches: [AbortOnDropHandle<()>; 2],
}

impl World {
    /// Starts the operator against the objects of a server.
    pub fn start(server: FakeApiServer) -> Self {
        Self::start_in(None, server)
    }

    /// Starts the operator against the objects of a server, in one namespace or in the whole cluster.
    pub fn start_in(scope: Option<&'static str>, server: FakeApiServer) -> Self {
        let (broker, app) = (trusting_broker(), FakeApp::default());
        Self::start_with(scope, server, broker, app, Tracer::default())
    }

    /// Starts an operator that traces its work.
    pub fn start_traced(server: FakeApiServer, tracer: Tracer) -> Self {
        Self::start_with(None, server, trusting_broker(), FakeApp::default(), tracer)
    }

    fn start_with(
        scope: Option<&'static str>,
        server: FakeApiServer,
        broker: FakeBroker,
        app: FakeApp,
        tracer: Tracer,
    ) -> Self {
        let stop = CancellationToken::new();
        let (settings, metrics) = (settings(), Metrics::new().unwrap());
        let context = Context::new(
            server.client(),
            settings.defaults(),
            settings.max_concurrent_reconciles,
            metrics.clone(),
        );
        let context = Arc::new(context.traced_by(tracer.clone()));
        let write_deadline = WriteDeadline::default();
        write_deadline.extend(Instant::now() + FOR_EVER);
        let monitor = Monitor {
            queues: context.queues.clone(),
            transport: broker.transport(),
            metrics,
            write_deadline,
            tracer: tracer.clone(),
        };
        let stores = backends::monitor::Monitor {
            backends: context.backends.clone(),
            transport: app.transport(),
        };
        let watches = [tokio::spawn(monitor.run()), tokio::spawn(stores.run())];
        let controller = tokio::spawn(controller::run(
            context,
            scope.map(str::to_owned),
            stop.clone(),
        ));
        Self {
            server,
            broker,
            app,
            tracer,
            scope,
            stop,
            controller: AbortOnDropHandle::new(controller),
            watches: watches.map(AbortOnDropHandle::new),
        }
    }

    /// Starts the operator, creates the stack `acme` and waits until it is built.
    pub async fn with_stack(spec: serde_json::Value) -> Self {
        Self::with_stack_on(FakeApiServer::default(), spec).await
    }

    /// Does the same in a cluster with the optional kinds.
    pub async fn with_optional_kinds(spec: serde_json::Value) -> Self {
        let server = FakeApiServer::default();
        server.add_optional_kinds();
        Self::with_stack_on(server, spec).await
    }

    async fn with_stack_on(server: FakeApiServer, spec: serde_json::Value) -> Self {
        let world = Self::start(server);
        world.server.create(&stored_stack(spec));
        world.settle().await;
        world.server.forget_writes();
        world
    }

    /// Lets enough time pass for everything that is due, including a reconcile that hits its deadline, and its retry.
    pub async fn settle(&self) {
        self.pass(Duration::from_secs(60)).await;
    }

    /// Lets virtual time pass.
    pub async fn pass(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Kills the operator like a crash and starts a new one, without any remembered state.
    pub async fn restart(self) -> Self {
        for watch in &self.watches {
            watch.abort();
        }
        self.controller.abort();
        let _ = self.controller.await;
        Self::start_with(self.scope, self.server, self.broker, self.app, self.tracer)
    }

    /// Stops the operator and waits until it has ended.
    pub async fn end(self) {
        self.stop.cancel();
        self.controller.await.unwrap();
    }

    /// Returns the live stack.
    pub fn stack(&self, name: &str) -> ShortenerStack {
        self.server.get(NAMESPACE, name).unwrap()
    }

    /// Returns a condition of the live stack.
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

    /// Returns the paths of the writes that changed children, without status and Events.
    pub fn child_writes(&self) -> Vec<String> {
        let writes = self.server.writes().into_iter();
        writes
            .filter(|write| !write.path.ends_with("/status") && !write.path.contains("/events"))
            .filter(|write| write.effect != Some(Effect::Unchanged))
            .map(|write| write.path)
            .collect()
    }

    /// Returns every child as `plural/name`.
    pub fn children(&self) -> Vec<String> {
        let mut names = self.server.names();
        names.retain(|name| !name.starts_with("shortenerstacks/") && !name.starts_with("events/"));
        names
    }

    /// Returns the number of created objects, without Events.
    pub fn creations(&self) -> usize {
        let created = |write: &&super::api_server::Write| {
            write.effect == Some(Effect::Created) && !write.path.contains("/events")
        };
        self.server.writes().iter().filter(created).count()
    }

    /// Returns the checksum in the pod template of a live workload.
    pub fn checksum<K>(&self, name: &str) -> String
    where
        K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + serde::Serialize,
    {
        let object = serde_json::to_value(self.server.get::<K>(NAMESPACE, name).unwrap()).unwrap();
        object["spec"]["template"]["metadata"]["annotations"][CONFIG_CHECKSUM].to_string()
    }

    /// Returns the uid of a live object.
    pub fn uid<K>(&self, name: &str) -> Option<String>
    where
        K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned,
    {
        self.server.get::<K>(NAMESPACE, name)?.uid()
    }
}

/// Returns a broker that accepts any credentials.
fn trusting_broker() -> FakeBroker {
    let broker = FakeBroker::default();
    broker.trust_everybody();
    broker
}
