//! A client that creates links while something happens to the stack.

use anyhow::Result;
use tokio::{sync::watch, task::JoinHandle};

use super::GatewayClient;

/// Creates links until it is stopped, and returns those that were acknowledged, with their destinations.
pub struct Writer {
    stop: watch::Sender<bool>,
    links: JoinHandle<Vec<(String, String)>>,
}

impl Writer {
    /// Starts to create links.
    #[must_use]
    pub fn start(gateway: &GatewayClient) -> Self {
        let (stop, stopped) = watch::channel(false);
        let gateway = gateway.clone();
        let links = tokio::spawn(async move {
            let mut links = Vec::new();
            for number in 0.. {
                if *stopped.borrow() {
                    break;
                }
                let url = format!("https://example.com/written/{number}");
                // Without an app or a database, requests are refused.
                if let Ok(code) = gateway.shorten(&url).await {
                    links.push((code, url));
                }
            }
            links
        });
        Self { stop, links }
    }

    /// Ends, and returns the codes and the destinations.
    ///
    /// # Errors
    /// The task has failed.
    pub async fn stop(self) -> Result<Vec<(String, String)>> {
        self.stop.send(true)?;
        Ok(self.links.await?)
    }
}
