//! Files with links: of this program, and of other shorteners. A file is read one link at a time.

mod json;
mod record;
mod row;
mod table;

use std::io::{self, BufRead, BufReader, Read};

use serde::Deserialize;

use self::{record::Columns, row::Row};
use super::Format;

/// The maximum size of a link in bytes, as the app takes it.
const MAX_LINK: usize = 128 * 1024;
/// The size of the part of a file that shows whether it is CSV or JSON.
const BUFFER: usize = 64 * 1024;
/// The byte order mark, which some programs write first.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A link of a file, or a line without a usable one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A link, as the app takes it.
    Link {
        /// Number of its line, or of its entry in JSON, from 1.
        line: u64,
        code: String,
        json: String,
    },
    /// Something that is no link for the app.
    Refused {
        line: u64,
        code: Option<String>,
        reason: String,
    },
}

/// An error that ends the reading of a file.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Read(#[from] io::Error),
    /// The file is no CSV.
    #[error("the file is not CSV: {0}")]
    Csv(#[from] csv::Error),
    /// The file is no JSON.
    #[error("the file is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The header has no column for something that every link has.
    #[error("the file has no column {0}")]
    NoColumn(String),
    /// The receiver of the links is gone.
    #[error("stopped")]
    Stopped,
}

/// Takes items, until it fails.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Item) -> Result<(), SourceError>;

/// Reads a file, and passes its links on one by one.
///
/// # Errors
/// Fails if the file cannot be read, if it has not got the format, or if the sink fails.
pub(super) fn read(input: impl Read, format: Format, sink: Sink<'_>) -> Result<(), SourceError> {
    let mut input = BufReader::with_capacity(BUFFER, input);
    if input.fill_buf()?.starts_with(MARK) {
        input.consume(MARK.len());
    }
    let Some(columns) = Columns::of(format) else {
        return lines(input, sink);
    };
    let mut rows = |row: Row| record::links(&row, columns, sink);
    let begin = input.fill_buf()?;
    match begin.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => json::read(input, &mut rows),
        _ => table::read(input, columns, &mut rows),
    }
}

/// Reads the output of an export, whose lines the app takes as they are.
fn lines(mut input: impl BufRead, sink: Sink<'_>) -> Result<(), SourceError> {
    #[derive(Deserialize)]
    struct Coded {
        code: Option<String>,
    }
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        // With the line end.
        let mut limited = input.by_ref().take(MAX_LINK as u64);
        if limited.read_until(b'\n', &mut text)? == 0 {
            return Ok(());
        }
        let refused = |code, reason: &str| Item::Refused {
            line,
            code,
            reason: reason.to_owned(),
        };
        let is_whole = text.ends_with(b"\n") || text.len() < MAX_LINK;
        let parsed: Option<Coded> = serde_json::from_slice(&text).ok();
        let parsed = parsed.filter(|_| text.trim_ascii_start().starts_with(b"{"));
        sink(match (parsed, str::from_utf8(&text)) {
            _ if text.trim_ascii().is_empty() => continue,
            _ if !is_whole => {
                input.skip_until(b'\n')?;
                refused(None, "the line is longer than 128 KiB")
            }
            (Some(Coded { code }), Ok(json)) => Item::Link {
                line,
                code: code.unwrap_or_default(),
                json: json.trim().to_owned(),
            },
            _ => refused(None, "the line is no JSON object"),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
