//! Table 4.3: the routes of the app. Their paths have no prefix; from outside only the catch-all route leads to them.

use std::{io::ErrorKind, time::Duration};

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use shortener_e2e::{GatewayClient, Stack, node_address};
use tokio::net::TcpStream;

use crate::{TARGET, code_of, report::Report};

/// The app's port, which must not be published.
const PORT: u16 = 3000;

pub(crate) async fn rows(
    report: &mut Report,
    gateway: &GatewayClient,
    stack: &Stack,
) -> Result<()> {
    let table = "4.3";
    report.row(table, "GET /health, through the catch-all");
    let answer = report.ask(gateway, Method::GET, "/health", None).await;
    report.expect_status(&answer, 200);
    report.expect_body(&answer, "an object with a host and the role app", |body| {
        body["host"].is_string() && body["role"] == "app"
    });

    report.row(table, "GET /metrics, through the catch-all");
    let answer = report.ask(gateway, Method::GET, "/metrics", None).await;
    report.expect_status(&answer, 200);
    report.expect_metrics(&answer);

    report.row(table, "POST /shorten, through the catch-all");
    let link = json!({"url": TARGET});
    let answer = report
        .ask(gateway, Method::POST, "/shorten", Some(&link))
        .await;
    report.expect_status(&answer, 201);
    let code = code_of(&answer);

    report.row(table, "POST /jobs, through the catch-all");
    let job = json!({"task": "email", "id": 2});
    let answer = report.ask(gateway, Method::POST, "/jobs", Some(&job)).await;
    report.expect_status(&answer, 202);

    report.row(table, "GET /:code, through the catch-all");
    let answer = report
        .ask(gateway, Method::GET, &format!("/{code}"), None)
        .await;
    report.expect_redirect(&answer);

    report.row(table, "the application port is not published");
    for address in ["localhost".to_owned(), node_address(&stack.client).await?] {
        println!("  > connect to port {PORT} of {address}");
        // Another program on this port of this machine has to be stopped for this row.
        let refused = no_connection(&address).await;
        report.expect(
            &format!("no connection on port {PORT} of {address}"),
            refused,
        );
    }
    Ok(())
}

/// Returns true if nothing accepts a connection; an address that cannot be looked up proves nothing.
async fn no_connection(address: &str) -> bool {
    let connection = TcpStream::connect((address, PORT));
    let outcome = tokio::time::timeout(Duration::from_secs(5), connection).await;
    match outcome {
        Err(_) => {
            println!("  < no answer within 5 s");
            true
        }
        Ok(Ok(_)) => {
            println!("  < connected");
            false
        }
        Ok(Err(error)) => {
            println!("  < {error}");
            let kinds = [
                ErrorKind::ConnectionRefused,
                ErrorKind::HostUnreachable,
                ErrorKind::NetworkUnreachable,
                ErrorKind::TimedOut,
            ];
            kinds.contains(&error.kind())
        }
    }
}
