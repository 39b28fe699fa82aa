//! A client that creates links while something happens to the stack.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::{sync::watch, task::JoinHandle};

use super::GatewayClient;

/// Creates links until it is stopped, and returns those that were acknowledged, with their destinations.
pub struct Writer {
    stop: watch::Sender<bool>,
    /// The links, and the longest time without a new one.
    links: JoinHandle<(Vec<(String, String)>, Duration)>,
}

impl Writer {
    /// Starts to create links.
    pub fn start(gateway: &GatewayClient) -> Self {
        let (stop, stopped) = watch::channel(false);
        let gateway = gateway.clone();
        let links = tokio::spawn(async move {
            let (mut links, mut gap, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
            for number in 0.. {
                if *stopped.borrow() {
                    break;
                }
                let url = format!("https://example.com/written/{number}");
                // Without an app or a database, requests are refused.
                if let Ok(code) = gateway.shorten(&url).await {
                    links.push((code, url));
                    gap = gap.max(last.elapsed());
                    last = Instant::now();
                }
            }
            (links, gap)
        });
        Self { stop, links }
    }

    /// Ends, prints what it saw, and returns the codes and the destinations.
    ///
    /// # Errors
    /// The task has failed.
    pub async fn stop(self) -> Result<Vec<(String, String)>> {
        self.stop.send(true)?;
        let (links, gap) = self.links.await?;
        println!(
            "{} links were acknowledged; the longest time without a new one was {:.1} s",
            links.len(),
            gap.as_secs_f64()
        );
        Ok(links)
    }
}
