//! The command `export`.

use std::{
    fs::OpenOptions,
    io::{BufWriter, Write},
};

use tokio::signal::ctrl_c;

use super::{
    ExportArguments, TransferError,
    api::Api,
    file,
    progress::{Progress, note},
};

/// Writes all links to a file, or to `out`.
///
/// # Errors
/// [`TransferError`]; it has the last code that was written if the export can be continued.
pub async fn export(arguments: ExportArguments, out: &mut impl Write) -> Result<(), TransferError> {
    let mut api = arguments.access.api().await?;
    if let Some(client) = api.sees_only().await? {
        note(&format!(
            "the key has no scope links:all: only the links of the client {client} are exported"
        ));
    }
    let stop = async {
        // Without signals, only the end of the links ends the command.
        if ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let Some(path) = &arguments.output else {
        return pages(&mut api, arguments.after, out, stop).await;
    };
    let mut options = OpenOptions::new();
    match arguments.after {
        Some(_) => options.append(true),
        None => options.write(true).create_new(true),
    };
    let opened = options.open(path).map_err(|error| file(path, error))?;
    let mut out = BufWriter::new(opened);
    pages(&mut api, arguments.after, &mut out, stop).await
}

/// Writes page by page until the last one, or until `stop`. A page is written as a whole.
pub(super) async fn pages(
    api: &mut Api,
    mut after: Option<String>,
    out: &mut impl Write,
    stop: impl Future<Output = ()>,
) -> Result<(), TransferError> {
    let mut stop = std::pin::pin!(stop);
    let mut progress = Progress::new("exported");
    loop {
        let read = tokio::select! {
            biased;
            () = &mut stop => Err(TransferError::Interrupted),
            page = api.export(after.as_deref()) => page,
        };
        let written = read.and_then(|page| {
            out.write_all(&page.text)?;
            out.flush()?;
            Ok(page)
        });
        let page = match (written, after) {
            (Ok(page), _) => page,
            (Err(reason), None) => return Err(reason),
            (Err(reason), Some(after)) => {
                let reason = Box::new(reason);
                return Err(TransferError::Partial { reason, after });
            }
        };
        let lines = page.text.iter().filter(|byte| **byte == b'\n').count();
        progress.add(lines);
        let Some(next) = page.next else {
            note(&format!("{} links exported", progress.links));
            return Ok(());
        };
        after = Some(next);
    }
}
