//! The settings of the message broker.

use anyhow::anyhow;
use clap::{ArgAction, Args};
use lapin::uri::{AMQPScheme, AMQPUri};
use url::{Host, Url};

use super::{QueueTlsFiles, given, port, without_brackets};
use crate::queue::Broker;

/// The default port of a broker with TLS.
const AMQPS_PORT: u16 = 5671;
/// The virtual host that every broker has.
const DEFAULT_VHOST: &str = "/";

/// Address and credentials of the message broker.
#[derive(Clone, Debug, Args)]
pub struct QueueArgs {
    /// `amqp[s]://host:port/vhost`, with or without credentials; the queue profile is off without a URL or host.
    #[arg(long, env, hide_env_values = true)]
    pub queue_url: Option<String>,
    /// Host name or address of the broker, as an alternative to a URL.
    #[arg(long, env)]
    pub queue_host: Option<String>,
    /// Port of the broker, used with the host; 5672 by default, and 5671 with TLS.
    #[arg(long, env, value_parser = port)]
    pub queue_port: Option<u16>,
    /// Virtual host of the broker, used with the host; the default virtual host if absent.
    #[arg(long, env)]
    pub queue_vhost: Option<String>,
    /// User name; takes precedence over the user in the URL.
    #[arg(long, env)]
    pub queue_username: Option<String>,
    /// Password; takes precedence over the password in the URL.
    #[arg(long, env, hide_env_values = true)]
    pub queue_password: Option<String>,
    /// Uses TLS whatever the scheme of the URL is, and verifies the broker's certificate.
    #[arg(long, env, default_value_t = false, action = ArgAction::Set)]
    pub queue_tls: bool,
    /// The certificates.
    #[command(flatten)]
    pub tls: QueueTlsFiles,
}

impl QueueArgs {
    /// Returns the broker, or `None` if the queue profile is off.
    ///
    /// # Errors
    /// Fails if the URL is malformed, or if a certificate cannot be read. The message repeats no secret.
    pub fn broker(&self) -> anyhow::Result<Option<Broker>> {
        let Some(uri) = self.uri()? else {
            return Ok(None);
        };
        let tls = self.tls.settings(self.queue_tls).read()?;
        Ok(Some(Broker {
            uri,
            tls: tls.unwrap_or_default(),
        }))
    }

    /// Returns the address of the broker with credentials, or `None` if the queue profile is off. An empty virtual
    /// host means the default one, because RabbitMQ's operator writes URLs that end in `/`.
    ///
    /// # Errors
    /// Fails if the URL is malformed. The message does not repeat the URL, because it may contain a password.
    pub fn uri(&self) -> anyhow::Result<Option<AMQPUri>> {
        let (mut uri, has_port) = match (given(&self.queue_url), given(&self.queue_host)) {
            (Some(url), _) => of_url(url)?,
            (None, Some(host)) => (self.of_parts(host), self.queue_port.is_some()),
            (None, None) => return Ok(None),
        };
        if self.tls.settings(self.queue_tls).is_on() {
            uri.scheme = AMQPScheme::AMQPS;
            if !has_port {
                uri.authority.port = AMQPS_PORT;
            }
        }
        if uri.vhost.is_empty() {
            uri.vhost = DEFAULT_VHOST.to_owned();
        }
        let user = &mut uri.authority.userinfo;
        if let Some(username) = given(&self.queue_username) {
            user.username = username.to_owned();
        }
        if let Some(password) = given(&self.queue_password) {
            user.password = password.to_owned();
        }
        Ok(Some(uri))
    }

    fn of_parts(&self, host: &str) -> AMQPUri {
        let mut uri = AMQPUri::default();
        uri.authority.host = without_brackets(host).to_owned();
        uri.authority.port = self.queue_port.unwrap_or(uri.authority.port);
        given(&self.queue_vhost)
            .unwrap_or_default()
            .clone_into(&mut uri.vhost);
        uri
    }
}

/// Parses the address of a broker. The second value is true if it contains a port.
fn of_url(text: &str) -> anyhow::Result<(AMQPUri, bool)> {
    let url: Url = text
        .parse()
        .map_err(|error| anyhow!("QUEUE_URL is invalid: {error}"))?;
    let mut uri: AMQPUri = text
        .parse()
        .map_err(|_| anyhow!("QUEUE_URL is invalid: it must be like amqp://host:5672/%2f"))?;
    // The library reads an IPv6 address in brackets as a missing host, and a missing host as localhost.
    uri.authority.host = match url.host() {
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(_) => uri.authority.host,
        None => return Err(anyhow!("QUEUE_URL is invalid: it has no host")),
    };
    Ok((uri, url.port().is_some()))
}
