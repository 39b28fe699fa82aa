//! The management of webhooks: the receivers, what was not delivered to them, and another attempt.

pub mod bodies;
mod fields;

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};

use self::bodies::{ReceiverList, RetryResponse};
use super::{client, links, private};
use crate::{
    body,
    error::Error,
    state::AppState,
    store::{
        audit::Cause,
        webhooks::deliveries::{MAX_RETRIES, Retried},
    },
};

/// The path of the deliveries.
const PATH: &str = "/api/admin/webhooks/deliveries/";

/// Lists the receivers with the numbers of their deliveries.
pub async fn receivers(State(state): State<AppState>) -> Result<Response, Error> {
    let outbox = state.links.management().outbox();
    let receivers = outbox.receivers().await?;
    Ok(private(ReceiverList { receivers }))
}

/// Lists deliveries that were not made yet, the latest first.
pub async fn deliveries(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let query = fields::query(query.as_deref())?;
    let outbox = state.links.management().outbox();
    Ok(private(outbox.list(&query).await?))
}

/// Makes a failed delivery due now.
pub async fn retry(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let id = request.uri().path().strip_prefix(PATH);
    let id = id.and_then(|rest| rest.split('/').next()?.parse().ok());
    let by = client(&request)?;
    let bodies = &state.memory.bodies;
    let read = body::optional_json(request, links::MAX_BODY, bodies, links::fields::reason);
    let (reason, _share) = read.await?;
    let id = id.ok_or(Error::NotFound)?;
    let cause = Cause { by, reason };
    let outbox = state.links.management().outbox();
    match outbox.retry(id, &cause).await? {
        Retried::Due => {}
        Retried::InProgress => return Err(Error::DeliveryInProgress),
        Retried::Unknown => return Err(Error::NotFound),
    }
    record(&cause, 1);
    Ok(private(RetryResponse {
        retried: 1,
        remaining: false,
    }))
}

/// Makes the deliveries of a receiver due that were given up, a bounded number at a time.
pub async fn retry_all(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let by = client(&request)?;
    let bodies = &state.memory.bodies;
    let read = body::json(request, links::MAX_BODY, bodies, fields::retry);
    let ((receiver, reason), _share) = read.await?;
    let cause = Cause { by, reason };
    let outbox = state.links.management().outbox();
    let retried = outbox.retry_all(&receiver, &cause).await?;
    let retried = retried.ok_or(Error::NotFound)?;
    record(&cause, retried);
    Ok(private(RetryResponse {
        retried,
        remaining: retried == MAX_RETRIES,
    }))
}

fn record(cause: &Cause, retried: usize) {
    tracing::info!(
        event = "webhook_retried",
        webhook.retried = retried,
        auth.client = cause.by,
        reason = cause.reason,
        "webhook_retried"
    );
}
