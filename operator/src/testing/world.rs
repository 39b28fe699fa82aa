//! The operator's controller against the in-memory API server, in virtual time.
//!
//! The clock is paused and jumps ahead whenever every task waits, so an idle hour costs nothing and no test depends
//! on the speed of the machine.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{api::events::v1::Event, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;
use shortener_operator_core::{api::ShortenerStack, model::metadata::CONFIG_CHECKSUM};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    api_server::{Effect, FakeApiServer, WatchFault},
    app::FakeApp,
    broker::FakeBroker,
    gateway::FakeGateway,
    management::FakeManagement,
    network::FakeNetwork,
    servers::Servers,
    settings,
    shared::stored_stack,
};
use crate::{
    cli::settings::Settings,
    drills,
    reconcile::{context::Context, controller},
    server::{health::Health, metrics::Metrics},
    short_links,
    telemetry::span::Tracer,
};

/// Namespace of every stack in the tests.
pub const NAMESPACE: &str = "links";

/// A running operator, its API server, and the broker and the pods of every stack. Dropping it stops the operator;
/// otherwise it would keep running beside the later worlds of the same test.
pub struct World {
    pub server: FakeApiServer,
    /// Broker, which accepts any credentials.
    pub broker: FakeBroker,
    /// Pods of the app, as soon as a test creates one.
    pub app: FakeApp,
    /// Gateway of every stack.
    pub gateway: FakeGateway,
    /// Management ports of the pods of the app.
    pub management: FakeManagement,
    /// Network of the cluster.
    pub network: FakeNetwork,
    /// State of the operator.
    pub context: Arc<Context>,
    scope: Option<&'static str>,
    settings: Settings,
    stop: CancellationToken,
    controller: AbortOnDropHandle<()>,
    links: AbortOnDropHandle<()>,
    drills: AbortOnDropHandle<()>,
    watches: [AbortOnDropHandle<()>; 4],
}

impl World {
    /// Starts the operator against the objects of a server.
    pub fn start(server: FakeApiServer) -> Self {
        Self::start_in(None, server)
    }

    /// Starts the operator against the objects of a server, in one namespace or in the whole cluster.
    pub fn start_in(scope: Option<&'static str>, server: FakeApiServer) -> Self {
        Self::start_with(scope, settings(), server, Servers::trusting())
    }

    /// Starts the operator of a class of stacks.
    pub fn start_as(class: &str, server: FakeApiServer) -> Self {
        let mut settings = settings();
        class.clone_into(&mut settings.operator_class);
        Self::start_set(settings, server)
    }

    /// Starts an operator with these settings.
    pub fn start_set(settings: Settings, server: FakeApiServer) -> Self {
        Self::start_with(None, settings, server, Servers::trusting())
    }

    /// Starts the operator against the objects of a server, behind whose stacks this gateway is.
    pub fn start_behind(server: FakeApiServer, gateway: FakeGateway) -> Self {
        let servers = Servers {
            gateway,
            ..Servers::trusting()
        };
        Self::start_with(None, settings(), server, servers)
    }

    /// Starts an operator that traces its work.
    pub fn start_traced(server: FakeApiServer, tracer: Tracer) -> Self {
        let servers = Servers {
            tracer,
            ..Servers::trusting()
        };
        Self::start_with(None, settings(), server, servers)
    }

