//! Files with a header and a line for each link.

use std::io::BufRead;

use csv::{ReaderBuilder, Trim};

use super::{
    SourceError,
    record::Columns,
    row::{Row, plain},
};

/// Reads the rows of a file.
pub(super) fn read(
    mut input: impl BufRead,
    columns: &Columns,
    rows: &mut dyn FnMut(Row) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let begin = input.fill_buf()?;
    let header = begin
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let delimiter = delimiter_of(header);
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .trim(Trim::All)
        .from_reader(input);
    let names: Vec<String> = reader
        .byte_headers()?
        .iter()
        .map(lossy)
        .map(|name| plain(&name))
        .collect();
    for needed in [columns.codes, columns.url] {
        if !needed
            .iter()
            .any(|name| names.iter().any(|found| found == name))
        {
            return Err(SourceError::NoColumn(needed.join(" or ")));
        }
    }
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record)? {
        let line = record.position().map_or(0, csv::Position::line);
        let texts: Vec<String> = record.iter().map(lossy).collect();
        rows(Row::of_record(
            line,
            &names,
            texts.iter().map(String::as_str),
        ))?;
    }
    Ok(())
}

/// Returns a text. What is no UTF-8 becomes a sign that no code and no URL has.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the sign between the columns of a header.
fn delimiter_of(header: &[u8]) -> u8 {
    let count = |sign: &u8| header.iter().filter(|byte| *byte == sign).count();
    // The first of equal ones.
    let signs = [b'\t', b';', b','];
    signs.into_iter().max_by_key(count).unwrap_or(b',')
}
