//! Monitor of the managed brokers: reads the depths of their queues and enforces the limits.
//!
//! It runs in the leader only. It sends no requests to the API server: reconciles set the brokers to query and act on
//! the reports.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use tokio::time::{MissedTickBehavior, interval};

use super::{Report, StackKey, Target};
use crate::{
    broker::{Broker, BrokerError, Depths, topology},
    context::Context,
    write_deadline::WriteDeadline,
};

/// Time between two rounds of queries.
const PERIOD: Duration = Duration::from_secs(10);
/// Time limit of one request.
const LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of brokers that are queried at the same time.
const CONCURRENT: usize = 16;

/// Queries the brokers forever. Limits are written only before the write deadline.
pub async fn watch(context: Arc<Context>, write_deadline: WriteDeadline) {
    let mut rounds = interval(PERIOD);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let all = tokio::select! {
            _ = rounds.tick() => true,
            () = context.queues.changed() => false,
        };
        stream::iter(context.queues.targets(all))
            .for_each_concurrent(CONCURRENT, |(stack, target)| {
                ask(&context, &write_deadline, stack, target)
            })
            .await;
    }
}

async fn ask(context: &Context, write_deadline: &WriteDeadline, stack: StackKey, target: Target) {
    let broker = Broker::new(
        context.brokers.clone(),
        &target.url,
        target.login.clone(),
        LIMIT,
    );
    let (namespace, name) = &stack;
    let said = match questions(&broker, &target, write_deadline).await {
        Ok((depths, alarm)) => {
            context.metrics.queue(namespace, name, depths);
            Ok(Report {
                depth: depths.jobs,
                alarm,
            })
        }
        Err(error) => {
            // The last depth may be out of date, so it is not exported any more.
            context.metrics.forget_queue(namespace, name);
            tracing::debug!(stack = %name, %namespace, %error, "broker query failed");
            Err(error.to_string())
        }
    };
    context.queues.heard(&stack, said);
}

async fn questions(
    broker: &Broker,
    target: &Target,
    write_deadline: &WriteDeadline,
) -> Result<(Depths, Option<String>), BrokerError> {
    let depths = broker.depths().await?;
    let alarm = broker.alarm().await?;
    if let Some(limit) = target.delivery_limit {
        keep_limits(broker, limit, write_deadline).await?;
    }
    Ok((depths, alarm))
}

/// Writes the policies that differ from the wanted ones.
async fn keep_limits(
    broker: &Broker,
    delivery_limit: i32,
    write_deadline: &WriteDeadline,
) -> Result<(), BrokerError> {
    let live = broker.policies().await?;
    for policy in topology::policies(delivery_limit) {
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
