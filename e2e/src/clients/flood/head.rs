//! Heads of answers to the requests of a flood.

/// What a client needs from the head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// Number of bytes of the body; unset if only the end of the connection tells.
    pub length: Option<u64>,
    /// True if the connection takes another request after the body.
    pub stays: bool,
}

impl Head {
    /// Reads a complete head. Returns `None` if it is not one of HTTP/1.1.
    pub fn read(head: &str) -> Option<Self> {
        let mut lines = head.lines();
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
        let (mut length, mut closes) = (None, false);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().ok();
            } else if name.eq_ignore_ascii_case("connection") {
                closes = value.eq_ignore_ascii_case("close");
            }
        }
        Some(Self {
            status: status.parse().ok()?,
            length,
            stays: length.is_some() && !closes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stays_after_a_body_of_known_length() {
        let head = |text, expected: Option<(u16, Option<u64>, bool)>| {
            let read = Head::read(text).map(|head| (head.status, head.length, head.stays));
            assert_eq!(read, expected, "{text}");
        };
        head(
            "HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\nx: y",
            Some((404, Some(12), true)),
        );
        head(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nConnection: close",
            Some((503, Some(0), false)),
        );
        head(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
            Some((200, None, false)),
        );
        for wrong in ["", "HTTP/1.1 20", "HTTP/1.1 abc", "HTTP/1.0 200 OK"] {
            head(wrong, None);
        }
    }
}
