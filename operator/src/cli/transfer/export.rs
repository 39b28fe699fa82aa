//! The command `export`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
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
    let is_new = arguments.after.is_none();
    let mut options = OpenOptions::new();
    match is_new {
        true => options.write(true).create_new(true),
        false => options.read(true).write(true),
    };
    let mut opened = options.open(path).map_err(|error| file(path, error))?;
    to_last_line(&mut opened).map_err(|error| file(path, error))?;
    let exported = pages(
        &mut api,
        arguments.after,
        &mut BufWriter::new(&opened),
        stop,
    )
    .await;
    if exported.is_err() && is_new && opened.metadata().is_ok_and(|file| file.len() == 0) {
        // The same command can be given again.
        let _ = fs::remove_file(path);
    }
    exported
}

/// Goes to the end of the last whole line, and removes what follows it: a part of a page that did not fit on the disk.
pub(super) fn to_last_line(file: &mut File) -> io::Result<()> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut part = [0; 8192];
    while end > 0 {
        let begin = end.saturating_sub(part.len() as u64);
        let read = &mut part[..usize::try_from(end - begin).unwrap_or_default()];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(read)?;
        if let Some(last) = read.iter().rposition(|byte| *byte == b'\n') {
            end = begin + last as u64 + 1;
            break;
        }
        end = begin;
    }
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end)).map(drop)
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
