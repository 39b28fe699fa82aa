//! The answers of an API: an array of objects, alone or within an object. Several answers may follow each other, as the pages
//! of a list do. One link is in memory at a time.

use std::{fmt, io::BufRead};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{
    SourceError,
    row::{Row, plain},
};

/// The fields that lead to the links.
const WAY: [&str; 3] = ["data", "links", "shorturls"];
/// The begin of the names of links in an object of links.
const LINK: &str = "link";

/// Reads the links of a file.
pub(super) fn read(
    input: impl BufRead,
    rows: &mut dyn FnMut(Row) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let mut parser = serde_json::Deserializer::from_reader(input);
    let mut walk = Walk {
        line: 0,
        rows,
        failed: None,
    };
    loop {
        let walked = Links(&mut walk, true).deserialize(&mut parser);
        if let Some(failed) = walk.failed {
            return Err(failed);
        }
        walked?;
        if parser.end().is_ok() {
            return Ok(());
        }
    }
}

struct Walk<'a> {
    line: u64,
    rows: &'a mut dyn FnMut(Row) -> Result<(), SourceError>,
    /// The error of `rows`, which is none of the parser.
    failed: Option<SourceError>,
}

impl Walk<'_> {
    fn take<E: Error>(&mut self, link: &Map<String, Value>) -> Result<(), E> {
        self.line += 1;
        let taken = (self.rows)(Row::of_object(self.line, link));
        taken.map_err(|error| {
            self.failed = Some(error);
            E::custom("stopped")
        })
    }
}

/// Reads an array of links, or an object with the way to one. It is true for a whole answer: without such a way it is taken for
/// a link, so an answer that says why there are no links is refused, and not passed over.
struct Links<'a, 'w>(&'a mut Walk<'w>, bool);

impl<'de> DeserializeSeed<'de> for Links<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Links<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of links, or an object with one")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut links: A) -> Result<(), A::Error> {
        while let Some(link) = links.next_element()? {
            self.0.take(&link)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        // The fields so far, as long as they may be those of a link.
        let mut link = self.1.then(Map::new);
        while let Some(field) = fields.next_key::<String>()? {
            let name = plain(&field);
            let is_number =
                |rest: &str| !rest.is_empty() && rest.bytes().all(|sign| sign.is_ascii_digit());
            if WAY.contains(&name.as_str()) {
                link = None;
                fields.next_value_seed(Links(&mut *self.0, false))?;
            } else if name.strip_prefix(LINK).is_some_and(is_number) {
                link = None;
                self.0.take(&fields.next_value()?)?;
            } else if let Some(link) = &mut link {
                link.insert(field, fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        link.map_or(Ok(()), |link| self.0.take(&link))
    }
}
