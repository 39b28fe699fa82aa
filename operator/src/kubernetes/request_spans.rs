//! The client layer that gives each request of traced work a span. It does nothing for other requests, such as watches.

use std::{
    borrow::Cow,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use http::{Request, Response};
use tower::{BoxError, Layer, Service};

use crate::telemetry;

/// A layer that puts [`TracedRequests`] in front of a client.
#[derive(Clone, Copy, Debug)]
pub struct RequestSpans;

impl<S> Layer<S> for RequestSpans {
    type Service = TracedRequests<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TracedRequests(inner)
    }
}

/// A service that traces the requests of traced work.
#[derive(Clone, Debug)]
pub struct TracedRequests<S>(S);

impl<S, A, B> Service<Request<A>> for TracedRequests<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // Copies of both allocate nothing.
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let answer = self.0.call(request).map_err(Into::<BoxError>::into);
        // kube calls this from a task of its own, but the future is polled by the task that sends the request. So the
        // current span is known in here only.
        async move {
            telemetry::http::request(&method, &uri, || Cow::Owned(target(uri.path())), answer).await
        }
        .boxed()
    }
}

/// Returns the resource of a path, and its subresource if it names one: `deployments`, `shortenerstacks/status`.
fn target(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let prefix = match parts.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return path.to_owned(),
    };
    parts.drain(..prefix.min(parts.len()));
    if parts.len() > 2 && parts[0] == "namespaces" {
        parts.drain(..2);
    }
    match parts[..] {
        [resource, _, subresource, ..] => format!("{resource}/{subresource}"),
        [resource, ..] => resource.to_owned(),
        [] => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_by_its_resource_and_not_by_its_object() {
        for (path, name) in [
            ("/api/v1/namespaces/links/configmaps/acme", "configmaps"),
            ("/api/v1/pods", "pods"),
            ("/api/v1/namespaces/links", "namespaces"),
            ("/apis/apps/v1/namespaces/links/deployments", "deployments"),
            (
                "/apis/shortener.dev/v1alpha1/namespaces/links/shortenerstacks/acme/status",
                "shortenerstacks/status",
            ),
            (
                "/apis/shortener.dev/v1alpha1",
                "/apis/shortener.dev/v1alpha1",
            ),
            ("/version", "/version"),
            ("/", "/"),
        ] {
            assert_eq!(target(path), name);
        }
    }
}
