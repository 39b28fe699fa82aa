//! What people write about links: a title, tags and a note. No redirect reads them.
//!
//! Searches find tags and the words of titles in tables of their own, in the order in which the links were created.

use std::collections::BTreeSet;

use serde::Serialize;
use sqlx::{PgConnection, Postgres, postgres::PgArguments, query::Query};

/// The parts of a statement that write labels. Its part `link` has the code and the creation time of the link.
macro_rules! write_labels {
    ($title:literal, $note:literal, $tags:literal, $words:literal) => {
        concat!(
            "labels AS (INSERT INTO link_labels (code, title, note) SELECT code, ",
            $title,
            ", ",
            $note,
            " FROM link WHERE coalesce(",
            $title,
            ", ",
            $note,
            ") IS NOT NULL), tags AS (INSERT INTO link_tags (tag, created_at, code) SELECT unnest(",
            $tags,
            "), created_at, code FROM link), \
            words AS (INSERT INTO link_title_words (word, created_at, code) SELECT unnest(",
            $words,
            "), created_at, code FROM link) SELECT code FROM link"
        )
    };
}
pub(super) use write_labels;

const WRITE: &str = concat!(
    "WITH link AS (SELECT code, created_at FROM links WHERE code = $1), ",
    write_labels!("$2::text", "$3::text", "$4::text[]", "$5::text[]")
);

const REMOVE: &str = "WITH labels AS (DELETE FROM link_labels WHERE code = $1), \
    tags AS (DELETE FROM link_tags WHERE code = $1) DELETE FROM link_title_words WHERE code = $1";

/// The labels of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Labels {
    /// Title, in one line.
    pub title: Option<String>,
    /// Tags in lower case, in order, each once.
    pub tags: Vec<String>,
    /// Note, which may have several lines.
    pub note: Option<String>,
}

/// A change of labels. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelChange {
    /// The title; the inner `None` removes it.
    pub title: Option<Option<String>>,
    /// All tags of the link.
    pub tags: Option<Vec<String>>,
    /// The note; the inner `None` removes it.
    pub note: Option<Option<String>>,
}

impl Labels {
    /// Returns true if there is nothing to store.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the labels after a change.
    pub(super) fn changed(&self, change: &LabelChange) -> Self {
        let or_old = |new: &Option<_>, old: &Option<_>| new.clone().unwrap_or_else(|| old.clone());
        Self {
            title: or_old(&change.title, &self.title),
            tags: change.tags.clone().unwrap_or_else(|| self.tags.clone()),
            note: or_old(&change.note, &self.note),
        }
    }

    /// Returns the names of the fields that differ.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let fields = [
            ("title", self.title != other.title),
            ("tags", self.tags != other.tags),
            ("note", self.note != other.note),
        ];
        let differ = fields.into_iter().filter(|(_, differs)| *differs);
        differ.map(|(name, _)| name).collect()
    }

    /// Adds the four parameters of `write_labels` to a statement.
    pub(super) fn bind<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        let words = words(self.title.as_deref().unwrap_or_default());
        let query = query.bind(self.title.as_deref());
        let query = query.bind(self.note.as_deref()).bind(&self.tags);
        query.bind(Vec::from_iter(words))
    }
}

/// Returns the words of a title by which it is found: in lower case, each once, without what is no letter and no digit.
pub fn words(title: &str) -> BTreeSet<String> {
    let words = title.split(|sign: char| !sign.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Replaces the labels of a link.
pub(super) async fn replace(
    connection: &mut PgConnection,
    code: &str,
    labels: &Labels,
) -> Result<(), sqlx::Error> {
    let remove = sqlx::query(REMOVE).bind(code);
    remove.execute(&mut *connection).await?;
    let write = labels.bind(sqlx::query(WRITE).bind(code));
    write.execute(connection).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_in_lower_case_and_end_at_every_other_character() {
        for (title, expected) in [
            ("", &[][..]),
            ("... --", &[]),
            (
                "Spring sale, 2030: spring!",
                &["2030", "sale", "spring"] as &[&str],
            ),
            ("don't_stop", &["don", "stop", "t"]),
            ("ÄRGER mit Größe", &["größe", "mit", "ärger"]),
            ("短縮 リンク", &["リンク", "短縮"]),
        ] {
            let found = words(title);
            assert!(
                found
                    .iter()
                    .map(String::as_str)
                    .eq(expected.iter().copied()),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_change_names_the_fields_that_it_changes() {
        let old = Labels {
            title: Some("a".to_owned()),
            tags: vec!["x".to_owned()],
            note: None,
        };
        let change = LabelChange {
            title: Some(None),
            tags: Some(vec!["x".to_owned()]),
            note: Some(Some("b".to_owned())),
        };
        let new = old.changed(&change);
        assert_eq!(old.differences(&new), ["title", "note"]);
        assert_eq!(
            (new.title.as_deref(), new.note.as_deref()),
            (None, Some("b"))
        );
        assert_eq!(old.changed(&LabelChange::default()), old);
        assert!(Labels::default().is_empty() && !new.is_empty());
    }
}
