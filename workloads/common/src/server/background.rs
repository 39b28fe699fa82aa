//! A server beside the work of its process.

use std::convert::Infallible;

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use super::{Handler, ServerSettings, serve};

/// A server that runs in the background. It stops as well when this value is dropped.
pub struct Background {
    /// The server stops once this is dropped.
    running: oneshot::Sender<Infallible>,
    served: JoinHandle<bool>,
}

impl Background {
    pub fn start(listener: TcpListener, handler: impl Handler, settings: ServerSettings) -> Self {
        let (running, stopped) = oneshot::channel();
        let stop = async move {
            let _ = stopped.await;
        };
        let served = tokio::spawn(serve(listener, handler, settings, stop));
        Self { running, served }
    }

    /// Lets requests in flight finish.
    pub async fn end(self) {
        drop(self.running);
        let _ = self.served.await;
    }
}
