//! The servers that the operator talks to beside its API server, and the tasks with which it watches them.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{
    app::FakeApp, broker::FakeBroker, gateway::FakeGateway, management::FakeManagement,
    network::FakeNetwork,
};
use crate::{
    leadership::write_deadline::WriteDeadline,
    probes::{end_to_end, sole_entry, stores},
    rabbitmq::queues::monitor::Monitor,
    reconcile::context::{Clock, Context},
    short_links::Apps,
    telemetry::span::Tracer,
};

/// A duration longer than any test.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// The servers of every stack.
pub struct Servers {
    pub broker: FakeBroker,
    /// Pods of the app.
    pub app: FakeApp,
    pub gateway: FakeGateway,
    /// Management ports of the pods of the app.
    pub management: FakeManagement,
    /// Network of the cluster.
    pub network: FakeNetwork,
    /// The way to the collector of traces.
    pub tracer: Tracer,
    /// The clock by which drills begin and end: virtual time.
    pub clock: Clock,
}

impl Servers {
    /// Returns servers of which the broker accepts any credentials.
    pub fn trusting() -> Self {
        let servers = Self {
            broker: FakeBroker::default(),
            app: FakeApp::default(),
            gateway: FakeGateway::default(),
            management: FakeManagement::default(),
            network: FakeNetwork::default(),
            tracer: Tracer::default(),
            clock: virtual_clock(),
        };
        servers.broker.trust_everybody();
        servers
    }

    /// Returns the way to the management ports.
    pub fn apps(&self) -> Apps {
        Apps {
            transport: self.management.transport(),
            write_deadline: leading(),
        }
    }

    /// Starts the tasks of an operator that watch them.
    pub fn watch(&self, context: &Context) -> [AbortOnDropHandle<()>; 4] {
        let metrics = &context.metrics;
        let monitor = Monitor {
            queues: context.queues.clone(),
            transport: self.broker.transport(),
            metrics: metrics.clone(),
            write_deadline: leading(),
            tracer: self.tracer.clone(),
        };
        let (backends, pods) = (context.backends.clone(), self.app.transport());
        let (of_entry, of_end_to_end) = (context.sole_entry.clone(), context.end_to_end.clone());
        let tasks = [
            tokio::spawn(monitor.run()),
            tokio::spawn(stores::run(backends, pods)),
            tokio::spawn(sole_entry::run(
                of_entry,
                self.network.dial(),
                metrics.clone(),
            )),
            tokio::spawn(end_to_end::run(
                of_end_to_end,
                self.gateway.connect(),
                metrics.clone(),
            )),
        ];
        tasks.map(AbortOnDropHandle::new)
    }
}

/// Returns a clock that follows virtual time. All operators of a test, which has a thread of its own, have the same time.
fn virtual_clock() -> Clock {
    thread_local! {
        static BEGIN: (jiff::Timestamp, Instant) = (jiff::Timestamp::now(), Instant::now());
    }
    let (begin, since) = BEGIN.with(|begin| *begin);
    Arc::new(move || begin + since.elapsed())
}

/// Returns the write deadline of a leader that keeps its lease.
fn leading() -> WriteDeadline {
    let write_deadline = WriteDeadline::default();
    write_deadline.extend(Instant::now() + FOR_EVER);
    write_deadline
}
