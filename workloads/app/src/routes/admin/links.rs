//! The management of links: to look at them, take them down, change and delete them, and create many at once.

pub mod bodies;
pub(in crate::routes) mod fields;
mod many;

use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{StatusCode, Uri};
use jiff::Timestamp;
use tracing::field::display;

use self::bodies::{LinkDetails, LinkPage, LinksResponse};
use super::{client, found, private};
use crate::{
    body,
    code::{Code, OwnedCode},
    error::Error,
    rights::Rights,
    routes::to_the_end,
    state::AppState,
    store::{
        audit::{Action, Cause},
        management::{Change, Changed, LinkRecord, ownership::Owner},
    },
};

/// The path of the links.
const PATH: &str = "/api/admin/links/";
/// The maximum size of a change in bytes.
pub const MAX_BODY: usize = 16 * 1024;
/// The maximum number of links that one request creates or applies.
pub const MAX_LINKS: usize = 100;

/// Returns a link without following it.
pub async fn get(
    State(state): State<AppState>,
    rights: Rights,
    uri: Uri,
) -> Result<Response, Error> {
    let code = code_in(&uri)?;
    let management = state.links.management();
    let link = found(&state, management.find(code.borrow(), &rights).await?)?;
    let mut link = [LinkDetails::new(link, &state.public_base, None)];
    add_clicks(&state, &mut link).await?;
    let [link] = link;
    Ok(private(link))
}

/// Takes a link down.
///
/// It answers 410 then, or 451 with the notice if there are legal reasons. If `purged` is true, no replica redirects it
/// later than 100 ms after the response. A link that is disabled already stays as it is.
pub async fn disable(
    State(state): State<AppState>,
    rights: Rights,
    request: Request,
) -> Result<Response, Error> {
    let (code, by) = target(&request)?;
    let bodies = &state.memory.bodies;
    let read = body::json(request, MAX_BODY, bodies, fields::disable);
    let ((change, reason), _share) = read.await?;
    let reason = Some(reason);
    apply(&state, code, change, (Cause { by, reason }, rights)).await
}

/// Puts a link back that was disabled.
pub async fn enable(
    State(state): State<AppState>,
    rights: Rights,
    request: Request,
) -> Result<Response, Error> {
    let (code, by) = target(&request)?;
    let bodies = &state.memory.bodies;
    let read = body::optional_json(request, MAX_BODY, bodies, fields::reason);
    let (reason, _share) = read.await?;
    apply(&state, code, Change::Enable, (Cause { by, reason }, rights)).await
}

/// Changes the expiry and the labels of a link. The destination of a link never changes.
pub async fn change(
    State(state): State<AppState>,
    rights: Rights,
    request: Request,
) -> Result<Response, Error> {
    let (code, by) = target(&request)?;
    let read = |body| fields::edit(body, Timestamp::now());
    let read = body::json(request, MAX_BODY, &state.memory.bodies, read);
    let ((edit, reason), _share) = read.await?;
    apply(
        &state,
        code,
        Change::Edit(edit),
        (Cause { by, reason }, rights),
    )
    .await
}

