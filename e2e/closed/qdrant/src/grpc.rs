//! The gRPC API: Qdrant's services as its client crate generates them. Unsupported methods and fields are
//! answered with `UNIMPLEMENTED`.

mod collections;
mod convert;
mod filter;
mod points;
mod requests;

use std::{future::Future, sync::Arc, time::Instant};

use anyhow::Context;
use qdrant_client::qdrant::{
    HealthCheckReply, HealthCheckRequest,
    collections_server::CollectionsServer,
    points_server::PointsServer,
    qdrant_server::{Qdrant, QdrantServer},
};
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    service::interceptor::InterceptedService,
    transport::{Server, ServerTlsConfig, server::TcpIncoming},
};

use crate::{VERSION, auth::ApiKey, error::Error, store::Store};

/// The result of a method: its answer, or a gRPC status.
type Answer<T> = Result<Response<T>, Status>;

/// Serves requests on `listener` until `stop` completes.
///
/// # Errors
/// An error of the gRPC server.
pub async fn serve(
    listener: TcpListener,
    store: Arc<Store>,
    key: ApiKey,
    tls: Option<ServerTlsConfig>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let guard = move |request: Request<()>| {
        let headers = request.metadata();
        key.check(|name| headers.get(name)?.to_str().ok())
            .map_err(Status::unauthenticated)?;
        Ok(request)
    };
    let collections = CollectionsServer::new(collections::Collections(Arc::clone(&store)));
    let points = PointsServer::new(points::Points(store)).max_decoding_message_size(usize::MAX);
    let mut server = Server::builder();
    if let Some(tls) = tls {
        server = server
            .tls_config(tls)
            .context("the certificate cannot be used")?;
    }
    server
        .add_service(QdrantServer::new(Health))
        .add_service(InterceptedService::new(collections, guard.clone()))
        .add_service(InterceptedService::new(points, guard))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), stop)
        .await
        .context("the gRPC server broke")
}

struct Health;

#[tonic::async_trait]
impl Qdrant for Health {
    async fn health_check(&self, _: Request<HealthCheckRequest>) -> Answer<HealthCheckReply> {
        Ok(Response::new(HealthCheckReply {
            title: "qdrant - vector search engine".to_owned(),
            version: VERSION.to_owned(),
            commit: None,
        }))
    }
}

/// Runs `work`, which uses files, on a thread that may block; `wrap` makes a message of its
/// result and its time in seconds.
async fn answer<T, M>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    wrap: impl FnOnce(T, f64) -> M,
) -> Answer<M>
where
    T: Send + 'static,
{
    let begun = Instant::now();
    let result = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Status::internal(error.to_string()))??;
    Ok(Response::new(wrap(result, begun.elapsed().as_secs_f64())))
}

/// Refuses a request that uses an unsupported feature.
fn refuse(what: &str, given: bool) -> Result<(), Status> {
    if given { Err(unknown(what)) } else { Ok(()) }
}

fn unknown(what: &str) -> Status {
    Status::unimplemented(format!("the stand-in for Qdrant does not know {what}"))
}

/// Generates methods that answer `UNIMPLEMENTED`, in the form that `async_trait` gives to methods.
macro_rules! unknown_methods {
    ($($name:ident($request:ty) -> $response:ty;)*) => {$(
        fn $name<'this, 'future>(
            &'this self,
            _: tonic::Request<$request>,
        ) -> std::pin::Pin<
            Box<dyn Future<Output = Result<tonic::Response<$response>, tonic::Status>> + Send + 'future>,
        >
        where
            'this: 'future,
            Self: 'future,
        {
            Box::pin(std::future::ready(Err($crate::grpc::unknown(concat!("the method ", stringify!($name))))))
        }
    )*};
}
use unknown_methods;
