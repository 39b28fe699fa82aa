//! The connection from the user's machine to a stack's broker: the credentials come from the stack's Secret, and
//! requests go through a port-forward or to a given address.

use std::time::Duration;

use http::Uri;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, Client, ResourceExt, api::ListParams};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use shortener_operator_core::{
    api::{CaRef, ShortenerStack},
    model::{
        access::{self, Access, Part},
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        metadata::{Component, component_name, selector_labels},
        topology::MANAGEMENT_PORT,
    },
    plan::stores,
};
use tower::BoxError;

use super::Stack;
use crate::{
    cli::cluster::ConnectError,
    rabbitmq::broker::{Broker, Login},
    transport::{self, Transport},
};

/// Time limit of one request: a thousand messages may pass through a port-forward.
const LIMIT: Duration = Duration::from_secs(60);
/// Nominal address of requests through a port-forward.
const FORWARDED: &str = "http://localhost:15672";

/// An error that prevents access to a stack's broker.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    /// There is no connection to the cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The API server refused a read or did not answer.
    #[error("cannot read {what}: {source}")]
    Read {
        /// Object that was to be read.
        what: String,
        source: kube::Error,
    },
    /// The object does not exist.
    #[error("{0} not found: check --namespace, and that the stack has the profile queue")]
    Missing(String),
    /// A Secret lacks an entry.
    #[error("Secret {secret} has no {what}: add it")]
    Incomplete {
        /// Name of the Secret.
        secret: String,
        /// Missing entry.
        what: String,
    },
    /// The broker is external, so only the user knows the address of its management API.
    #[error(
        "the broker of stack {0} is external: pass the address of its management API with --management-url"
    )]
    External(String),
    /// The given text is not an `http://` or `https://` address.
    #[error(
        "--management-url: {0} is not an address: write http:// or https://, a host and a port"
    )]
    Address(Uri),
    /// The client for `https` cannot be set up, for example without any trusted certificates.
    #[error("--management-url: cannot set up https: {0}")]
    Tls(#[source] kube::Error),
}

/// Returns a client for the broker of a stack. Reads the credentials from the stack's Secret.
pub async fn broker(stack: &Stack) -> Result<Broker, ReachError> {
    let (client, namespace) = stack.location.connect().await?;
    let cluster = Cluster { client, namespace };
    let found = cluster.stack(&stack.name).await?;
    let BrokerAccess { login, vhost, own } = cluster.credentials(&stack.name, &found).await?;
    let (transport, base) = match &stack.management_url {
        Some(url) => {
            let authorities = cluster.authorities(&found).await?;
            (by_address(url, authorities)?, url.to_string())
        }
        None if own => (cluster.forward(&stack.name).await?, FORWARDED.to_owned()),
        None => return Err(ReachError::External(stack.name.clone())),
    };
    let broker = Broker::new(transport, &base, login, LIMIT);
    Ok(match vhost {
        Some(vhost) => broker.in_vhost(&vhost),
        None => broker,
    })
}

/// Returns a transport to the management API. With `https`, one of `authorities` (DER) must have signed its certificate.
fn by_address(url: &Uri, authorities: Option<Vec<Vec<u8>>>) -> Result<Transport, ReachError> {
    match url.scheme_str() {
        Some("http") => Ok(transport::http()),
        Some("https") => transport::https(url.clone(), authorities).map_err(ReachError::Tls),
        _ => Err(ReachError::Address(url.clone())),
    }
}

/// The access to a broker, as a Secret describes it.
#[derive(Debug, PartialEq, Eq)]
struct BrokerAccess {
    login: Login,
    /// Virtual host, percent-encoded; the default one if absent.
    vhost: Option<String>,
    /// True when the operator manages the broker.
    own: bool,
}

struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    async fn stack(&self, name: &str) -> Result<ShortenerStack, ReachError> {
        let what = format!("ShortenerStack {name} in namespace {}", self.namespace);
        let stacks: Api<ShortenerStack> = Api::namespaced(self.client.clone(), &self.namespace);
        read(stacks.get_opt(name).await, &what)
    }

    /// Returns the authorities (DER) of an external broker, which are those of its management API as well; `None` if
    /// the spec names none.
    async fn authorities(
        &self,
        found: &ShortenerStack,
    ) -> Result<Option<Vec<Vec<u8>>>, ReachError> {
        let external = found.spec.queue.external.as_ref();
        let tls = external.and_then(|external| external.tls.as_ref());
        let Some(CaRef { name, key }) = tls.and_then(|tls| tls.ca_secret_ref.as_ref()) else {
            return Ok(None);
        };
        let secret = self.secret(name).await?;
        let authorities = transport::certificates(&entry(&secret, key)?);
        let what = format!("certificate (PEM) under key {key}");
        let secret = name.clone();
        authorities
            .map(Some)
            .ok_or(ReachError::Incomplete { secret, what })
    }

    async fn credentials(
        &self,
        stack: &str,
        found: &ShortenerStack,
    ) -> Result<BrokerAccess, ReachError> {
        let Some(external) = found.spec.queue.external.clone() else {
            let name = component_name(stack, Component::Rabbitmq);
            let secret = self.secret(&name).await?;
            return Ok(BrokerAccess {
                login: Login {
                    username: entry(&secret, USERNAME_KEY)?,
                    password: entry(&secret, PASSWORD_KEY)?,
                },
                vhost: None,
                own: true,
            });
        };
        let reference = external.secret_ref;
        let secret = self.secret(&reference.name).await?;
        let data = secret.data.clone().unwrap_or_default();
        let access = access::find(
            stores::parts(Component::Rabbitmq),
            reference.key.as_deref(),
            &data,
        );
        match access {
            Some(Access::Url(key)) => {
                of_url(&entry(&secret, &key)?).ok_or_else(|| ReachError::Incomplete {
                    secret: reference.name,
                    what: format!("URL with user and password under key {key}"),
                })
            }
            Some(Access::Parts(parts)) => of_parts(&secret, &parts),
            None => Err(ReachError::Incomplete {
                what: format!("key {}", access::wanted(&reference)),
                secret: reference.name,
            }),
        }
    }

    async fn secret(&self, name: &str) -> Result<Secret, ReachError> {
        let what = format!("Secret {name} in namespace {}", self.namespace);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        read(secrets.get_opt(name).await, &what)
    }

    /// Returns a transport that opens a port-forward through the API server for each request.
    async fn forward(&self, stack: &str) -> Result<Transport, ReachError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let what = format!("pod of the broker in namespace {}", self.namespace);
        let labels = selector_labels(stack, Component::Rabbitmq);
        let labels: Vec<String> = labels
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let found = pods
            .list(&ListParams::default().labels(&labels.join(",")))
            .await;
        let pod = read(found.map(|list| list.items.into_iter().next()), &what)?.name_any();
        Ok(transport::over(move || {
            let (pods, pod) = (pods.clone(), pod.clone());
            async move {
                let mut forwarder = pods.portforward(&pod, &[MANAGEMENT_PORT]).await?;
                let stream = forwarder.take_stream(MANAGEMENT_PORT);
                stream.ok_or_else(|| {
                    BoxError::from("the port-forward to the broker's pod opened no stream")
                })
            }
        }))
    }
}

fn read<T>(answer: Result<Option<T>, kube::Error>, what: &str) -> Result<T, ReachError> {
    match answer {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(ReachError::Missing(what.to_owned())),
        Err(source) => Err(ReachError::Read {
            what: what.to_owned(),
            source,
        }),
    }
}

fn entry(secret: &Secret, key: &str) -> Result<String, ReachError> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value
        .and_then(|value| String::from_utf8(value.0.clone()).ok())
        .ok_or_else(|| ReachError::Incomplete {
            secret: secret.name_any(),
            what: format!("key {key}"),
        })
}