    fn start_with(
        scope: Option<&'static str>,
        settings: Settings,
        server: FakeApiServer,
        servers: Servers,
    ) -> Self {
        let stop = CancellationToken::new();
        let context = Context::new(
            server.client(),
            settings.defaults(),
            settings.max_concurrent_reconciles,
            Metrics::new().unwrap(),
            Health::default(),
        );
        let context = context.of_class(&settings.operator_class);
        let context = context.timed_by(servers.clock.clone());
        let context = Arc::new(context.traced_by(servers.tracer.clone()));
        let controller = tokio::spawn(controller::run(
            context.clone(),
            scope.map(str::to_owned),
            stop.clone(),
        ));
        let links = tokio::spawn(short_links::run(
            context.clone(),
            vec![scope.map(str::to_owned)],
            servers.apps(),
            stop.clone(),
        ));
        let drills = tokio::spawn(drills::run(
            context.clone(),
            servers.gateway.connect(),
            stop.clone(),
        ));
        let watches = servers.watch(&context);
        let Servers {
            broker,
            app,
            gateway,
            management,
            network,
            ..
        } = servers;
        Self {
            server,
            broker,
            app,
            gateway,
            management,
            network,
            context,
            scope,
            settings,
            stop,
            controller: AbortOnDropHandle::new(controller),
            links: AbortOnDropHandle::new(links),
            drills: AbortOnDropHandle::new(drills),
            watches,
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

    /// Begins the deletion of the stack `acme`, which no watch shows and which a finalizer keeps from ending.
    pub async fn begin_unseen_deletion(&self) {
        let server = &self.server;
        server.edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
            stack["metadata"]["finalizers"] = serde_json::json!(["test/backup"]);
        });
        self.settle().await;
        server.forget_writes();
        server.fail_watches(Some(WatchFault::Drop(1)));
        server.delete::<ShortenerStack>(NAMESPACE, "acme");
    }

    /// Lets enough time pass for everything that is due, including a reconcile that hits its deadline, and its retry.
    pub async fn settle(&self) {
        self.pass(Duration::from_secs(60)).await;
    }

    /// Lets virtual time pass.
    pub async fn pass(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Lets time pass until every planned fault of a single write has occurred.
    pub async fn until_faults_are_over(&self) {
        for _ in 0..1200 {
            if self.server.pending_faults() == 0 {
                return;
            }
            self.pass(Duration::from_millis(50)).await;
        }
        panic!("a planned fault has not occurred within a minute");
    }

    /// Kills the operator like a crash and starts a new one, without any remembered state.
    pub async fn restart(self) -> Self {
        for watch in &self.watches {
            watch.abort();
        }
        self.controller.abort();
        self.links.abort();
        self.drills.abort();
        let _ = tokio::join!(self.controller, self.links, self.drills);
        let servers = Servers {
            broker: self.broker,
            app: self.app,
            gateway: self.gateway,
            management: self.management,
            network: self.network,
            tracer: self.context.tracer.clone(),
            clock: self.context.clock.clone(),
        };
        Self::start_with(self.scope, self.settings, self.server, servers)
    }

    /// Kills the operator and starts another release of it, with other settings.
    pub async fn upgrade(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self.restart().await
    }

    /// Stops the operator and waits until it has ended.
    pub async fn end(self) {
        self.stop.cancel();
        self.controller.await.unwrap();
        self.links.await.unwrap();
        self.drills.await.unwrap();
    }

    pub fn metrics(&self) -> String {
        String::from_utf8(self.context.metrics.render().unwrap()).unwrap()
    }

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

    /// Returns status and reason of a condition of the stack `acme`, such as `True PodsReady`.
    pub fn verdict(&self, type_: &str) -> String {
        let condition = self.condition("acme", type_);
        format!("{} {}", condition.status, condition.reason)
    }

    /// Writes the status of an object as its own controller does, and lets the operator follow.
    pub async fn report<K>(&self, name: &str, status: serde_json::Value)
    where
        K: kube::Resource<DynamicType = ()>,
    {
        self.server
            .edit::<K>(NAMESPACE, name, |object| object["status"] = status);
        self.settle().await;
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

    /// Returns every Event.
    pub fn events(&self) -> Vec<Event> {
        let names = self.server.names();
        let events = names.iter().filter_map(|name| name.strip_prefix("events/"));
        events
            .filter_map(|name| self.server.get(NAMESPACE, name))
            .collect()
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
