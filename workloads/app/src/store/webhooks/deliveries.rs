//! The receivers and their deliveries, as management sees them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Time;
use serde::Serialize;
use serde_json::json;
use shortener_common::database::{StoreError, begin};
use sqlx::{FromRow, Row, postgres::PgRow};

use super::Outbox;
use crate::store::audit::{self, Action, Cause, NewEntry};

/// The receivers, with the numbers of deliveries in the states of `$1`, none of which is counted further than to `$2`.
const RECEIVERS: &str = concat!(
    "SELECT name, url, events, last_success_at, ARRAY(SELECT (SELECT count(*) FROM (SELECT FROM webhook_deliveries \
        WHERE receiver = name AND ",
    state!(),
    " = state ORDER BY id LIMIT $2) AS counted) FROM unnest($1::integer[]) WITH ORDINALITY AS states (state, place) ORDER BY place) \
    FROM webhook_receivers ORDER BY name"
);

/// Reads a page of each receiver and state, and takes the latest of all: a choice that has few deliveries is found at once
/// among many others.
const LIST: &str = concat!(
    "SELECT page.* FROM (SELECT name FROM webhook_receivers WHERE $1::text IS NULL OR name = $1) AS chosen, \
    unnest($2::integer[]) AS state, \
    LATERAL (SELECT id, 'msg_' || replace(message_id::text, '-', '') AS message_id, receiver, event, code, at, attempts, \
        CASE WHEN given_up_at IS NULL THEN next_at END AS next_at, last_status, last_error \
        FROM webhook_deliveries WHERE receiver = chosen.name AND ",
    state!(),
    " = state AND id < coalesce($3, 9223372036854775807) ORDER BY id DESC LIMIT $4) AS page \
    ORDER BY id DESC LIMIT $4"
);

/// Makes these failed deliveries due. What was given up begins again.
macro_rules! retry {
    ($($choice:expr),+) => {
        concat!(
            "UPDATE webhook_deliveries SET next_at = now(), given_up_at = NULL, \
            attempts = CASE WHEN given_up_at IS NULL THEN attempts ELSE 0 END WHERE ",
            $($choice,)+
            " RETURNING receiver, event, code"
        )
    };
}

/// An attempt in progress would end beside the other one, and the receiver would get the message twice.
const RETRY_ONE: &str =
    retry!("id = $1 AND attempts > 0 AND (next_at = leased_until AND next_at > now()) IS NOT TRUE");

const HAS_FAILED: &str =
    "SELECT EXISTS (SELECT FROM webhook_deliveries WHERE id = $1 AND attempts > 0)";

const RETRY_ALL: &str = retry!(
    "id IN (SELECT id FROM webhook_deliveries WHERE receiver = $1 AND ",
    state!(),
    " = 0 ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED)"
);

/// The number up to which the deliveries of a receiver are counted in each state.
const MAX_COUNT: i64 = 10_000;
/// The number of deliveries that one request retries.
pub const MAX_RETRIES: usize = 1000;

const IS_KNOWN: &str = "SELECT EXISTS (SELECT FROM webhook_receivers WHERE name = $1)";

/// A receiver with the numbers of its deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReceiverState {
    pub name: String,
    pub url: String,
    pub events: Vec<String>,
    /// Number of deliveries in each state. Of more than 10,000 it is 10,000.
    #[serde(flatten)]
    pub numbers: BTreeMap<DeliveryState, i64>,
    /// Time of the last delivery (RFC 3339); null before the first one.
    pub last_success_at: Option<Timestamp>,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It was given up.
    GivenUp = 0,
    /// It has failed, and is tried again.
    Failing = 1,
    /// Before its first attempt.
    Pending = 2,
}

impl DeliveryState {
    pub const ALL: [(&'static str, Self); 3] = [
        ("pending", Self::Pending),
        ("failing", Self::Failing),
        ("given_up", Self::GivenUp),
    ];
}

/// A delivery that was not made yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// Number of the delivery. Later deliveries have higher ones.
    pub id: i64,
    /// Identity of the message, as the header `webhook-id` has it.
    pub message_id: String,
    pub receiver: String,
    pub event: String,
    /// Code of the link.
    pub code: String,
    /// Time of the event (RFC 3339).
    pub at: Timestamp,
    pub state: DeliveryState,
    /// Number of attempts that have failed.
    pub attempts: i32,
    /// Time of the next attempt (RFC 3339); null if there is none.
    pub next_at: Option<Timestamp>,
    /// Status of the last answer; null if there was none.
    pub last_status: Option<i32>,
    /// A word for why there was no answer.
    pub last_error: Option<String>,
}

impl FromRow<'_, PgRow> for Delivery {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let attempts: i32 = row.try_get("attempts")?;
        let next_at: Option<Time> = row.try_get("next_at")?;
        Ok(Self {
            id: row.try_get("id")?,
            message_id: row.try_get("message_id")?,
            receiver: row.try_get("receiver")?,
            event: row.try_get("event")?,
            code: row.try_get("code")?,
            at: row.try_get("at").map(Time::to_jiff)?,
            state: match next_at {
                None => DeliveryState::GivenUp,
                Some(_) if attempts > 0 => DeliveryState::Failing,
                Some(_) => DeliveryState::Pending,
            },
            attempts,
            next_at: next_at.map(Time::to_jiff),
            last_status: row.try_get("last_status")?,
            last_error: row.try_get("last_error")?,
        })
    }
}

