//! The settings of the console.

use clap::{ArgAction, Args};
use http::{HeaderMap, header::HOST};

/// The console, and where it is.
#[derive(Clone, Debug, Args)]
pub struct ConsoleArgs {
    /// Serves the console at `/console` if true.
    #[arg(long, env, default_value_t = false, action = ArgAction::Set)]
    pub console_enabled: bool,
    /// Host on which alone the console is, beside the hosts of links. Without it, the console is on each of these.
    #[arg(long, env)]
    pub console_host: Option<String>,
}

impl ConsoleArgs {
    /// Returns true if the console answers a request with these headers.
    pub fn answers(&self, headers: &HeaderMap) -> bool {
        self.console_enabled && (self.console_host.is_none() || self.is_own_host(headers))
    }

    /// Returns true if a request is for the host that the console has for itself.
    pub fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let own = self.console_host.as_deref().zip(host);
        own.is_some_and(|(own, host)| {
            let (name, port) = host.split_at_checked(own.len()).unwrap_or_default();
            name.eq_ignore_ascii_case(own) && (port.is_empty() || port.starts_with(':'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_with_a_host_of_its_own_is_nowhere_else() {
        let console = |enabled, host: Option<&str>| ConsoleArgs {
            console_enabled: enabled,
            console_host: host.map(str::to_owned),
        };
        let own = Some("console.example.com");
        for (host, on_own) in [
            ("console.example.com", true),
            ("Console.Example.com:8443", true),
            ("console.example.com.evil.example", false),
            ("console.example.co", false),
            ("go.example.com", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            assert_eq!(console(true, own).answers(&headers), on_own, "{host}");
            assert_eq!(console(true, own).is_own_host(&headers), on_own, "{host}");
            assert!(!console(false, own).answers(&headers));
            assert!(console(true, None).answers(&headers));
            assert!(!console(true, None).is_own_host(&headers));
        }
        assert!(!console(true, own).answers(&HeaderMap::new()));
    }
}
