//! The management of dead letters: to look at jobs that were given up, to put them back into the queue, and to drop them.

pub mod bodies;
mod fields;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::Uri;
use uuid::Uuid;

use self::bodies::{DeadLetterDetails, DeadLetterPage};
use super::{client, private};
use crate::{
    body,
    error::Error,
    publisher::letters::{DeadLetters, Operation},
    routes::to_the_end,
    state::AppState,
    store::audit::Cause,
};

/// The path of the dead letters.
const PATH: &str = "/api/admin/dead-letters/";
/// The maximum size of a choice in bytes.
pub const MAX_BODY: usize = 16 * 1024;

/// Lists the dead letters, the oldest first.
pub async fn list(State(state): State<AppState>, uri: Uri) -> Result<Response, Error> {
    let letters = letters(&state)?;
    let (skip, limit) = fields::page(uri.query())?;
    Ok(private(DeadLetterPage::from(
        letters.list(skip, limit).await?,
    )))
}

/// Returns a dead letter with its body.
pub async fn get(State(state): State<AppState>, uri: Uri) -> Result<Response, Error> {
    let letters = letters(&state)?;
    let id = uri.path().strip_prefix(PATH).unwrap_or_default();
    let id: Uuid = id.parse().map_err(|_| Error::NotFound)?;
    let (letter, body) = letters.find(id).await?.ok_or(Error::NotFound)?;
    Ok(private(DeadLetterDetails::from(letter).with_body(body)))
}

/// Puts dead letters back into the queue of jobs, with the same identifiers.
///
/// A message that never was a job stays, and is counted as kept.
pub async fn replay(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    sweep(&state, request, Operation::Replay).await
}

/// Deletes dead letters for good.
pub async fn remove(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    sweep(&state, request, Operation::Drop).await
}

/// Works on the chosen dead letters. The work continues if the request is cancelled: interrupted halfway, it could leave a
/// job twice.
async fn sweep(
    state: &AppState,
    request: Request,
    operation: Operation,
) -> Result<Response, Error> {
    let letters = match letters(state) {
        Ok(letters) => letters.clone(),
        Err(error) => {
            // The body is read, so that the proxy can reuse the connection.
            body::discard(request, MAX_BODY).await?;
            return Err(error);
        }
    };
    let by = client(&request)?;
    let read = body::json(request, MAX_BODY, &state.memory.bodies, fields::choice);
    let ((choice, reason), _share) = read.await?;
    let cause = Cause { by, reason };
    let work = async move { letters.sweep(choice, operation, &cause).await };
    to_the_end(work).await.map(private)
}

fn letters(state: &AppState) -> Result<&DeadLetters, Error> {
    let queue = state.queue.as_ref();
    let queue = queue.ok_or(Error::ProfileDisabled("queue"))?;
    Ok(&queue.letters)
}