/// The result of a retry of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// It is due now.
    Due,
    /// An attempt is in progress.
    InProgress,
    /// There is none of this number, or no attempt has failed yet.
    Unknown,
}

/// A choice of deliveries. What is `None` excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryQuery {
    pub receiver: Option<String>,
    pub state: Option<DeliveryState>,
    /// The last delivery of the page before.
    pub cursor: Option<i64>,
    /// The maximum number of deliveries on a page.
    pub limit: usize,
}

/// A page of deliveries, the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeliveryPage {
    pub deliveries: Vec<Delivery>,
    /// The value of `cursor` for the next page, as a string; null on the last one.
    pub next: Option<String>,
}

impl Outbox {
    /// Returns the receivers with the numbers of their deliveries.
    pub async fn receivers(&self) -> Result<Vec<ReceiverState>, StoreError> {
        type Row = (String, String, Vec<String>, Option<Time>, Vec<i64>);
        let states = DeliveryState::ALL.map(|(_, state)| state);
        let list = |pool| async move {
            let list = sqlx::query_as(RECEIVERS).bind(states.map(|state| state as i32));
            list.bind(MAX_COUNT).fetch_all(&pool).await
        };
        let rows: Vec<Row> = self.0.run("SELECT webhook_receivers", list).await?;
        let state = |(name, url, events, last, numbers): Row| ReceiverState {
            name,
            url,
            events,
            numbers: states.into_iter().zip(numbers).collect(),
            last_success_at: last.map(Time::to_jiff),
        };
        Ok(rows.into_iter().map(state).collect())
    }

    /// Returns a page of deliveries, the latest first.
    pub async fn list(&self, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
        let states: Vec<i32> = match query.state {
            Some(state) => vec![state as i32],
            None => DeliveryState::ALL.map(|(_, state)| state as i32).to_vec(),
        };
        let list = |pool| async move {
            let list = sqlx::query_as(LIST)
                .bind(query.receiver.as_deref())
                .bind(states)
                .bind(query.cursor)
                // One more shows that there is another page.
                .bind(query.limit as i64 + 1);
            list.fetch_all(&pool).await
        };
        let mut deliveries: Vec<Delivery> = self.0.run("SELECT webhook_deliveries", list).await?;
        let has_more = deliveries.len() > query.limit;
        deliveries.truncate(query.limit);
        let last = deliveries.last().filter(|_| has_more);
        let next = last.map(|delivery| delivery.id.to_string());
        Ok(DeliveryPage { deliveries, next })
    }

    /// Makes a failed delivery due.
    ///
    /// # Errors
    /// Fails if the database is down. The change may then have been made.
    pub async fn retry(&self, id: i64, cause: &Cause) -> Result<Retried, StoreError> {
        let retry = |pool: sqlx::PgPool| async move {
            let mut transaction = begin(&pool).await?;
            let retry = sqlx::query_as(RETRY_ONE).bind(id);
            let row: Option<(String, String, String)> =
                retry.fetch_optional(&mut *transaction).await?;
            let Some((receiver, event, code)) = row else {
                let has_failed = sqlx::query_scalar(HAS_FAILED).bind(id);
                let has_failed = has_failed.fetch_one(&mut *transaction).await?;
                return Ok(match has_failed {
                    true => Retried::InProgress,
                    false => Retried::Unknown,
                });
            };
            let entry = NewEntry {
                action: Action::WebhookRetried,
                subject: Some(code),
                detail: Some(json!({"receiver": receiver, "event": event})),
            };
            audit::write(&mut *transaction, cause, &entry).await?;
            transaction.commit().await?;
            Ok(Retried::Due)
        };
        self.0.run("UPDATE webhook_deliveries", retry).await
    }

    /// Makes up to [`MAX_RETRIES`] deliveries of a receiver due that were given up. Returns their number, or `None` if there
    /// is no such receiver.
    ///
    /// # Errors
    /// Fails if the database is down. The change may then have been made.
    pub async fn retry_all(
        &self,
        receiver: &str,
        cause: &Cause,
    ) -> Result<Option<usize>, StoreError> {
        let retry = |pool: sqlx::PgPool| async move {
            let mut transaction = begin(&pool).await?;
            let known = sqlx::query_scalar(IS_KNOWN).bind(receiver);
            if !known.fetch_one(&mut *transaction).await? {
                return Ok(None);
            }
            let retry = sqlx::query(RETRY_ALL).bind(receiver);
            let retried = retry.fetch_all(&mut *transaction).await?.len();
            if retried > 0 {
                let entry = NewEntry {
                    action: Action::WebhookRetried,
                    subject: None,
                    detail: Some(json!({"receiver": receiver, "retried": retried})),
                };
                audit::write(&mut *transaction, cause, &entry).await?;
            }
            transaction.commit().await?;
            Ok(Some(retried))
        };
        self.0.run("UPDATE webhook_deliveries", retry).await
    }
}
