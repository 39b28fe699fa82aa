//! One link in the file of another shortener: names and texts.

use serde_json::{Map, Value};

/// One link, with the names of its fields in lower case and without anything but letters and digits.
pub(super) struct Row {
    /// Number of its line, or of its entry in JSON, from 1.
    pub(super) line: u64,
    /// True if a table has no name for one of its texts: a text with the sign between columns was not quoted.
    pub(super) has_excess: bool,
    fields: Vec<(String, Vec<String>)>,
}

/// Returns a name in lower case and without anything but letters and digits, so that `Long URL`, `long_url` and `longUrl` are
/// one.
pub(super) fn plain(name: &str) -> String {
    let signs = name.chars().filter(|sign| sign.is_alphanumeric());
    signs.flat_map(char::to_lowercase).collect()
}

impl Row {
    /// Returns the row of a table with these plain names.
    pub(super) fn of_record<'a>(
        line: u64,
        names: &[String],
        mut texts: impl Iterator<Item = &'a str>,
    ) -> Self {
        let fields = names.iter().zip(texts.by_ref());
        let fields = fields.map(|(name, text)| (name.clone(), vec![text.to_owned()]));
        Self {
            line,
            fields: fields.collect(),
            has_excess: texts.any(|text| !text.is_empty()),
        }
    }

    /// Returns the row of an object. The names of an object within it begin with its own.
    pub(super) fn of_object(line: u64, object: &Map<String, Value>) -> Self {
        let mut fields = Vec::new();
        add(&mut fields, "", object);
        Self {
            line,
            has_excess: false,
            fields,
        }
    }

    /// Returns the texts of the fields with these names that are not empty.
    pub(super) fn all<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let of = |name: &'a &str| self.fields.iter().filter(move |field| field.0 == **name);
        let texts = names.iter().flat_map(of).flat_map(|field| &field.1);
        texts
            .map(|text| text.trim())
            .filter(|text| !text.is_empty())
    }

    /// Returns the first one of them.
    pub(super) fn first<'a>(&'a self, names: &'a [&str]) -> Option<&'a str> {
        self.all(names).next()
    }
}

fn add(fields: &mut Vec<(String, Vec<String>)>, prefix: &str, object: &Map<String, Value>) {
    for (name, value) in object {
        let name = format!("{prefix}{}", plain(name));
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        match value {
            Value::Object(inner) => add(fields, &name, inner),
            Value::Array(values) => {
                fields.push((name, values.iter().filter_map(text).collect()));
            }
            value => fields.extend(text(value).map(|text| (name, vec![text]))),
        }
    }
}
