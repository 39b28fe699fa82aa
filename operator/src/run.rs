//! `operator run`: connects, waits for the lease, runs the controllers, and hands over at the end.

use std::{sync::Arc, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    client,
    context::Context,
    controller,
    fence::FenceLayer,
    http,
    leader::{Election, Elector, Lost},
    mandate::Mandate,
    metrics::Metrics,
    queues::watch::watch,
    settings::Settings,
};

/// How long running reconciles may take after the stop. With the release of the lease and the end of the HTTP server
/// the process is gone within 10 s.
const FINISH_LIMIT: Duration = Duration::from_secs(7);
/// How long giving the lease back may take.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

/// Why the operator ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Signals cannot be received, or the HTTP address cannot be bound.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// The metrics contradict each other.
    #[error("cannot set up the metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The API server's address or credentials are missing or wrong.
    #[error("cannot connect to the API server: {0}")]
    Connect(#[from] kube::Error),
    /// Another replica leads, or may by now.
    #[error("this replica is not the leader any more: {0}")]
    Lost(Lost),
    /// A controller ended without having been asked to.
    #[error("a controller has ended by itself")]
    Controller,
}

/// Runs the operator until SIGTERM or SIGINT.
///
/// # Errors
/// It could not start, or may not go on: the process must end and be started again.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let stop = stop_on_signal()?;
    let metrics = Metrics::new()?;
    let listener = http::bind(settings.listen)?;
    let http_stop = CancellationToken::new();
    let server = tokio::spawn(http::serve(listener, metrics.clone(), http_stop.clone()));
    let result = lead(settings, metrics, &stop).await;
    http_stop.cancel();
    // It ends by itself within a second.
    let _ = server.await;
    result
}

async fn lead(
    settings: Settings,
    metrics: Metrics,
    stop: &CancellationToken,
) -> Result<(), RunError> {
    let mandate = Mandate::default();
    let fence = FenceLayer::new(mandate.clone(), metrics.clone());
    let clients = client::connect(&fence).await?;
    let election = Election {
        namespace: settings.pod_namespace.clone(),
        lease: settings.lease_name.clone(),
        identity: settings.pod_name.clone(),
        duration: settings.lease_duration(),
    };
    let mut elector = Elector::new(clients.lease, election, mandate.clone());
    let result = match stop.run_until_cancelled(elector.acquire()).await {
        None => Ok(()),
        Some(()) => {
            metrics.leader(true);
            let scopes = settings.scopes();
            let context = Arc::new(Context::new(clients.main, settings, metrics.clone()));
            let result = tokio::select! {
                ended = control(context.clone(), scopes, &mut elector, stop) => ended,
                () = watch(context, mandate) => Err(RunError::Controller),
            };
            metrics.leader(false);
            result
        }
    };
    if timeout(RELEASE_LIMIT, elector.release()).await.is_err() {
        warn!("the lease was not released in time and has to run out");
    }
    result
}

/// Runs a controller per scope until the stop, then lets running reconciles finish. Losing the lease ends everything.
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
    // Dropping the set aborts what still runs.
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
        info!("stopping: running reconciles are finished first");
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
