//! Monitor of the managed brokers: reads the depths of their queues and enforces the limits.
//!
//! It runs in the leader only. It sends no requests to the API server: reconciles set the brokers to query and act on
//! the reports.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use shortener_operator_core::model::{
    queue_state::{Depths, Report},
    topology::{self, QueueLimits},
};
use tokio::time::{MissedTickBehavior, interval};

use super::{Queues, StackKey, Target};
use crate::{
    leadership::write_deadline::WriteDeadline,
    rabbitmq::broker::{Broker, BrokerError, counters, transport::Transport},
    server::metrics::Metrics,
    telemetry::span::{OTHER, Tracer, in_span},
};

/// Time between two rounds of queries.
const PERIOD: Duration = Duration::from_secs(10);
/// Time limit of one request.
const LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of brokers that are queried at the same time.
const CONCURRENT: usize = 16;

/// The monitor of the managed brokers.
pub struct Monitor {
    /// Brokers to query, and their last reports.
    pub queues: Arc<Queues>,
    /// HTTP transport to the brokers.
    pub transport: Transport,
    /// The operator's metrics, which contain the depths.
    pub metrics: Metrics,
    /// Deadline after which no limit is written.
    pub write_deadline: WriteDeadline,
    /// Factory of the traces of queries.
    pub tracer: Tracer,
}

impl Monitor {
    /// Queries the brokers forever.
    pub async fn run(self) {
        let mut rounds = interval(PERIOD);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let all = tokio::select! {
                _ = rounds.tick() => true,
                () = self.queues.changed() => false,
            };
            stream::iter(self.queues.targets(all))
                .for_each_concurrent(CONCURRENT, |(stack, target)| self.query(stack, target))
                .await;
        }
    }

    async fn query(&self, stack: StackKey, target: Target) {
        let broker = Broker::new(
            self.transport.clone(),
            &target.url,
            target.login.clone(),
            LIMIT,
        );
        let (namespace, name) = &stack;
        let answers = questions(&broker, &target, &self.write_deadline);
        let said = match self.traced(&stack, answers).await {
            Ok((depths, alarm)) => {
                let depths = Depths {
                    dropped: self.dropped(&stack, &target).await,
                    ..depths
                };
                self.metrics.queue(namespace, name, depths);
                Ok(Report {
                    depth: depths.jobs,
                    alarm,
                    room: depths.room(target.limits),
                })
            }
            Err(error) => {
                // The last depth may be out of date, so it is not exported any more.
                self.metrics.forget_queue(namespace, name);
                tracing::debug!(stack = %name, %namespace, %error, "broker query failed");
                Err(error.to_string())
            }
        };
        self.queues.heard(&stack, said);
    }

    /// Runs a query, with a trace of its own if it is one of those that are traced.
    async fn traced<T>(
        &self,
        (namespace, name): &StackKey,
        query: impl Future<Output = Result<T, BrokerError>>,
    ) -> Result<T, BrokerError> {
        let Some(mut span) = self.tracer.root("query broker") else {
            return query.await;
        };
        span.set("k8s.namespace.name", namespace.clone());
        span.set("shortener.stack.name", name.clone());
        let answer = in_span(&span, query).await;
        if let Err(error) = &answer {
            span.fail(OTHER, &error.to_string());
        }
        span.end();
        answer
    }

    /// Returns the number of dropped dead letters. A broker without metrics is no reason to distrust its other answers.
    async fn dropped(&self, (namespace, name): &StackKey, target: &Target) -> Option<u64> {
        let dropped = counters::dropped(&self.transport, &target.metrics_url, LIMIT).await;
        dropped
            .inspect_err(|error| {
                tracing::debug!(stack = %name, %namespace, %error, "the broker's metrics cannot be read");
            })
            .ok()
            .flatten()
    }
}

async fn questions(
    broker: &Broker,
    target: &Target,
    write_deadline: &WriteDeadline,
) -> Result<(Depths, Option<String>), BrokerError> {
    let depths = broker.depths().await?;
    let alarm = broker.alarm().await?;
    if !target.paused {
        keep_limits(broker, target.limits, write_deadline).await?;
    }
    Ok((depths, alarm))
}

/// Writes the policies that differ from the wanted ones.
async fn keep_limits(
    broker: &Broker,
    limits: QueueLimits,
    write_deadline: &WriteDeadline,
) -> Result<(), BrokerError> {
    let live = broker.policies().await?;
    for policy in topology::policies(limits) {
        if live.contains(&policy) {
            continue;
        }
        // After the write deadline, the policies are up to the next leader.
        if let Ok(written) = write_deadline.guard(broker.set_policy(&policy)).await {
            written?;
            tracing::info!(policy = %policy.name, "set the limits of a queue");
        }
    }
    Ok(())
}
