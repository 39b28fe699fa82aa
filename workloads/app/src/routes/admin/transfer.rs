//! The export of all links, and the import of links with their codes and creation times: one line of JSON for each link.
//!
//! The paths are not below those of links, because a code may be `export` or `import`.

pub mod bodies;
mod fields;

use axum::{
    body::{Body, Bytes},
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE, LINK},
};
use jiff::Timestamp;
use shortener_common::budget::Share;

use self::bodies::{ImportResponse, ImportResult};
use super::{client, private};
use crate::{
    body,
    error::{Error, FieldError},
    rights::Rights,
    routes::{shorten::whole_microseconds, to_the_end},
    state::AppState,
    store::{
        audit::Cause,
        management::{ExportPage, Import, Imported, PortableLink, Summary},
    },
};

/// The maximum number of links in a request for an import, and on a page of an export.
pub const MAX_LINKS: usize = 1000;
/// The maximum size of a request in bytes, as at the gateway, and of a page with several links, which is therefore a
/// request.
pub const MAX_BODY: usize = 128 * 1024;
/// The memory of a page for each of its bytes, and of an import beside its body: the rows, and the text or the statement.
const FACTOR: usize = 4;
/// The memory of a link beside its texts, in bytes: as a row, and as its result.
const LINK_BYTES: usize = 768;
/// The memory of a full page, and of an import beside its body.
const LARGEST: usize = FACTOR * MAX_BODY + MAX_LINKS * LINK_BYTES;

/// A page, and the memory that it takes until it was sent.
struct Page {
    text: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Returns the links behind a code in the order of their codes, one on each line, with everything that the service keeps of
/// them.
pub async fn export(
    State(state): State<AppState>,
    rights: Rights,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let (after, limit) = fields::page(query.as_deref())?;
    let mut share = state.memory.bodies.take(LARGEST).ok_or(Error::Busy)?;
    let management = state.links.management();
    let page = management.export((&after, limit), MAX_BODY, &rights);
    let ExportPage { text, next } = page.await?;
    // The rows are gone.
    let kept = share.split(text.capacity().min(LARGEST));
    let page = Page {
        text,
        _share: kept.unwrap_or(share),
    };
    let body = Body::from(Bytes::from_owner(page));
    let ndjson = (CONTENT_TYPE, HeaderValue::from_static(body::NDJSON));
    let no_store = (CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let mut response = ([ndjson, no_store], body).into_response();
    if let Some(code) = next {
        let link = format!("</api/admin/export/links?after={code}&limit={limit}>; rel=\"next\"");
        let link = HeaderValue::from_str(&link);
        let link = link.map_err(|error| Error::Internal(error.to_string()))?;
        response.headers_mut().insert(LINK, link);
    }
    Ok(response)
}

/// Stores the links whose codes are free, and answers with a result for each line that is not blank. A repeated request
/// changes nothing.
///
/// The work continues if the request is cancelled: interrupted halfway, it could leave a code unknown to the cache.
pub async fn import(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let by = client(&request)?;
    let dry_run = fields::dry_run(request.uri().query())?;
    let bodies = &state.memory.bodies;
    let (text, mut share) = body::lines_text(request, MAX_BODY, bodies).await?;
    let count = body::count_lines(&text);
    if !(1..=MAX_LINKS).contains(&count) {
        let rule = format!("must have 1 to {MAX_LINKS} lines with a link each");
        return Err(Error::invalid("body", rule));
    }
    let memory = FACTOR * text.len() + count * LINK_BYTES;
    share.merge(bodies.take(memory).ok_or(Error::Busy)?);
    let now = whole_microseconds(Timestamp::now());
    let mut links = Vec::new();
    let lines = body::lines(&text, |number, line| {
        let code = match fields::link(line, &state.destinations, now) {
            Ok(link) => {
                links.push(link);
                Ok(())
            }
            Err(refused) => Err(refused),
        };
        (number, code)
    });
    drop(text);
    let invalid = lines.len() - links.len();
    let import = Import {
        links,
        invalid,
        now,
        dry_run,
    };
    let work = async move {
        let _share = share;
        let cause = Cause { by, reason: None };
        let results = state.links.import(&import, &cause).await?;
        record(&Summary::of(&results, invalid), &cause, dry_run);
        Ok::<_, Error>(response(lines, &import.links, &results, invalid))
    };
    to_the_end(work).await.map(private)
}

/// A line that is no link: its code if it has one, and the rules that it violates.
type Refused = (Option<String>, Vec<FieldError>);

fn response(
    lines: Vec<(usize, Result<(), Refused>)>,
    links: &[PortableLink],
    results: &[Imported],
    invalid: usize,
) -> ImportResponse {
    let mut links = links.iter().zip(results);
    let results_of_lines = lines.into_iter().filter_map(|(number, line)| match line {
        Ok(()) => {
            let (link, result) = links.next()?;
            Some(ImportResult::new(number, &link.code, *result))
        }
        Err((code, faults)) => Some(ImportResult::invalid(number, code, faults)),
    });
    let results_of_lines = results_of_lines.collect();
    ImportResponse::new(Summary::of(results, invalid), results_of_lines)
}

/// Writes the line about an import that stored something.
fn record(summary: &Summary, cause: &Cause, dry_run: bool) {
    if dry_run || summary.created == 0 {
        return;
    }
    tracing::info!(
        event = "links_imported",
        links.created = summary.created,
        links.unchanged = summary.unchanged,
        links.conflict = summary.conflict,
        links.invalid = summary.invalid,
        auth.client = cause.by,
        "links_imported"
    );
}

#[cfg(test)]
mod tests {
    use shortener_common::memory::Memory;

    use super::*;

    #[test]
    fn the_largest_page_and_the_largest_import_fit_the_smallest_memory_limit() {
        let smallest = Memory::within(64 << 20, 0).unwrap();
        assert!(MAX_BODY + LARGEST <= smallest.bodies.limit());
    }
}
