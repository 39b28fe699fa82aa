//! A time limit for every response of the API server. kube sets none, and a server that accepts a request and never
//! answers would block a reconcile or a lease renewal forever.
//!
//! The limit covers the whole response. For a watch it covers the response head only, because the body is meant to
//! stay open.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use http::{Request, Response};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes};
use tokio::time::timeout;
use tower::{BoxError, Layer, Service};

/// A layer that puts a [`Deadline`] on every request of a client.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineLayer(pub Duration);

/// An error that the API server did not answer in time. It may or may not have carried out the request.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the API server did not answer within {} s", .0.as_secs())]
pub struct NoAnswer(Duration);

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Deadline {
            inner,
            limit: self.0,
        }
    }
}

/// A service that gives up on requests whose response takes too long.
#[derive(Clone, Debug)]
pub struct Deadline<S> {
    inner: S,
    limit: Duration,
}

impl<S, A, B> Service<Request<A>> for Deadline<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<Full<Bytes>, B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let limit = self.limit;
        let watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        let answer = self.inner.call(request);
        let whole = async move {
            let response = answer.await.map_err(Into::into)?;
            if watch {
                return Ok(response.map(Either::Right));
            }
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            Ok(Response::from_parts(head, Either::Left(Full::new(body))))
        };
        async move {
            timeout(limit, whole)
                .await
                .unwrap_or_else(|_| Err(NoAnswer(limit).into()))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tower::{ServiceExt, service_fn};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    /// Sends a request to a server that delays the response head by `head` and the body by another `body`.
    async fn send(uri: &str, head: Duration, body: Duration) -> Result<Bytes, BoxError> {
        let server = service_fn(move |_: Request<()>| async move {
            tokio::time::sleep(head).await;
            let frame = async move {
                tokio::time::sleep(body).await;
                Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"{}")))
            };
            Ok::<_, BoxError>(Response::new(StreamBody::new(futures::stream::once(frame))))
        });
        let request = Request::builder().uri(uri).body(()).unwrap();
        let response = DeadlineLayer(LIMIT).layer(server).oneshot(request).await?;
        Ok(Box::pin(response.into_body()).collect().await?.to_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_time_arrives_whole() {
        let body = send("/api/v1/pods?watch=false", LIMIT / 4, LIMIT / 4)
            .await
            .unwrap();
        assert_eq!(body, "{}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_head_and_a_late_body_are_given_up() {
        for (head, body) in [(LIMIT * 2, Duration::ZERO), (Duration::ZERO, LIMIT * 2)] {
            let error = send("/api/v1/pods", head, body).await.unwrap_err();
            assert!(error.is::<NoAnswer>(), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_stay_silent_but_must_begin() {
        let watch = "/api/v1/pods?labelSelector=a&watch=true";
        assert_eq!(send(watch, Duration::ZERO, LIMIT * 20).await.unwrap(), "{}");
        assert!(send(watch, LIMIT * 2, Duration::ZERO).await.is_err());
    }
}
