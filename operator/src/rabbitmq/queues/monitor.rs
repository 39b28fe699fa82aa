//! Monitor of the managed brokers: reads the depths of their queues and enforces the limits.
//!
//! It runs in the leader only. It sends no requests to the API server: reconciles set the brokers to query and act on
//! the reports.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use shortener_operator_core::model::{
    metadata::StackKey,
    queue_state::{Depths, Report},
    topology::{self, QueueLimits},
};
use tokio::{
    sync::Semaphore,
    time::{MissedTickBehavior, interval},
};

use super::{Queues, Target};
use crate::{
    leadership::write_deadline::WriteDeadline,
    rabbitmq::broker::{Broker, BrokerError, counters},
    server::metrics::Metrics,
    telemetry::span::{OTHER, Tracer, in_span},
    transport::Transport,
};

/// Time between two rounds of queries.
const PERIOD: Duration = Duration::from_secs(10);
/// Time limit of one request.
const LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of brokers that are queried at the same time.
const CONCURRENT: usize = 16;
/// Maximum length of the reason for which a broker is unreachable, in bytes.
const MAX_REASON: usize = 512;

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
    /// Queries the brokers forever. A broker that answers late delays its own next query only.
    pub async fn run(self) {
        let mut rounds = interval(PERIOD);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let slots = Semaphore::new(CONCURRENT);
        let mut running = FuturesUnordered::new();
        // Each broker that is being queried, with its latest target.
        let mut asked: HashMap<StackKey, Target> = HashMap::new();
        loop {
            let due = tokio::select! {
                _ = rounds.tick() => self.queues.targets(true),
                () = self.queues.woken() => self.queues.targets(false),
                Some((stack, target)) = running.next() => {
                    let latest = asked.remove(&stack).filter(|latest| *latest != target);
                    latest.map(|latest| (stack, latest)).into_iter().collect()
                }
            };
            for (stack, target) in due {
                if asked.insert(stack.clone(), target.clone()).is_none() {
                    running.push(self.turn(&slots, stack, target));
                }
            }
        }
    }

    /// Queries a broker as soon as there is a free slot.
    async fn turn(&self, slots: &Semaphore, stack: StackKey, target: Target) -> (StackKey, Target) {
        // The semaphore is never closed, so there is always a permit.
        let _slot = slots.acquire().await;
        self.query(&stack, &target).await;
        (stack, target)
    }

    async fn query(&self, stack: &StackKey, target: &Target) {
        let (namespace, name) = stack;
        let broker = self.broker(target);
        let answers = questions(&broker, target, &self.write_deadline);
        let said = match self.traced(stack, answers).await {
            Ok((depths, alarm)) => {
                let busy = self.busy(stack, &broker).await;
                let dropped = self.dropped(stack, target).await;
                let counts = dropped.iter().flatten().copied();
                let depths = Depths {
                    dropped: counts.reduce(u64::saturating_add),
                    ..depths
                };
                self.queues.while_asked(stack, || {
                    self.metrics.queue(namespace, name, depths, &dropped);
                });
                Ok(Report {
                    depth: depths.jobs,
                    alarm,
                    room: depths.room(target.limits),
                    busy,
                    disabled_flags: self.disabled_flags(stack, &broker).await,
                })
            }
            Err(error) => {
                // The last depth may be out of date, so it is not exported any more.
                self.metrics.forget_queue(namespace, name);
                tracing::debug!(stack = %name, %namespace, %error, "broker query failed");
                let mut why = error.to_string();
                // It may repeat what the broker says.
                why.truncate(why.floor_char_boundary(MAX_REASON));
                Err(why)
            }
        };
        self.queues.heard(stack, said);
    }

    fn broker(&self, target: &Target) -> Broker {
        let transport = self.transport.clone();
        Broker::new(transport, &target.url, target.login.clone(), LIMIT)
    }

    /// Returns the clients that process a job, if workers are to be removed. Without an answer none is.
    async fn busy(&self, stack: &StackKey, broker: &Broker) -> Option<BTreeSet<String>> {
        if !self.queues.has_too_many_workers(stack) {
            return None;
        }
        let (namespace, name) = stack;
        let busy = broker.busy_clients().await;
        busy.inspect_err(|error| {
            tracing::debug!(stack = %name, %namespace, %error, "the broker's clients cannot be read");
        })
        .ok()
    }

    /// Returns the feature flags that are off. A broker that does not show them is no reason to distrust its other answers.
    async fn disabled_flags(&self, (namespace, name): &StackKey, broker: &Broker) -> Vec<String> {
        let flags = broker.disabled_flags().await;
        flags
            .inspect_err(|error| {
                tracing::debug!(stack = %name, %namespace, %error, "the broker's feature flags cannot be read");
            })
            .unwrap_or_default()
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

    /// Returns the number of dropped dead letters, which each member counts for itself; `None` for one that does not tell it. That
    /// is no reason to distrust the other answers.
    async fn dropped(&self, (namespace, name): &StackKey, target: &Target) -> Vec<Option<u64>> {
        let members = &target.metrics_urls;
        // One after the other, because the answers are long, but all in the time of one request.
        let limit = LIMIT / u32::try_from(members.len().max(1)).unwrap_or(u32::MAX);
        let mut counts = Vec::new();
        for url in members {
            let count = counters::dropped(&self.transport, url, limit).await;
            let count = count.inspect_err(|error| {
                tracing::debug!(stack = %name, %namespace, %error, "the metrics of a member cannot be read");
            });
            counts.push(count.ok().flatten());
        }
        counts
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

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::body::Bytes;
    use shortener_operator_core::model::queue_state::{DeadLetterRoom, Depth, QueueState};
    use tokio::time::{Instant, sleep};
    use tokio_util::task::AbortOnDropHandle;
    use tower::{BoxError, ServiceExt, service_fn};

    use super::*;
    use crate::{rabbitmq::broker::Login, testing::broker::FakeBroker};

    const SLOW: &str = "slow-rabbitmq.links";
    const GONE: &str = "gone-rabbitmq.links";

    fn target(host: &str) -> Target {
        Target {
            url: format!("http://{host}:15672"),
            metrics_urls: vec![format!("http://{host}:15692")],
            login: Login {
                username: "shortener".to_owned(),
                password: "s3cret".to_owned(),
            },
            limits: QueueLimits {
                deliveries: 5,
                dead_letters: 10_000,
                dead_letter_bytes: 64 << 20,
            },
            autoscaling: None,
            paused: false,
            draining: false,
        }
    }

    fn key(stack: &str) -> StackKey {
        ("links".to_owned(), stack.to_owned())
    }

    /// Returns a transport to a broker whose address `SLOW` answers each request after 4 s, and `GONE` none.
    fn transport(broker: &FakeBroker) -> Transport {
        let answers = broker.transport();
        Transport::new(service_fn(move |request: Request<Full<Bytes>>| {
            let answers = answers.clone();
            async move {
                match request.uri().host() {
                    Some(SLOW) => sleep(Duration::from_secs(4)).await,
                    Some(GONE) => return Err("connection refused".into()),
                    _ => {}
                }
                answers.oneshot(request).await
            }
        }))
    }

    fn monitor(broker: &FakeBroker) -> Monitor {
        let write_deadline = WriteDeadline::default();
        write_deadline.extend(Instant::now() + Duration::from_secs(3600));
        Monitor {
            queues: Arc::default(),
            transport: transport(broker),
            metrics: Metrics::new().unwrap(),
            write_deadline,
            tracer: Tracer::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_answers_after_its_stack_is_gone_leaves_no_metric() {
        for deleted in [false, true] {
            let monitor = monitor(&FakeBroker::default());
            let (queues, metrics) = (monitor.queues.clone(), monitor.metrics.clone());
            queues.target(&key("slow"), Some(target(SLOW)));
            let _running = AbortOnDropHandle::new(tokio::spawn(monitor.run()));
            sleep(Duration::from_secs(1)).await;
            if deleted {
                queues.forget(&key("slow"));
            }
            sleep(Duration::from_secs(120)).await;
            let page = String::from_utf8(metrics.render().unwrap()).unwrap();
            assert_eq!(page.contains("stack=\"slow\""), !deleted, "{page}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_does_not_answer_hides_no_dropped_dead_letter_of_another() {
        let broker = FakeBroker::default();
        broker.drops(7);
        let depth = Depth {
            ready: 9_000,
            unacked: 0,
        };
        broker.holds("jobs.dlq", depth);
        let monitor = monitor(&broker);
        let (queues, metrics) = (monitor.queues.clone(), monitor.metrics.clone());
        let mut members = target("member-rabbitmq.links");
        let gone = format!("http://{GONE}:15692");
        members.metrics_urls.insert(0, gone);
        queues.target(&key("acme"), Some(members));
        let _running = AbortOnDropHandle::new(tokio::spawn(monitor.run()));
        sleep(Duration::from_secs(1)).await;
        let page = String::from_utf8(metrics.render().unwrap()).unwrap();
        let line = "dropped_total{member=\"1\",namespace=\"links\",stack=\"acme\"} 7";
        assert!(page.contains(line), "{page}");
        assert!(!page.contains("member=\"0\""), "{page}");
        let record = queues.record(&key("acme"));
        assert_eq!(record.seen().room(), Some(DeadLetterRoom::Exceeded));
    }

    #[tokio::test(start_paused = true)]
    async fn the_members_of_a_broker_are_asked_for_their_metrics_one_after_the_other() {
        let broker = FakeBroker::default();
        broker.drops(3);
        let mut monitor = monitor(&broker);
        let (answers, free) = (broker.transport(), Arc::new(Semaphore::new(1)));
        monitor.transport = Transport::new(service_fn(move |request: Request<Full<Bytes>>| {
            let (answers, free) = (answers.clone(), free.clone());
            async move {
                let _only = free.try_acquire().unwrap();
                sleep(Duration::from_secs(1)).await;
                answers.oneshot(request).await
            }
        }));
        let members = ["first", "second", "third"];
        let target = Target {
            metrics_urls: members
                .map(|member| format!("http://{member}:15692"))
                .into(),
            ..target("broker.links")
        };
        assert_eq!(monitor.dropped(&key("acme"), &target).await, [Some(3); 3]);
    }

    #[tokio::test]
    async fn an_answer_that_an_error_repeats_is_cut() {
        let mut monitor = monitor(&FakeBroker::default());
        let text = "x".repeat(100_000);
        let answer = format!(r#"[{{"name":"jobs","messages_ready":"{text}"}}]"#);
        let answer = Bytes::from(answer);
        monitor.transport = Transport::new(service_fn(move |_: Request<Full<Bytes>>| {
            let answer = answer.clone();
            async move { Ok::<_, BoxError>(Response::new(answer)) }
        }));
        let (stack, target) = (key("acme"), target("broker.links"));
        monitor.queues.target(&stack, Some(target.clone()));
        for _ in 0..3 {
            monitor.query(&stack, &target).await;
        }
        let record = monitor.queues.record(&stack);
        let QueueState::NeverReached(why) = record.seen() else {
            panic!("{record:?}");
        };
        assert!(why.starts_with("the response is not from"), "{why}");
        assert_eq!(why.len(), MAX_REASON);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_broker_does_not_hold_up_the_queries_of_another() {
        let broker = FakeBroker::default();
        let monitor = monitor(&broker);
        let (queues, metrics) = (monitor.queues.clone(), monitor.metrics.clone());
        queues.target(&key("slow"), Some(target(SLOW)));
        queues.target(&key("quick"), Some(target("quick-rabbitmq.links")));
        let _running = AbortOnDropHandle::new(tokio::spawn(monitor.run()));
        sleep(Duration::from_secs(1)).await;
        let depth = Depth {
            ready: 7,
            unacked: 0,
        };
        broker.holds("jobs", depth);
        sleep(Duration::from_secs(11)).await;
        let page = String::from_utf8(metrics.render().unwrap()).unwrap();
        let line = "queue_messages{namespace=\"links\",stack=\"quick\",state=\"ready\"} 7";
        assert!(page.contains(line), "{page}");
    }
}