/// Reads user, password and virtual host from separate keys.
fn of_parts(secret: &Secret, parts: &[(Part, &'static str)]) -> Result<BrokerAccess, ReachError> {
    let key = |wanted: Part| parts.iter().find(|(part, _)| *part == wanted);
    let value =
        |wanted: Part, name: &'static str| entry(secret, key(wanted).map_or(name, |(_, key)| *key));
    let vhost = key(Part::VirtualHost).map(|(_, key)| entry(secret, key));
    Ok(BrokerAccess {
        login: Login {
            username: value(Part::Username, USERNAME_KEY)?,
            password: value(Part::Password, PASSWORD_KEY)?,
        },
        vhost: vhost
            .transpose()?
            .map(|vhost| utf8_percent_encode(&vhost, NON_ALPHANUMERIC).to_string()),
        own: false,
    })
}

/// Parses user, password and virtual host from `amqp[s]://user:password@host:port/vhost`.
fn of_url(url: &str) -> Option<BrokerAccess> {
    let (_, rest) = url.trim().split_once("://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (userinfo, _) = authority.rsplit_once('@')?;
    let (username, password) = userinfo.split_once(':')?;
    let vhost = path.split(['?', '#']).next().unwrap_or_default();
    Some(BrokerAccess {
        login: Login {
            username: decode(username)?,
            password: decode(password)?,
        },
        vhost: (!vhost.is_empty()).then(|| vhost.to_owned()),
        own: false,
    })
}

fn decode(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(username: &str, password: &str, vhost: Option<&str>) -> Option<BrokerAccess> {
        Some(BrokerAccess {
            login: Login {
                username: username.to_owned(),
                password: password.to_owned(),
            },
            vhost: vhost.map(str::to_owned),
            own: false,
        })
    }

    #[test]
    fn an_external_broker_is_known_by_its_url() {
        let table = [
            ("amqp://u:p@host:5672/%2f", found("u", "p", Some("%2f"))),
            ("amqps://u:p@host", found("u", "p", None)),
            ("amqp://u:p@host:5672", found("u", "p", None)),
            // The form that RabbitMQ's own operator writes.
            ("amqp://u:p@host:5672/", found("u", "p", None)),
            ("amqp://u:p@host:5672/vh", found("u", "p", Some("vh"))),
            (
                "amqp://u:p%40%2F@host/links?heartbeat=10",
                found("u", "p@/", Some("links")),
            ),
            ("amqp://host:5672/%2f", None),
            ("no address", None),
        ];
        for (url, expected) in table {
            assert_eq!(of_url(url), expected, "{url}");
        }
    }

    #[test]
    fn an_external_broker_is_known_by_the_parts_of_its_secret() {
        let secret: Secret = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "mq"},
            // host, user "u", password "p@/" and virtual host "a/b", in Base64.
            "data": {"host": "aG9zdA==", "user": "dQ==", "password": "cEAv", "vhost": "YS9i"},
        }))
        .unwrap();
        let data = secret.data.clone().unwrap();
        let Some(Access::Parts(parts)) =
            access::find(stores::parts(Component::Rabbitmq), None, &data)
        else {
            panic!("no parts are found");
        };
        let told = of_parts(&secret, &parts).unwrap();
        assert_eq!(Some(told), found("u", "p@/", Some("a%2Fb")));
        let without_user = &parts[..1];
        let error = of_parts(&secret, without_user).unwrap_err().to_string();
        assert_eq!(error, "Secret mq has no key username: add it");
    }

    #[test]
    fn an_address_needs_a_scheme() {
        for url in ["localhost:15672", "/api", "ftp://host/"] {
            let error = by_address(&url.parse().unwrap(), None).unwrap_err();
            assert!(error.to_string().contains("--management-url"), "{error}");
        }
        assert!(by_address(&"http://localhost:15672".parse().unwrap(), None).is_ok());
    }
}
