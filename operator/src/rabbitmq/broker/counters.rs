//! The counters that a broker exports in the Prometheus text format, as far as the operator uses them.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use tokio::time::timeout;
use tower::ServiceExt;

use super::BrokerError;
use crate::transport::Transport;

/// Counter of the messages that left a queue because it was full.
const DROPPED: &str = "rabbitmq_global_messages_dead_lettered_maxlen_total";
/// Labels of queues such as the dead-letter queue: quorum queues whose messages go nowhere from there.
const OF_DEAD_LETTERS: [&str; 2] = [
    r#"queue_type="rabbit_quorum_queue""#,
    r#"dead_letter_strategy="disabled""#,
];

/// Returns the number of dead letters that a broker has dropped since its start because their queue was full, or `None`
/// if the broker does not count them. Queues of that kind that users add to the broker count as well.
///
/// # Errors
/// [`BrokerError`]
pub async fn dropped(
    transport: &Transport,
    url: &str,
    limit: Duration,
) -> Result<Option<u64>, BrokerError> {
    let request = Request::builder()
        .uri(format!("{url}/metrics"))
        .body(Full::default())?;
    let answer = timeout(limit, transport.clone().oneshot(request))
        .await
        .map_err(|_| BrokerError::Silent(limit))?
        .map_err(BrokerError::Unreachable)?;
    let (head, body) = answer.into_parts();
    if !head.status.is_success() {
        return Err(BrokerError::Refused {
            status: head.status,
            reason: "it has no metrics at this address".to_owned(),
        });
    }
    Ok(read(&String::from_utf8_lossy(&body)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count is not negative, and far below the limit of the type"
)]
fn read(exposition: &str) -> Option<u64> {
    let value = |line: &str| {
        let (labels, value) = line.strip_prefix(DROPPED)?.rsplit_once(' ')?;
        let is_meant = OF_DEAD_LETTERS.iter().all(|label| labels.contains(label));
        // The broker prints its counters as floating-point numbers.
        let count = is_meant.then(|| value.parse::<f64>().ok())??;
        (count >= 0.0).then_some(count as u64)
    };
    exposition
        .lines()
        .filter_map(value)
        .reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::broker::FakeBroker;

    #[test]
    fn only_what_left_full_queues_for_good_is_counted() {
        let exposition = concat!(
            "# TYPE rabbitmq_global_messages_dead_lettered_maxlen_total counter\n",
            "# HELP rabbitmq_global_messages_dead_lettered_maxlen_total Messages\n",
            "rabbitmq_global_messages_dead_lettered_maxlen_total{queue_type=\"rabbit_classic_queue\",dead_letter_strategy=\"disabled\"} 5.0\n",
            "rabbitmq_global_messages_dead_lettered_maxlen_total{queue_type=\"rabbit_quorum_queue\",dead_letter_strategy=\"at_most_once\"} 6.0\n",
            "rabbitmq_global_messages_dead_lettered_maxlen_total{queue_type=\"rabbit_quorum_queue\",dead_letter_strategy=\"disabled\"} 7.0\n",
            "rabbitmq_global_messages_dead_lettered_rejected_total{queue_type=\"rabbit_quorum_queue\",dead_letter_strategy=\"disabled\"} 8.0\n",
        );
        assert_eq!(read(exposition), Some(7));
        assert_eq!(read(""), None);
    }

    #[tokio::test]
    async fn a_broker_without_metrics_is_an_error_and_no_zero() {
        let fake = FakeBroker::default();
        let limit = Duration::from_secs(5);
        let url = "http://broker.test:15692";
        fake.drops(3);
        let found = dropped(&fake.transport(), url, limit).await.unwrap();
        assert_eq!(found, Some(3));
        fake.without_metrics();
        let error = dropped(&fake.transport(), url, limit).await.unwrap_err();
        assert!(matches!(error, BrokerError::Unreachable(_)), "{error}");
    }
}
