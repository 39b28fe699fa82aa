//! The report of the rows: each request with its answer, and the expectations that an answer did not meet.

use std::process::ExitCode;

use anyhow::Result;
use reqwest::Method;
use serde_json::Value;
use shortener_e2e::{Answer, Broker, GatewayClient, Qdrant};

use crate::TARGET;

/// The shown lines of a body, and the shown characters of each.
const SHOWN: (usize, usize) = (4, 400);

/// A server that requests are sent to.
pub(crate) trait HttpServer {
    /// Sends a request and returns any answer.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer>;
}

impl HttpServer for GatewayClient {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let request = self.request(method, path);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.send(request).await
    }
}

impl HttpServer for Broker {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        self.send(method, path, body).await
    }
}

impl HttpServer for Qdrant {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        self.send(method, path, body).await
    }
}

/// The rows so far. Everything is printed as soon as it is known, but for the list of what is wrong.
#[derive(Default)]
pub(crate) struct Report {
    row: String,
    wrong: Vec<String>,
}

impl Report {
    /// Starts a row of a table.
    pub(crate) fn row(&mut self, table: &str, text: &str) {
        self.row = format!("{table}, {text}");
        println!("\n{table}  {text}");
    }

    /// Sends a request and prints it with its answer.
    pub(crate) async fn ask(
        &self,
        server: &impl HttpServer,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let body_text = body.map(|body| format!(" {body}")).unwrap_or_default();
        let request = format!("{method} {path}{body_text}");
        self.show(&request, server.ask(method, path, body).await)
    }

    /// Prints a request with its answer. If there is none, the returned one has the status 0, which no row expects.
    pub(crate) fn show(&self, request: &str, answer: Result<Answer>) -> Answer {
        println!("  > {request}");
        match answer {
            Ok(answer) => {
                print!("{}", shown(&answer));
                answer
            }
            Err(error) => {
                println!("  < none: {error:#}");
                Answer {
                    status: 0,
                    headers: Default::default(),
                    body: String::new(),
                }
            }
        }
    }

    /// Marks the row as wrong unless an expectation is met.
    pub(crate) fn expect(&mut self, what: &str, met: bool) {
        if !met {
            println!("  WRONG: expected {what}");
            self.wrong.push(format!("{}: expected {what}", self.row));
        }
    }

    pub(crate) fn expect_status(&mut self, answer: &Answer, status: u16) {
        self.expect(&format!("status {status}"), answer.status == status);
    }

    /// Expects a JSON body of which a statement is true.
    pub(crate) fn expect_body(
        &mut self,
        answer: &Answer,
        what: &str,
        statement: impl FnOnce(&Value) -> bool,
    ) {
        let met = answer.json().is_ok_and(|body| statement(&body));
        self.expect(what, met);
    }

    /// Expects a media type, whatever its parameters.
    pub(crate) fn expect_media_type(&mut self, answer: &Answer, what: &str, media_type: &str) {
        let found = answer.header("content-type").split(';').next();
        self.expect(what, found == Some(media_type));
    }

    /// Expects metrics in the text format.
    pub(crate) fn expect_metrics(&mut self, answer: &Answer) {
        self.expect_media_type(answer, "plain text", "text/plain");
        let mut lines = answer.body.lines();
        let met = lines.any(|line| line.starts_with("http_requests_total{"));
        self.expect("an exposition of http_requests_total", met);
    }

    /// Expects a redirect to [`TARGET`].
    pub(crate) fn expect_redirect(&mut self, answer: &Answer) {
        self.expect_status(answer, 302);
        let met = answer.header("location") == TARGET;
        self.expect(&format!("Location: {TARGET}"), met);
    }

    /// Prints the outcome and returns the exit code.
    pub(crate) fn finish(self) -> ExitCode {
        if self.wrong.is_empty() {
            println!(
                "\nEvery answer matches the tables 2.5, 4.1, 4.3 and 4.4 of the specification."
            );
            return ExitCode::SUCCESS;
        }
        println!("\nThese answers differ from the tables of the specification:");
        for wrong in self.wrong {
            println!("  {wrong}");
        }
        ExitCode::FAILURE
    }
}

/// Returns the status, two headers and the beginning of the body.
fn shown(answer: &Answer) -> String {
    let mut text = format!("  < {}", answer.status);
    for (prefix, name) in [("", "content-type"), ("Location: ", "location")] {
        let value = answer.header(name);
        if !value.is_empty() {
            text.push_str(&format!(", {prefix}{value}"));
        }
    }
    text.push('\n');
    let (lines, characters) = SHOWN;
    for line in answer.body.lines().take(lines) {
        let line: String = line.chars().take(characters).collect();
        text.push_str(&format!("    {line}\n"));
    }
    let all = answer.body.lines().count();
    if all > lines {
        text.push_str(&format!("    ... {all} lines\n"));
    }
    text
}
