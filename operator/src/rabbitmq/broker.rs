//! Client for RabbitMQ's management API, as far as the operator uses it.
//!
//! Each method sends one request and does not retry; the retries are up to the caller.

mod clients;
pub mod counters;
mod error;
mod login;

use std::{borrow::Cow, time::Duration};

use http::{Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use shortener_operator_core::model::{
    queue_state::{Depth, Depths},
    topology::{DEAD_LETTERS, JOBS, Policy},
};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::{telemetry, transport::Transport};
pub use error::BrokerError;
pub use login::Login;

/// Maximum size of a response in bytes. The longest are the metrics of a member, with a megabyte about the memory of 100
/// processors. The operator may have one response of each of several brokers in memory.
pub const MAX_ANSWER: usize = 2 << 20;
/// Maximum size in bytes of a list of queues, channels or connections: half of it is enough for 1000 app pods and as many
/// workers.
const MAX_LIST: usize = 1 << 20;
/// Maximum size in bytes of a list that is short on every broker.
const MAX_SHORT_LIST: usize = 64 << 10;
/// Maximum length of the broker's reason for an error, in characters.
const MAX_REASON: usize = 200;
/// The default virtual host, percent-encoded.
const VHOST: &str = "%2F";

#[derive(Deserialize)]
struct QueueRow {
    name: String,
    messages_ready: Option<i64>,
    messages_unacknowledged: Option<i64>,
    message_bytes: Option<i64>,
}

impl QueueRow {
    /// Returns the depth; `None` without statistics, or with numbers that no queue has.
    fn depth(&self) -> Option<Depth> {
        let (ready, unacked) = (self.messages_ready?, self.messages_unacknowledged?);
        (ready >= 0 && unacked >= 0).then_some(Depth { ready, unacked })
    }
}

#[derive(Deserialize)]
struct FeatureFlag {
    name: String,
    state: String,
    stability: String,
}

/// The body of an error response.
#[derive(Deserialize)]
struct ErrorBody {
    reason: String,
}

/// A client for a broker's management API.
#[derive(Clone, Debug)]
pub struct Broker {
    transport: Transport,
    /// Base URL without a trailing slash.
    base: String,
    login: Login,
    limit: Duration,
}

impl Broker {
    /// Creates a client for a base URL such as `http://host:15672`. Sends no request.
    pub fn new(transport: Transport, base: &str, login: Login, limit: Duration) -> Self {
        Self {
            transport,
            base: base.trim_end_matches('/').to_owned(),
            login,
            limit,
        }
    }

    /// Returns the depths of the stack's queues.
    ///
    /// # Errors
    /// [`BrokerError`]
    pub async fn depths(&self) -> Result<Depths, BrokerError> {
        let path = format!(
            "queues/{VHOST}?columns=name,messages_ready,messages_unacknowledged,message_bytes"
        );
        let rows: Vec<QueueRow> = self.read(&path, MAX_LIST).await?;
        let row = |name: &str| rows.iter().find(|row| row.name == name);
        let dead_letters = row(DEAD_LETTERS);
        Ok(Depths {
            jobs: row(JOBS).and_then(QueueRow::depth),
            dead_letters: dead_letters.and_then(QueueRow::depth).map(Depth::total),
            dead_letter_bytes: dead_letters.and_then(|row| row.message_bytes),
            // The management API does not have it.
            dropped: None,
        })
    }

    /// Returns the names of the stable feature flags that are off. RabbitMQ before 3.13 shows them to administrators only.
    ///
    /// # Errors
    /// [`BrokerError`]
    pub async fn disabled_flags(&self) -> Result<Vec<String>, BrokerError> {
        let path = "feature-flags?columns=name,state,stability";
        let flags: Vec<FeatureFlag> = self.read(path, MAX_SHORT_LIST).await?;
        let off = flags
            .into_iter()
            .filter(|flag| flag.state == "disabled" && flag.stability == "stable");
        Ok(off.map(|flag| flag.name).collect())
    }

    /// Returns the reason of an alarm, during which the broker accepts no messages; `None` without an alarm. That of one
    /// member stops all of them, and any member answers.
    ///
    /// # Errors
    /// [`BrokerError`]
    pub async fn alarm(&self) -> Result<Option<String>, BrokerError> {
        let path = "health/checks/alarms";
        match self.send(Method::GET, path, None).await {
            Ok(_) => Ok(None),
            Err(BrokerError::Refused { status, reason })
                if status == StatusCode::SERVICE_UNAVAILABLE =>
            {
                Ok(Some(reason))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns every policy of the virtual host.
    ///
    /// # Errors
    /// [`BrokerError`]
    pub async fn policies(&self) -> Result<Vec<Policy>, BrokerError> {
        let path = format!("policies/{VHOST}");
        self.read(&path, MAX_SHORT_LIST).await
    }

    /// Sets a policy; it takes effect at once.
    ///
    /// # Errors
    /// [`BrokerError`]
    pub async fn set_policy(&self, policy: &Policy) -> Result<(), BrokerError> {
        let path = format!("policies/{VHOST}/{}", policy.name);
        let body = serde_json::to_value(policy)?;
        self.send(Method::PUT, &path, Some(body)).await?;
        Ok(())
    }

    /// Reads a list of at most this number of bytes. What it becomes in memory is several times as large.
    async fn read<T: DeserializeOwned>(&self, path: &str, max: usize) -> Result<T, BrokerError> {
        let body = self.send(Method::GET, path, None).await?;
        if body.len() > max {
            return Err(BrokerError::TooLong(max));
        }
        Ok(serde_json::from_slice(&body)?)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Bytes, BrokerError> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("{}/api/{path}", self.base))
            .header(header::AUTHORIZATION, self.login.header()?)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let uri = request.uri().clone();
        let answer = self.transport.clone().oneshot(request);
        let answer = telemetry::http::request(&method, &uri, || resource(path), answer);
        let answer = timeout(self.limit, answer)
            .await
            .map_err(|_| BrokerError::Silent(self.limit))?
            .map_err(BrokerError::Unreachable)?;
        let (head, body) = answer.into_parts();
        match head.status {
            status if status.is_success() => Ok(body),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(BrokerError::Denied),
            status => Err(BrokerError::Refused {
                status,
                reason: reason(&body),
            }),
        }
    }
}

/// Returns the part of a path that names the kind of resource, without any name of a user.
fn resource(path: &str) -> Cow<'static, str> {
    let end = path.find(['/', '?']).unwrap_or(path.len());
    Cow::Owned(path[..end].to_owned())
}

/// Returns the start of the broker's reason for an error, or of the body if it contains none.
fn reason(body: &Bytes) -> String {
    let told: Cow<'_, str> = match serde_json::from_slice(body) {
        Ok(ErrorBody { reason }) => Cow::Owned(reason),
        Err(_) => String::from_utf8_lossy(body),
    };
    told.chars().take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::broker::FakeBroker;

    fn depth(ready: i64, unacked: i64) -> Depth {
        Depth { ready, unacked }
    }

    #[tokio::test]
    async fn the_depth_of_a_queue_is_ready_and_unacknowledged_messages() {
        let fake = FakeBroker::default();
        fake.holds(JOBS, depth(3, 1));
        fake.holds(DEAD_LETTERS, depth(2, 0));
        let depths = fake.broker().depths().await.unwrap();
        assert_eq!(depths.jobs, Some(depth(3, 1)));
        assert_eq!(depths.jobs.unwrap().total(), 4);
        assert_eq!(depths.dead_letters, Some(2));
        assert_eq!(depths.dead_letter_bytes, Some(200));
    }

    #[tokio::test]
    async fn numbers_that_no_queue_has_are_no_depth_and_the_largest_ones_are() {
        let fake = FakeBroker::default();
        let most = i64::MAX;
        fake.holds(JOBS, depth(most, most));
        fake.holds(DEAD_LETTERS, depth(most, most));
        let depths = fake.broker().depths().await.unwrap();
        assert_eq!(depths.jobs, Some(depth(most, most)));
        assert_eq!(depths.dead_letters, Some(most));
        for (ready, unacked) in [(-1, 3), (3, -1), (i64::MIN, i64::MIN)] {
            fake.holds(JOBS, depth(ready, unacked));
            fake.holds(DEAD_LETTERS, depth(ready, unacked));
            let depths = fake.broker().depths().await.unwrap();
            assert_eq!((depths.jobs, depths.dead_letters), (None, None));
        }
    }

    #[tokio::test]
    async fn a_broker_that_has_just_started_knows_no_depth() {
        let fake = FakeBroker::default();
        fake.without_statistics();
        assert_eq!(fake.broker().depths().await.unwrap(), Depths::default());
    }

    #[tokio::test]
    async fn an_alarm_is_told_in_the_brokers_words() {
        let fake = FakeBroker::default();
        assert_eq!(fake.broker().alarm().await.unwrap(), None);
        fake.raise_alarm("There are alarms in effect in the cluster");
        assert_eq!(
            fake.broker().alarm().await.unwrap().as_deref(),
            Some("There are alarms in effect in the cluster")
        );
    }

    #[tokio::test]
    async fn an_endless_reason_is_cut() {
        let fake = FakeBroker::default();
        fake.raise_alarm(&"\u{e4}".repeat(MAX_ANSWER));
        let alarm = fake.broker().alarm().await.unwrap();
        assert_eq!(alarm, Some("\u{e4}".repeat(MAX_REASON)));
        let elements = format!("[{}0]", "0,".repeat(MAX_LIST));
        let body = format!(r#"{{"reason":{elements}}}"#);
        assert_eq!(reason(&Bytes::from(body.clone())), &body[..MAX_REASON]);
    }

    #[tokio::test]
    async fn a_list_that_is_too_long_is_not_taken_apart() {
        let fake = FakeBroker::default();
        let long = "x".repeat(MAX_LIST);
        fake.holds(&long, depth(0, 0));
        fake.has_flag(&long[..MAX_SHORT_LIST], "disabled", "stable");
        fake.connect(&long, Some(1));
        let broker = fake.broker();
        let flags = broker.disabled_flags().await.unwrap_err();
        assert!(matches!(flags, BrokerError::TooLong(MAX_SHORT_LIST)));
        let errors = [
            broker.depths().await.unwrap_err(),
            broker.busy_clients().await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, BrokerError::TooLong(MAX_LIST)), "{error}");
        }
    }

    #[tokio::test]
    async fn stable_feature_flags_that_are_off_are_named() {
        let fake = FakeBroker::default();
        assert_eq!(fake.broker().disabled_flags().await.unwrap(), [""; 0]);
        fake.has_flag("quorum_queue", "enabled", "required");
        fake.has_flag("khepri_db", "disabled", "stable");
        fake.has_flag("try_it", "disabled", "experimental");
        fake.has_flag("rabbit_exchange_type", "enabled", "stable");
        assert_eq!(fake.broker().disabled_flags().await.unwrap(), ["khepri_db"]);
    }

    #[tokio::test]
    async fn what_goes_wrong_is_told_apart() {
        let fake = FakeBroker::default();
        let stranger = Login {
            username: "shortener".to_owned(),
            password: "guess".to_owned(),
        };
        let error = fake.broker_for(stranger).depths().await.unwrap_err();
        assert!(matches!(error, BrokerError::Denied), "{error}");
        fake.go_away();
        let error = fake.broker().depths().await.unwrap_err();
        assert!(matches!(error, BrokerError::Unreachable(_)), "{error}");
    }

    #[test]
    fn a_password_shows_in_no_log() {
        let login = Login {
            username: "shortener".to_owned(),
            password: "s3cret".to_owned(),
        };
        assert!(!format!("{login:?}").contains("s3cret"));
        assert!(!format!("{:?}", login.header().unwrap()).contains("c2hvcn"));
    }
}
