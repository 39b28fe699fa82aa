//! A request, and the check of its response.

use anyhow::{Context, Result, ensure};

/// A request and the expected response.
pub struct Exchange {
    /// The bytes of the request.
    pub request: Vec<u8>,
    /// The expected beginning of the response.
    pub status: &'static str,
    /// An expected header line of the response, without the end of line; empty for none.
    pub line: String,
}

/// A function that returns the exchange with this number.
pub type Script = dyn Fn(usize) -> Exchange + Send + Sync;

impl Exchange {
    /// Checks a response that ends there.
    ///
    /// # Errors
    /// Fails if the response is another one, and shows it.
    pub fn check(&self, answer: &[u8], end: End) -> Result<()> {
        let text = String::from_utf8_lossy(answer);
        ensure!(
            !text.starts_with("HTTP/1.1 429 "),
            "the rate limit refused a request: raise CLIENTS in workloads/bench/src/requests.rs, so that each client \
             sends less: {text}"
        );
        let right = text.starts_with(self.status)
            && (self.line.is_empty() || text.lines().any(|line| same(line, &self.line)));
        ensure!(
            right && end.length == answer.len(),
            "the response is not {} with {:?}: {text}",
            self.status,
            self.line
        );
        Ok(())
    }
}

/// The end of a response, as its head tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The length of the whole response.
    pub length: usize,
    /// True if the server closes the connection then.
    pub closes: bool,
}

impl End {
    /// Returns the end of a response, once all of it has arrived.
    ///
    /// # Errors
    /// Fails if the head does not tell the length of the body.
    pub fn of(answer: &[u8]) -> Result<Option<Self>> {
        let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&answer[..head])?;
        let (mut length, mut closes) = (None, false);
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse::<usize>()?);
            } else if name.eq_ignore_ascii_case("connection") {
                closes = value.trim().eq_ignore_ascii_case("close");
            }
        }
        let body = length.with_context(|| format!("the response has no content-length: {text}"))?;
        let length = head + 4 + body;
        Ok((length <= answer.len()).then_some(Self { length, closes }))
    }
}

/// Describes a connection that ended before all of a response had arrived.
pub fn closed(answer: &[u8]) -> String {
    let answer = String::from_utf8_lossy(answer);
    format!("the server closed the connection after: {answer}")
}

/// Compares header lines: names are case-insensitive, values are not.
fn same(line: &str, expected: &str) -> bool {
    let (Some((name, value)), Some((wanted, right))) =
        (line.split_once(": "), expected.split_once(": "))
    else {
        return false;
    };
    name.eq_ignore_ascii_case(wanted) && value == right
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expecting(line: &str) -> Exchange {
        Exchange {
            request: Vec::new(),
            status: "HTTP/1.1 302 ",
            line: line.to_owned(),
        }
    }

    fn end(answer: &str) -> End {
        End::of(answer.as_bytes()).unwrap().unwrap()
    }

    fn refusal(exchange: &Exchange, answer: &str) -> Option<String> {
        let checked = exchange.check(answer.as_bytes(), end(answer));
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn an_answer_ends_with_its_body_and_tells_if_the_connection_does() {
        let answer = "HTTP/1.1 302 Found\r\nContent-Length: 2\r\n\r\nok";
        for arrived in 0..answer.len() {
            assert_eq!(End::of(&answer.as_bytes()[..arrived]).unwrap(), None);
        }
        let expected = |length, closes| End { length, closes };
        assert_eq!(end(answer), expected(answer.len(), false));
        let last = "HTTP/1.1 302 Found\r\nConnection: close\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(end(last), expected(last.len(), true));
        assert!(End::of(b"HTTP/1.1 302 Found\r\n\r\n").is_err());
    }

    #[test]
    fn a_header_is_the_same_whatever_the_case_of_its_name() {
        assert!(same("location: https://a/B", "Location: https://a/B"));
        assert!(!same("location: https://a/b", "Location: https://a/B"));
        assert!(!same("location", "Location: https://a/B"));
    }

    #[test]
    fn another_status_another_header_and_a_refusal_are_errors_that_show_the_response() {
        let exchange = expecting("location: https://a");
        let right = "HTTP/1.1 302 Found\r\nLocation: https://a\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(refusal(&exchange, right), None);
        for (answer, expected) in [
            (right.replace("302", "301"), "HTTP/1.1 301"),
            (right.replace("//a", "//b"), "//b"),
            (right.replace("302", "429"), "raise CLIENTS"),
        ] {
            let error = refusal(&exchange, &answer).unwrap();
            assert!(error.contains(expected), "{error}");
        }
        let longer = format!("{right}x");
        assert!(exchange.check(longer.as_bytes(), end(right)).is_err());
    }
}
