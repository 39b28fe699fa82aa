//! Sends every request of the specification's tables 4.1 and 4.3 through the gateway of the stack of `make up`, and
//! those of 2.5 and 4.4 through forwarded ports with the credentials of its Secrets. Prints each request with its
//! answer, and fails with the rows whose answer differs from the table.
//!
//! `make tables` calls it. The credentials are in no argument, file or output.

mod app_routes;
mod gateway_routes;
mod queue_statistics;
mod report;
mod vector_database;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use kube::Client;
use shortener_e2e::{Answer, GatewayClient, Stack, await_within};

use crate::report::Report;

/// The stack of `make up` and its namespace.
const STACK: (&str, &str) = ("demo", "default");

/// The destination of the links.
const TARGET: &str = "https://example.com/a?b=c";

#[tokio::main]
async fn main() -> ExitCode {
    match rows().await {
        Ok(report) => report.finish(),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn rows() -> Result<Report> {
    let url = std::env::var("E2E_GATEWAY_URL")
        .context("E2E_GATEWAY_URL is not set: call this program with `make tables`")?;
    let host = url.strip_prefix("http://");
    let host = host.with_context(|| format!("E2E_GATEWAY_URL is not an HTTP URL: {url}"))?;
    let gateway = GatewayClient::at(url.clone(), host)?;
    let (name, namespace) = STACK;
    let stack = Stack::new(&Client::try_default().await?, namespace, name);
    ready(&stack).await?;
    let mut report = Report::default();
    gateway_routes::rows(&mut report, &gateway).await;
    app_routes::rows(&mut report, &gateway, &stack).await?;
    queue_statistics::rows(&mut report, &stack).await?;
    vector_database::rows(&mut report, &stack).await?;
    Ok(report)
}

async fn ready(stack: &Stack) -> Result<()> {
    let name = &stack.name;
    let found = stack.get().await;
    found.with_context(|| format!("stack {name} cannot be read: `make up` applies it"))?;
    let wait = await_within(Duration::from_secs(120), "it is ready", async || {
        stack.current("Ready", "True").await
    });
    wait.await.with_context(|| {
        format!("stack {name} is not ready: read kubectl describe sst {name}; `make up` applies it and waits for it")
    })?;
    Ok(())
}

/// Returns the code in an answer; another word, which is no code, if it has none.
fn code_of(answer: &Answer) -> String {
    let body = answer.json().unwrap_or_default();
    body["code"].as_str().unwrap_or("none").to_owned()
}