/// Deletes a link. Its destination is removed, and its code is never given out again.
pub async fn delete(
    State(state): State<AppState>,
    rights: Rights,
    request: Request,
) -> Result<Response, Error> {
    let (code, by) = target(&request)?;
    let bodies = &state.memory.bodies;
    let read = body::optional_json(request, MAX_BODY, bodies, fields::reason);
    let (reason, _share) = read.await?;
    apply(&state, code, Change::Delete, (Cause { by, reason }, rights)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Lists the links that the query describes, in the order of their creation.
///
/// Those with a beginning of a code are listed in the order of the codes, and those that were taken down in the order of
/// that. With own links only, the order is that of their creation.
pub async fn list(
    State(state): State<AppState>,
    rights: Rights,
    uri: Uri,
) -> Result<Response, Error> {
    let listing = fields::listing(uri.query())?;
    let page = state.links.management().list(listing, &rights).await?;
    let mut page = LinkPage::new(page, &state.public_base);
    add_clicks(&state, &mut page.links).await?;
    Ok(private(page))
}

/// Creates up to 100 links, with a result for each.
///
/// The results are in the order of the links. A link with status 503 may have been created.
pub async fn create(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let by = client(&request)?;
    let read = |body| Ok(many::read(fields::links(body)?, &state.destinations, &by));
    let (links, _share) = body::json(request, many::MAX_BODY, &state.memory.bodies, read).await?;
    let results = many::create(&state, links).await;
    Ok(private(LinksResponse { results }))
}

/// Adds the clicks to links, where the service counts them.
async fn add_clicks(state: &AppState, links: &mut [LinkDetails]) -> Result<(), Error> {
    let Some(clicks) = &state.clicks else {
        return Ok(());
    };
    let codes: Vec<&str> = links.iter().map(LinkDetails::code).collect();
    let totals = clicks.store.totals(&codes).await?;
    for link in links {
        link.clicks = Some(totals.get(link.code()).copied().unwrap_or_default());
    }
    Ok(())
}

/// Returns the code in a path and the client that sent the request.
fn target(request: &Request) -> Result<(OwnedCode, String), Error> {
    Ok((code_in(request.uri())?, client(request)?))
}

pub(super) fn code_in(uri: &Uri) -> Result<OwnedCode, Error> {
    let rest = uri.path().strip_prefix(PATH).unwrap_or_default();
    let code = rest.split('/').next().unwrap_or_default();
    let code = Code::parse(code).map_err(|_| Error::NotFound)?;
    Ok(code.to_owned())
}

/// Makes a change. The work continues if the request is cancelled: interrupted halfway, it could leave the link in the
/// cache.
async fn apply(
    state: &AppState,
    code: OwnedCode,
    change: Change,
    (cause, rights): (Cause, Rights),
) -> Result<Response, Error> {
    let links = state.clone();
    let work = async move {
        let change = links.links.change(code.borrow(), &change, &cause, &rights);
        let changed = change.await;
        if let Ok((Changed::Done(link, actions), _)) = &changed {
            record(actions, link, &cause);
        }
        changed
    };
    let (changed, purged) = to_the_end(work).await?;
    match changed {
        Changed::Done(link, _) | Changed::Already(link) => {
            let details = LinkDetails::new(link, &state.public_base, purged);
            Ok(private(details))
        }
        Changed::Gone => Err(Error::LinkGone),
        Changed::Owned(Owner {
            namespace, name, ..
        }) => Err(Error::ManagedLink { namespace, name }),
        Changed::Foreign => Err(state.guard.foreign_link()),
        Changed::Unknown => Err(Error::NotFound),
    }
}

/// Writes a line for each part of a change.
pub(in crate::routes) fn record(actions: &[Action], link: &LinkRecord, cause: &Cause) {
    let expires_at = link.expires_at.map(display);
    macro_rules! line {
        ($event:literal) => {
            tracing::info!(
                event = $event,
                link.code = link.code.as_str(),
                link.expires_at = expires_at,
                auth.client = cause.by,
                reason = cause.reason,
                $event
            )
        };
    }
    for action in actions {
        match action {
            Action::LinkDisabled => line!("link_disabled"),
            Action::LinkEnabled => line!("link_enabled"),
            Action::LinkExpiryChanged => line!("link_expiry_changed"),
            Action::LinkLabelsChanged => line!("link_labels_changed"),
            Action::LinkDeleted => line!("link_deleted"),
            Action::LinkClaimed => line!("link_claimed"),
            Action::LinkReleased => line!("link_released"),
            Action::LinkTransferred
            | Action::LinksImported
            | Action::ClientErased
            | Action::DeadLetterReplayed
            | Action::DeadLetterDropped
            | Action::WebhookRetried => {}
        }
    }
}
