//! `operator run`: connects to the API server, waits for the lease, runs the controllers, and releases the lease at
//! the end.
//!
//! A replica that loses the lease drops everything that it kept for its term, and stands by for the next one. It does not
//! end, because the container runtime would start it again later and later.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    cli::settings::Settings,
    drills,
    kubernetes::{client, definition, refusal},
    leadership::{
        elector::{Election, Elector, Lost},
        fence::FenceLayer,
        write_deadline::WriteDeadline,
    },
    probes::{end_to_end, sole_entry, stores},
    rabbitmq::{broker, queues::monitor::Monitor},
    reconcile::{context::Context, controller},
    server::{health::Health, http, metrics::Metrics},
    short_links::{self, Apps},
    telemetry::{self, TelemetryError, span::Tracer},
    transport,
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
    #[error("cannot use the kubeconfig or the service account to connect to the API server: {}", refusal::sentence(.0))]
    Connect(#[from] kube::Error),
    /// The resource definition was replaced by an older one while the operator ran.
    #[error("{0}")]
    Definition(String),
    /// A controller, a monitor of brokers or stores or a probe ended although no stop was requested.
    #[error("a controller, a monitor or a probe stopped unexpectedly")]
    Controller,
}

/// Runs the operator until SIGTERM or SIGINT.
///
/// # Errors
/// The operator could not start, or a controller ended. The process must end and be restarted.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let stop = stop_on_signal()?;
    let (metrics, health) = (Metrics::new()?, Health::default());
    let telemetry = telemetry::start(
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
    telemetry.shutdown(telemetry::FLUSH).await;
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
    let current = definition::wait_until_current(&clients.main, &health);
    if stop.run_until_cancelled(current).await.is_none() {
        return Ok(());
    }
    let election = Election {
        namespace: settings.pod_namespace.clone(),
        lease: settings.lease_name.clone(),
        identity: settings.pod_name.clone(),
        duration: settings.lease_duration(),
    };
    let mut elector = Elector::new(clients.lease, election, write_deadline.clone());
    let leader = Leader {
        settings,
        client: clients.main,
        metrics,
        health,
        tracer,
        write_deadline,
    };
    let result = loop {
        if stop.run_until_cancelled(elector.acquire()).await.is_none() {
            break Ok(());
        }
        match leader.term(&mut elector, stop).await {
            Ok(Some(lost)) => {
                warn!("this replica is no longer the leader and becomes a standby: {lost}")
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if timeout(RELEASE_LIMIT, elector.release()).await.is_err() {
        warn!("the lease was not released in time; another replica takes over when it expires");
    }
    result
}

/// The parts that all terms of this replica share.
struct Leader {
    settings: Settings,
    client: Client,
    metrics: Metrics,
    health: Health,
    tracer: Tracer,
    write_deadline: WriteDeadline,
}

impl Leader {
    /// Runs the controllers, the monitors and the probes until `stop`, or until the lease is lost, which is returned.
    /// Nothing of the term is left afterwards, neither tasks nor metrics of stacks.
    async fn term(
        &self,
        elector: &mut Elector,
        stop: &CancellationToken,
    ) -> Result<Option<Lost>, RunError> {
        let context = self.context();
        let monitor = Monitor {
            queues: context.queues.clone(),
            transport: transport::http(broker::MAX_ANSWER),
            metrics: self.metrics.clone(),
            write_deadline: self.write_deadline.clone(),
            tracer: self.tracer.clone(),
        };
        let stores = stores::run(
            context.backends.clone(),
            transport::http(stores::MAX_ANSWER),
        );
        let sole_entry = sole_entry::run(
            context.sole_entry.clone(),
            sole_entry::tcp(),
            self.metrics.clone(),
        );
        let end_to_end = end_to_end::run(
            context.end_to_end.clone(),
            end_to_end::network(),
            self.metrics.clone(),
        );
        let apps = Apps {
            transport: transport::http(short_links::MAX_ANSWER),
            write_deadline: self.write_deadline.clone(),
        };
        let scopes = self.settings.scopes();
        self.metrics.leader(true);
        let ended = tokio::select! {
            ended = control((context, apps), scopes, elector, stop) => ended,
            () = sole_entry => Err(RunError::Controller),
            () = end_to_end => Err(RunError::Controller),
            () = monitor.run() => Err(RunError::Controller),
            () = stores => Err(RunError::Controller),
            complaint = definition::replaced(&self.client) => Err(RunError::Definition(complaint)),
        };
        self.metrics.leader(false);
        self.metrics.forget_stacks();
        self.health.forget();
        ended
    }

    /// Returns a context that remembers nothing of an earlier term.
    fn context(&self) -> Arc<Context> {
        let settings = &self.settings;
        let context = Context::new(
            self.client.clone(),
            settings.defaults(),
            settings.max_concurrent_reconciles,
            self.metrics.clone(),
            self.health.clone(),
        );
        let context = context.of_class(settings.operator_class.clone());
        Arc::new(context.traced_by(self.tracer.clone()))
    }
}

/// Runs one controller of stacks per scope, and those of the ShortLinks and the drills, until `stop`, unless the resource definition is older than this program, then lets reconciles in flight finish. The loss of the lease aborts
/// all of them, and is returned when none runs any more.
async fn control(
    (context, apps): (Arc<Context>, Apps),
    scopes: Vec<Option<String>>,
    elector: &mut Elector,
    stop: &CancellationToken,
) -> Result<Option<Lost>, RunError> {
    let mut controllers = JoinSet::new();
    tokio::select! {
        lost = elector.hold() => {
            controllers.shutdown().await;
            Ok(Some(lost))
        }
        ended = work(&mut controllers, (&context, apps), scopes, stop) => ended.map(|()| None),
    }
}

/// Checks the resource definition, which may have changed since the term before, and runs the controllers until `stop`.
async fn work(
    controllers: &mut JoinSet<()>,
    (context, apps): (&Arc<Context>, Apps),
    scopes: Vec<Option<String>>,
    stop: &CancellationToken,
) -> Result<(), RunError> {
    let check = definition::check(&context.client);
    let Some(checked) = stop.run_until_cancelled(check).await else {
        return Ok(());
    };
    checked.map_err(RunError::Definition)?;
    controllers.spawn(short_links::run(
        context.clone(),
        scopes.clone(),
        apps,
        stop.clone(),
    ));
    controllers.spawn(drills::run(
        context.clone(),
        end_to_end::network(),
        stop.clone(),
    ));
    for scope in scopes {
        controllers.spawn(controller::run(context.clone(), scope, stop.clone()));
    }
    finish(controllers, stop).await
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
    use shortener_operator_core::api::ShortenerStack;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::{
        kubernetes::definition::tests::document_without,
        testing::{api_server::FakeApiServer, settings},
    };

    /// Returns the result of the work of a term, and the number of lists of stacks.
    async fn worked(server: &FakeApiServer) -> (Option<Result<(), RunError>>, usize) {
        let context = Context::new(
            server.client(),
            settings().defaults(),
            1,
            Metrics::new().unwrap(),
            Health::default(),
        );
        let (mut controllers, stop) = (JoinSet::new(), CancellationToken::new());
        let context = Arc::new(context);
        let apps = Apps {
            transport: transport::http(short_links::MAX_ANSWER),
            write_deadline: WriteDeadline::default(),
        };
        let work = work(&mut controllers, (&context, apps), vec![None], &stop);
        let result = timeout(Duration::from_secs(90), work).await.ok();
        (result, server.lists::<ShortenerStack>())
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_begins_with_a_look_at_the_definition() {
        let server = FakeApiServer::default();
        server.serve_definition(Some(document_without("auth")));
        let (result, lists) = worked(&server).await;
        let Some(Err(RunError::Definition(complaint))) = result else {
            panic!("{result:?}");
        };
        assert!(complaint.contains("spec.gateway.auth"), "{complaint}");
        assert_eq!(lists, 0);
        server.serve_definition(Some(document_without("")));
        let (result, lists) = worked(&server).await;
        assert!(result.is_none() && lists > 0, "{result:?}");
    }

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
