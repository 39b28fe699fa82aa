//! `operator run`: connects to the API server, waits for the lease, runs the controllers, and releases the lease at
//! the end.

use std::{sync::Arc, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    backends::monitor as store_monitor,
    cli::settings::Settings,
    kubernetes::client,
    leadership::{
        elector::{Election, Elector, Lost},
        fence::FenceLayer,
        write_deadline::WriteDeadline,
    },
    probes::{end_to_end, sole_entry},
    rabbitmq::{broker::transport, queues::monitor::Monitor},
    reconcile::{context::Context, controller},
    server::{health::Health, http, metrics::Metrics},
    telemetry::{Telemetry, TelemetryError, span::Tracer},
};

/// Time for reconciles in flight to finish after a stop signal. With the release of the lease and the shutdown of the
/// HTTP server, the process ends within 10 s.
const FINISH_LIMIT: Duration = Duration::from_secs(7);
/// Time limit for releasing the lease.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

/// An error that ends the operator.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The signal handlers cannot be installed, or the HTTP address cannot be bound.
    #[error("cannot install the signal handlers or bind the HTTP address: {0}")]
    Start(#[from] std::io::Error),
    /// Two metrics have the same name.
    #[error("cannot register the metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The settings of the export of traces are invalid.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The address of the API server or the credentials for it are missing or wrong.
    #[error("cannot use the kubeconfig or the service account to connect to the API server: {0}")]
    Connect(#[from] kube::Error),
    /// The lease is lost: another replica leads, or may lead by now.
    #[error("this replica is no longer the leader: {0}")]
    Lost(Lost),
    /// A controller, a monitor of brokers or stores or a probe ended although no stop was requested.
    #[error("a controller, a monitor or a probe stopped unexpectedly")]
    Controller,
}

/// Runs the operator until SIGTERM or SIGINT.
///
/// # Errors
/// The operator could not start, the lease was lost, or a controller ended. The process must end and be restarted.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let stop = stop_on_signal()?;
    let (metrics, health) = (Metrics::new()?, Health::default());
    let telemetry = Telemetry::start(
        &settings.otlp_endpoint,
        settings.trace_ratio.0,
        &settings.pod_name,
        metrics.spans_dropped(),
    )?;
    let listener = http::bind(settings.listen)?;
    let http_stop = CancellationToken::new();
    let server = tokio::spawn(http::serve(
        listener,
        metrics.clone(),
        health.clone(),
        http_stop.clone(),
    ));
    let result = lead(settings, (metrics, health), telemetry.tracer(), &stop).await;
    http_stop.cancel();
    if !matches!(result, Err(RunError::Lost(_))) {
        // A replica that lost the lease ends at once, and its last spans are lost.
        telemetry.shutdown().await;
    }
    // The server drains for at most a second, so this wait needs no time limit.
    let _ = server.await;
    result
}

async fn lead(
    settings: Settings,
    (metrics, health): (Metrics, Health),
    tracer: Tracer,
    stop: &CancellationToken,
) -> Result<(), RunError> {
    let write_deadline = WriteDeadline::default();
    let fence = FenceLayer::new(write_deadline.clone(), metrics.clone());
    let clients = client::connect(&fence).await?;
    let election = Election {
        namespace: settings.pod_namespace.clone(),
        lease: settings.lease_name.clone(),
        identity: settings.pod_name.clone(),
        duration: settings.lease_duration(),
    };
    let mut elector = Elector::new(clients.lease, election, write_deadline.clone());
    let result = match stop.run_until_cancelled(elector.acquire()).await {
        None => Ok(()),
        Some(()) => {
            metrics.leader(true);
            let scopes = settings.scopes();
            let (defaults, concurrent) = (settings.defaults(), settings.max_concurrent_reconciles);
            let context = Context::new(clients.main, defaults, concurrent, metrics.clone(), health);
            let context = context.of_class(settings.operator_class);
            let context = Arc::new(context.traced_by(tracer.clone()));
            let monitor = Monitor {
                queues: context.queues.clone(),
                transport: transport::http(),
                metrics: metrics.clone(),
                write_deadline,
                tracer,
            };
            let stores = store_monitor::Monitor {
                backends: context.backends.clone(),
                transport: transport::http_up_to(store_monitor::MAX_ANSWER),
            };
            let sole_entry = sole_entry::run(
                context.sole_entry.clone(),
                sole_entry::tcp(),
                metrics.clone(),
            );
            let end_to_end = end_to_end::run(
                context.end_to_end.clone(),
                end_to_end::network(),
                metrics.clone(),
            );
            let result = tokio::select! {
                ended = control(context, scopes, &mut elector, stop) => ended,
                () = sole_entry => Err(RunError::Controller),
                () = end_to_end => Err(RunError::Controller),
                () = monitor.run() => Err(RunError::Controller),
                () = stores.run() => Err(RunError::Controller),
            };
            metrics.leader(false);
            result
        }
    };
    if timeout(RELEASE_LIMIT, elector.release()).await.is_err() {
        warn!("the lease was not released in time; another replica takes over when it expires");
    }
    result
}

/// Runs one controller per scope until `stop`, then lets reconciles in flight finish. The loss of the lease aborts
/// all of them.
async fn control(
    context: Arc<Context>,
    scopes: Vec<Option<String>>,
    elector: &mut Elector,
    stop: &CancellationToken,
) -> Result<(), RunError> {
    let mut controllers = JoinSet::new();
    for scope in scopes {
        controllers.spawn(controller::run(context.clone(), scope, stop.clone()));
    }
    // Dropping the set aborts the controllers that still run.
    tokio::select! {
        lost = elector.hold() => Err(RunError::Lost(lost)),
        ended = finish(&mut controllers, stop) => ended,
    }
}

async fn finish(controllers: &mut JoinSet<()>, stop: &CancellationToken) -> Result<(), RunError> {
    let early = stop.run_until_cancelled(controllers.join_next()).await;
    if early.is_some() && !stop.is_cancelled() {
        return Err(RunError::Controller);
    }
    let all = async { while controllers.join_next().await.is_some() {} };
    if timeout(FINISH_LIMIT, all).await.is_err() {
        warn!("some reconciles did not finish in time; the next leader repeats them");
    }
    Ok(())
}

fn stop_on_signal() -> Result<CancellationToken, std::io::Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("stopping; waiting for running reconciles to finish");
        asked.cancel();
    });
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn running_reconciles_are_finished_after_the_stop() {
        let (mut controllers, stop) = (JoinSet::new(), CancellationToken::new());
        controllers.spawn(sleep(Duration::from_secs(3)));
        stop.cancel();
        let started = Instant::now();
        finish(&mut controllers, &stop).await.unwrap();
        assert_eq!(started.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_hangs_does_not_hold_up_the_end() {
        let (mut controllers, stop) = (JoinSet::new(), CancellationToken::new());
        controllers.spawn(std::future::pending());
        stop.cancel();
        let started = Instant::now();
        finish(&mut controllers, &stop).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_ends_by_itself_ends_the_operator() {
        let (mut controllers, stop) = (JoinSet::new(), CancellationToken::new());
        controllers.spawn(async {});
        assert!(matches!(
            finish(&mut controllers, &stop).await,
            Err(RunError::Controller)
        ));
    }
}
