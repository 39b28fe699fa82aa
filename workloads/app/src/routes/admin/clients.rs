//! The transfer of links from one client to another, and the erasure of a client's name.

pub mod bodies;
mod fields;

use axum::{
    extract::{Request, State},
    response::Response,
};

use self::bodies::{EraseResponse, TransferResponse};
use super::{client, private};
use crate::{
    body,
    error::Error,
    state::AppState,
    store::{
        audit::Cause,
        management::{Erased, HandedOver, ownership::Owner},
    },
};

/// The maximum size of a transfer in bytes, as at the gateway: a thousand codes fit.
const MAX_TRANSFER: usize = 128 * 1024;
/// The maximum size of an erasure in bytes.
const MAX_ERASURE: usize = 16 * 1024;

/// Transfers links from one client to another, a bounded number at a time.
pub async fn transfer(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let by = client(&request)?;
    let bodies = &state.memory.bodies;
    let read = body::json(request, MAX_TRANSFER, bodies, fields::transfer);
    let ((handover, reason), _share) = read.await?;
    let cause = Cause { by, reason };
    let management = state.links.management();
    match management.hand_over(&handover, &cause).await? {
        HandedOver::Done {
            transferred,
            remaining,
        } => {
            tracing::info!(
                event = "links_transferred",
                links.transferred = transferred,
                auth.client = cause.by,
                reason = cause.reason,
                "links_transferred"
            );
            Ok(private(TransferResponse {
                transferred,
                remaining,
            }))
        }
        HandedOver::Owned(Owner {
            namespace, name, ..
        }) => Err(Error::ManagedLink { namespace, name }),
    }
}

/// Replaces the name of a client by a pseudonym, in a bounded number of places at a time.
pub async fn erase(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let by = client(&request)?;
    let read = body::json(request, MAX_ERASURE, &state.memory.bodies, fields::erasure);
    let ((name, reason), _share) = read.await?;
    if state.guard.has_client(&name) {
        return Err(Error::ClientHasKey);
    }
    let cause = Cause { by, reason };
    let management = state.links.management();
    let Erased { erased, remaining } = management.erase(&name, &cause).await?;
    tracing::info!(
        event = "client_erased",
        erased,
        remaining,
        auth.client = cause.by,
        reason = cause.reason,
        "client_erased"
    );
    Ok(private(EraseResponse { erased, remaining }))
}
