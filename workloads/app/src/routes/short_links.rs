//! The routes of the management port: the links that belong to ShortLinks. The operator alone uses them, so the OpenAPI
//! document leaves them out.

mod bodies;
mod fields;

use std::time::Duration;

use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use tokio::time::Instant;

use self::{
    bodies::{ApplyResponse, ApplyResult, ReleaseResponse, ReleaseResult},
    fields::{Asked, Release},
};
use super::{admin::links::record, shorten::whole_microseconds, to_the_end};
use crate::{body, error::Error, state::AppState};

/// The maximum size of a request in bytes.
pub const MAX_BODY: usize = 128 * 1024;
/// The time after which no further link is begun. It leaves time for the last one within the time limit of the request.
const LIMIT: Duration = Duration::from_secs(5);

/// Makes links what their ShortLinks ask for, and answers with a result for each in order.
///
/// One statement reads all links, and nothing is written for those that are as asked. If the database fails or the time is
/// over, the request fails as a whole. What was done until then stays, and a repeated request goes on. The work continues
/// if the request is cancelled: interrupted halfway, it could leave a link in the cache.
pub async fn apply(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let now = whole_microseconds(Timestamp::now());
    let read = |body| fields::asked(body, &state.destinations, now);
    let read = body::json(request, MAX_BODY, &state.memory.bodies, read);
    let (asked, share) = read.await?;
    let work = async move {
        let _share = share;
        let results = apply_all(&state, asked, now).await?;
        Ok::<_, Error>(Json(ApplyResponse { results }).into_response())
    };
    to_the_end(work).await
}

/// Ends the ownership of links, and disables, deletes or leaves them. Answers with a result for each in order.
///
/// It fails, goes on and continues like [`apply`].
pub async fn release(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let read = body::json(request, MAX_BODY, &state.memory.bodies, fields::releases);
    let (releases, share) = read.await?;
    let work = async move {
        let _share = share;
        let results = release_all(&state, releases).await?;
        Ok::<_, Error>(Json(ReleaseResponse { results }).into_response())
    };
    to_the_end(work).await
}

async fn apply_all(
    state: &AppState,
    asked: Vec<Asked>,
    now: Timestamp,
) -> Result<Vec<ApplyResult>, Error> {
    let end = Instant::now() + LIMIT;
    let codes = asked.iter().filter_map(|asked| asked.as_ref().ok());
    let codes: Vec<&str> = codes.map(|wish| wish.code.as_str()).collect();
    let known = state.links.management().find_each(&codes).await?;
    let mut results = Vec::with_capacity(asked.len());
    for asked in &asked {
        let wish = match asked {
            Ok(wish) => wish,
            Err((code, message)) => {
                results.push(ApplyResult::invalid(code, message));
                continue;
            }
        };
        in_time(end)?;
        let known = known.get(&wish.code);
        let (applied, written) = state.links.settle(wish, known, now).await?;
        if let Some(written) = &written {
            record(&written.actions, &written.link, &written.cause);
        }
        results.push(ApplyResult::new(&wish.code, applied, &state.public_base));
    }
    Ok(results)
}

async fn release_all(
    state: &AppState,
    releases: Vec<Release>,
) -> Result<Vec<ReleaseResult>, Error> {
    let end = Instant::now() + LIMIT;
    let mut results = Vec::with_capacity(releases.len());
    for Release { code, uid, policy } in releases {
        in_time(end)?;
        let written = state.links.release(&code, &uid, policy).await?;
        if let Some(written) = &written {
            record(&written.actions, &written.link, &written.cause);
        }
        results.push(ReleaseResult::new(code, written.is_some()));
    }
    Ok(results)
}

fn in_time(end: Instant) -> Result<(), Error> {
    (Instant::now() < end).then_some(()).ok_or(Error::Deadline)
}
