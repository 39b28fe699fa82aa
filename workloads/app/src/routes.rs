//! The handlers, one file per resource. Paths are listed in [`crate::router`] only.

pub mod admin;
pub mod console;
pub mod docs;
pub mod health;
pub mod jobs;
pub mod labels;
pub mod metrics;
pub mod openapi;
pub mod preview;
pub mod qr;
pub mod redirect;
pub mod short_links;
pub mod shorten;

use shortener_common::telemetry::span::with_current_span;

use crate::error::Error;

/// Does work that continues if the request is cancelled.
async fn to_the_end<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, Error>
where
    T: Send + 'static,
    E: Into<Error> + Send + 'static,
{
    match tokio::spawn(with_current_span(work)).await {
        Ok(result) => result.map_err(Into::into),
        Err(error) => Err(Error::Internal(error.to_string())),
    }
}
