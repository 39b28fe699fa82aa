//! The requests of the benchmark, as they arrive in a deployment: with the head of a browser or of a program, from many
//! clients, through a gateway that names each client.

use std::{net::Ipv4Addr, sync::Arc};

use crate::{
    exchange::{Exchange, Script},
    links::{Popularity, code, target},
};

/// The number of clients that the requests seem to come from. Each sends a few requests a second, so that the rate limit
/// of the default deployment, 50 a second after a burst of 200, refuses none.
pub const CLIENTS: u32 = 20_000;

/// The network of the clients, which RFC 2544 reserves for benchmarks: 198.18.0.0/15.
const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// The head of a browser that follows a link.
const BROWSER: &str = "Host: links.example\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n";

/// The head of a program that sends a job.
const PROGRAM: &str = "Host: links.example\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\nContent-Type: application/json\r\n";

pub const JOB: &str = r#"{"task":"email","id":1}"#;

/// Returns redirects of all links in turn.
pub fn every_link(links: usize) -> Arc<Script> {
    Arc::new(move |number| redirect(number % links, number % links))
}

/// Returns redirects of links by their popularity.
pub fn any_link(popularity: Popularity) -> Arc<Script> {
    Arc::new(move |_| {
        let number = popularity.draw();
        redirect(number, number)
    })
}

/// Returns redirects of links by their popularity, for a server that sends all of them to the first destination.
pub fn one_destination(popularity: Popularity) -> Arc<Script> {
    Arc::new(move |_| redirect(popularity.draw(), 0))
}

/// Returns requests that the gateway of a stack answers by itself.
pub fn health_of_gateway() -> Arc<Script> {
    Arc::new(|_| Exchange {
        request: get("gateway-health"),
        status: "HTTP/1.1 200 ",
        line: "content-length: 10".to_owned(),
    })
}

/// Returns jobs, each of which must be accepted.
pub fn jobs() -> Arc<Script> {
    Arc::new(|_| {
        let length = JOB.len();
        let client = forwarded();
        Exchange {
            request: format!(
                "POST /jobs HTTP/1.1\r\n{PROGRAM}Content-Length: {length}\r\n{client}\r\n{JOB}"
            )
            .into_bytes(),
            status: "HTTP/1.1 202 ",
            line: String::new(),
        }
    })
}

/// Returns requests for new links, each to another destination.
pub fn new_links() -> Arc<Script> {
    Arc::new(|_| {
        let body = format!(
            r#"{{"url":"https://example.com/new/{:016x}"}}"#,
            fastrand::u64(..)
        );
        let (length, client) = (body.len(), forwarded());
        Exchange {
            request: format!(
                "POST /shorten HTTP/1.1\r\n{PROGRAM}Content-Length: {length}\r\n{client}\r\n{body}"
            )
            .into_bytes(),
            status: "HTTP/1.1 201 ",
            line: String::new(),
        }
    })
}

fn redirect(asked: usize, expected: usize) -> Exchange {
    Exchange {
        request: get(&code(asked)),
        status: "HTTP/1.1 302 ",
        line: format!("location: {}", target(expected)),
    }
}

/// Returns a browser's request for a path.
fn get(path: &str) -> Vec<u8> {
    let client = forwarded();
    format!("GET /{path} HTTP/1.1\r\n{BROWSER}{client}\r\n").into_bytes()
}

/// Returns what a gateway says about one of the clients.
fn forwarded() -> String {
    let client = client(fastrand::u32(..CLIENTS));
    format!("X-Real-IP: {client}\r\nX-Forwarded-For: {client}\r\nX-Forwarded-Proto: https\r\n")
}

/// Returns the address of a client.
fn client(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK.to_bits() + number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(exchange: &Exchange) -> &str {
        std::str::from_utf8(&exchange.request).unwrap()
    }

    #[test]
    fn every_client_has_an_address_of_the_network_for_benchmarks() {
        assert_eq!(client(0).to_string(), "198.18.0.0");
        let [a, b, ..] = client(CLIENTS - 1).octets();
        assert!(a == 198 && (18..20).contains(&b));
    }

    #[test]
    fn a_redirect_asks_for_a_code_and_expects_its_destination() {
        let exchange = every_link(10)(13);
        let request = text(&exchange);
        assert!(
            request.starts_with("GET /b000003 HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains("\r\nX-Forwarded-For: 198.18."),
            "{request}"
        );
        assert!(request.ends_with("https\r\n\r\n"), "{request}");
        assert_eq!(exchange.line, format!("location: {}", target(3)));
    }

    #[test]
    fn every_new_link_has_another_destination() {
        let script = new_links();
        assert_ne!(script(0).request, script(0).request);
    }

    #[test]
    fn a_job_is_as_long_as_its_head_says() {
        let exchange = jobs()(0);
        let (head, body) = text(&exchange).split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())));
        assert_eq!(body, JOB);
    }
}
