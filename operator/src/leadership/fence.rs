//! The client layer that fences writes to the cluster: it refuses writes after the write deadline, cuts short those
//! in flight when it passes, and counts all of them. Reads always pass, so a replica that stands by or has lost the
//! lease can still read.

use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt, ready};
use http::{Method, Request, Response};
use tower::{BoxError, Layer, Service};

use crate::{leadership::write_deadline::WriteDeadline, server::metrics::Metrics};

/// A layer that puts a [`Fence`] in front of a client.
#[derive(Clone, Debug)]
pub struct FenceLayer {
    write_deadline: WriteDeadline,
    metrics: Metrics,
}

impl FenceLayer {
    /// Creates a fence that lets writes pass until the write deadline.
    pub fn new(write_deadline: WriteDeadline, metrics: Metrics) -> Self {
        Self {
            write_deadline,
            metrics,
        }
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fence<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Fence {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service that lets writes pass only until the write deadline.
#[derive(Clone, Debug)]
pub struct Fence<S> {
    inner: S,
    layer: FenceLayer,
}

impl<S, A, B> Service<Request<A>> for Fence<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let method = request.method().clone();
        if matches!(method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return self
                .inner
                .call(request)
                .map(|answer| answer.map_err(Into::into))
                .boxed();
        }
        let FenceLayer {
            write_deadline,
            metrics,
        } = self.layer.clone();
        if let Err(refusal) = write_deadline.until() {
            metrics.mutating_request(method.as_str(), "refused");
            return ready(Err(refusal.into())).boxed();
        }
        let answer = self.inner.call(request);
        async move {
            let answer = match write_deadline.guard(answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(cut_short) => Err(cut_short.into()),
            };
            match &answer {
                Ok(response) => {
                    metrics.mutating_request(method.as_str(), response.status().as_str())
                }
                Err(_) => metrics.mutating_request(method.as_str(), "error"),
            }
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use tokio::time::Instant;
    use tower::{ServiceExt, service_fn};

    use super::*;
    use crate::leadership::write_deadline::NotLeading;

    struct FenceScene {
        write_deadline: WriteDeadline,
        metrics: Metrics,
        arrived: Arc<AtomicUsize>,
    }

    impl FenceScene {
        fn new() -> Self {
            Self {
                write_deadline: WriteDeadline::default(),
                metrics: Metrics::new().unwrap(),
                arrived: Arc::default(),
            }
        }

        /// Sends a request to a server that answers after the delay.
        async fn send(&self, method: Method, delay: Duration) -> Result<Response<()>, BoxError> {
            let arrived = self.arrived.clone();
            let server = service_fn(move |_: Request<()>| {
                arrived.fetch_add(1, Ordering::Relaxed);
                async move {
                    tokio::time::sleep(delay).await;
                    Ok::<_, BoxError>(Response::new(()))
                }
            });
            let fence =
                FenceLayer::new(self.write_deadline.clone(), self.metrics.clone()).layer(server);
            fence
                .oneshot(Request::builder().method(method).body(()).unwrap())
                .await
        }

        fn counted(&self, line: &str) -> bool {
            String::from_utf8(self.metrics.render().unwrap())
                .unwrap()
                .contains(line)
        }
    }

    fn is_refusal(answer: Result<Response<()>, BoxError>) -> bool {
        answer.unwrap_err().is::<NotLeading>()
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_stands_by_reads_but_cannot_write() {
        let scene = FenceScene::new();
        scene.send(Method::GET, Duration::ZERO).await.unwrap();
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(is_refusal(scene.send(method, Duration::ZERO).await));
        }
        assert_eq!(scene.arrived.load(Ordering::Relaxed), 1);
        assert!(scene.counted("mutating_requests_total{method=\"PATCH\",status=\"refused\"} 1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leaders_writes_pass_and_are_counted() {
        let scene = FenceScene::new();
        scene
            .write_deadline
            .extend(Instant::now() + Duration::from_secs(10));
        scene
            .send(Method::PATCH, Duration::from_secs(1))
            .await
            .unwrap();
        scene
            .send(Method::GET, Duration::from_secs(1))
            .await
            .unwrap();
        assert!(scene.counted("mutating_requests_total{method=\"PATCH\",status=\"200\"} 1"));
        assert!(!scene.counted("method=\"GET\""));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_was_paused_past_its_deadline_writes_nothing() {
        let scene = FenceScene::new();
        scene
            .write_deadline
            .extend(Instant::now() + Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(is_refusal(scene.send(Method::PATCH, Duration::ZERO).await));
        assert_eq!(scene.arrived.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_outlasts_the_write_deadline_is_cut_short() {
        let scene = FenceScene::new();
        scene
            .write_deadline
            .extend(Instant::now() + Duration::from_secs(10));
        assert!(is_refusal(
            scene.send(Method::PATCH, Duration::from_secs(20)).await
        ));
        assert!(scene.counted("mutating_requests_total{method=\"PATCH\",status=\"error\"} 1"));
    }
}
