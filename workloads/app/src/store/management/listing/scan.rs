//! The statements of lists. Each reads one index in its order, and tests the other filters on what it finds there.
//!
//! However many links the other filters fit, no more are read than a page needs: `LATERAL`, `LIMIT 1` and `ARRAY` keep the
//! planner from reading anything else first.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::{Postgres, QueryBuilder};

use super::{
    super::record::{LinkRecord, LinkState, columns},
    Filter, Listing, Order, Position,
};

/// The most entries of the index that are read for a page with other filters.
const MOST_READ: i64 = 1000;

/// The state of a row, as `LinkState` writes it.
macro_rules! state {
    () => {
        "CASE WHEN links.disabled_as = 'deleted' THEN 'deleted' WHEN links.disabled_at IS NOT NULL THEN 'disabled' \
        WHEN links.expires_at <= now() THEN 'expired' ELSE 'live' END"
    };
}

/// The index by which a list is read, with the value that is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// The codes that begin with this, in their own order.
    Code(String),
    Tag(String),
    Word(String),
    Creator(String),
    Host(String),
    /// Links that were disabled, by the time at which they were.
    Disabled,
    /// Links that were deleted, by the time at which they were.
    Deleted,
    /// All links.
    Creation,
}

impl Scan {
    /// Returns the scan of the filter that leaves the fewest links as a rule, and the other filters. Of several words, the
    /// longest is the rarest as a rule.
    pub(super) fn of(filter: &Filter) -> (Self, Filter) {
        let mut rest = filter.clone();
        let longest = (0..rest.words.len()).max_by_key(|word| rest.words[*word].len());
        let scan = if let Some(own) = rest.own.take() {
            // The place of a page is that of a link which was read, and no client sees another's.
            Self::Creator(own)
        } else if let Some(code) = rest.code.take() {
            Self::Code(code)
        } else if let Some(tag) = rest.tag.take() {
            Self::Tag(tag)
        } else if let Some(longest) = longest {
            Self::Word(rest.words.remove(longest))
        } else if let Some(by) = rest.created_by.take() {
            Self::Creator(by)
        } else if let Some(host) = rest.host.take() {
            Self::Host(host)
        } else {
            let state = rest.state.take();
            match state {
                Some(LinkState::Disabled) => Self::Disabled,
                Some(LinkState::Deleted) => Self::Deleted,
                Some(LinkState::Live | LinkState::Expired) | None => {
                    rest.state = state;
                    Self::Creation
                }
            }
        };
        (scan, rest)
    }

    /// Adds the statement for the links of a page, and one more if there are more; none behind `last`.
    pub(super) fn select(
        &self,
        listing: &Listing,
        query: &mut QueryBuilder<Postgres>,
        last: Option<&Position>,
    ) {
        let links = " CROSS JOIN LATERAL (SELECT * FROM links WHERE links.code = entry.code LIMIT 1) AS links";
        query.push(concat!("SELECT ", columns!()));
        self.push_entries(listing, last, query, links);
        push_filters(query, Self::of(&listing.filter).1);
        self.push_order(listing.order, query);
        query.push(" LIMIT ").push_bind(listing.limit as i64 + 1);
    }

    /// Adds the statement for the last entry that is read for a page, if there are as many.
    pub(super) fn select_last(&self, listing: &Listing, query: &mut QueryBuilder<Postgres>) {
        let time = match self {
            // The code alone is the place.
            Self::Code(_) => "to_timestamp(0)",
            Self::Disabled | Self::Deleted => "entry.disabled_at",
            _ => "entry.created_at",
        };
        query.push("SELECT ").push(time).push(", entry.code");
        self.push_entries(listing, None, query, "");
        self.push_order(listing.order, query);
        query.push(" LIMIT 1 OFFSET ").push_bind(MOST_READ - 1);
    }

    /// Returns the time by which a link has its place in the list.
    pub(super) fn time(&self, link: &LinkRecord) -> Timestamp {
        match (self, &link.takedown) {
            (Self::Disabled | Self::Deleted, Some(takedown)) => takedown.at,
            _ => link.created_at,
        }
    }

    fn table(&self) -> &'static str {
        match self {
            Self::Tag(_) => "link_tags",
            Self::Word(_) => "link_title_words",
            _ => "links",
        }
    }

    /// Returns the columns of the index.
    fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Code(_) => &["entry.code"],
            Self::Tag(_) => &["entry.tag", "entry.created_at", "entry.code"],
            Self::Word(_) => &["entry.word", "entry.created_at", "entry.code"],
            Self::Creator(_) => &["entry.created_by", "entry.created_at", "entry.code"],
            Self::Host(_) => &["entry.host", "entry.created_at", "entry.code"],
            Self::Disabled | Self::Deleted => &["entry.disabled_at", "entry.code"],
            Self::Creation => &["entry.created_at", "entry.code"],
        }
    }

    /// Returns the condition of the index; one that always holds if it has all rows.
    fn condition(&self) -> &'static str {
        match self {
            Self::Creator(_) => "entry.created_by IS NOT NULL",
            Self::Host(_) => "entry.host IS NOT NULL",
            Self::Disabled => "entry.disabled_as IN ('gone', 'legal')",
            Self::Deleted => "entry.disabled_as = 'deleted'",
            Self::Code(_) | Self::Tag(_) | Self::Word(_) | Self::Creation => "true",
        }
    }

    /// Adds the entries of the index behind the page before, up to `last`. The bounds compare all columns of the index, so no
    /// other one fits them.
    fn push_entries(
        &self,
        listing: &Listing,
        last: Option<&Position>,
        query: &mut QueryBuilder<Postgres>,
        join: &str,
    ) {
        query.push(" FROM ").push(self.table()).push(" AS entry");
        query.push(join).push(" WHERE ").push(self.condition());
        if let Self::Code(code) = self {
            push_beginning(query, "entry", code);
        }
        let after = listing.after.as_ref();
        let bounds = match listing.order {
            Order::Oldest => [(" > ", after, "-infinity"), (" <= ", last, "infinity")],
            Order::Newest => [(" < ", after, "infinity"), (" >= ", last, "-infinity")],
        };
        for (comparison, position, without) in bounds {
            self.push_bound(query, comparison, position, without);
        }
    }

    /// Adds a bound; the time `without` is that of a list without it.
    fn push_bound(
        &self,
        query: &mut QueryBuilder<Postgres>,
        comparison: &str,
        position: Option<&Position>,
        without: &str,
    ) {
        if matches!(self, Self::Code(_)) && position.is_none() {
            return;
        }
        let columns = self.columns().join(", ");
        query.push(format!(" AND ({columns}){comparison}("));
        match self {
            Self::Tag(key) | Self::Word(key) | Self::Creator(key) | Self::Host(key) => {
                query.push_bind(key.clone()).push(", ");
            }
            Self::Code(_) | Self::Disabled | Self::Deleted | Self::Creation => {}
        }
        match position {
            Some(position) if matches!(self, Self::Code(_)) => {
                query.push_bind(position.code.clone())
            }
            Some(position) => {
                query.push_bind(position.time.to_sqlx()).push(", ");
                query.push_bind(position.code.clone())
            }
            None => query.push(format!("'{without}', ''")),
        };
        query.push(")");
    }

    fn push_order(&self, order: Order, query: &mut QueryBuilder<Postgres>) {
        let direction = match order {
            Order::Oldest => "",
            Order::Newest => " DESC",
        };
        let columns = self.columns().join(&format!("{direction}, "));
        query.push(format!(" ORDER BY {columns}{direction}"));
    }
}

/// Adds the condition that a code begins with this.
fn push_beginning(query: &mut QueryBuilder<Postgres>, table: &str, code: &str) {
    let column = format!(" AND {table}.code");
    query.push(format!("{column} >= "));
    query.push_bind(code.to_owned());
    // No code has a character behind `z`.
    query.push(format!("{column} < "));
    query.push_bind(format!("{code}{{"));
}

/// Adds the conditions of filters that no index answers.
fn push_filters(query: &mut QueryBuilder<Postgres>, filter: Filter) {
    let Filter {
        // Where there is one, it is the scan.
        own: _,
        code,
        tag,
        words,
        created_by,
        host,
        state,
    } = filter;
    if let Some(code) = code {
        push_beginning(query, "links", &code);
    }
    if let Some(tag) = tag {
        query.push(" AND ").push_bind(tag);
        query.push(" = ANY (ARRAY(SELECT tag FROM link_tags WHERE link_tags.code = links.code))");
    }
    if !words.is_empty() {
        query.push(" AND ").push_bind(words);
        query.push(
            " <@ ARRAY(SELECT word FROM link_title_words WHERE link_title_words.code = links.code)",
        );
    }
    if let Some(by) = created_by {
        query.push(" AND links.created_by = ").push_bind(by);
    }
    if let Some(host) = host {
        query.push(" AND links.host = ").push_bind(host);
    }
    if let Some(state) = state {
        query.push(" AND ").push_bind(state.as_str());
        query.push(concat!(" = ", state!()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_rows_are_those_of_records() {
        for state in LinkState::ALL {
            assert!(state!().contains(&format!("'{}'", state.as_str())));
        }
    }

    #[test]
    fn the_most_selective_filter_is_the_scan_and_the_others_are_tested() {
        let text = |text: &str| Some(text.to_owned());
        let mut filter = Filter {
            own: text("mail"),
            code: text("a"),
            tag: text("spring"),
            words: ["of", "spring", "year"].map(str::to_owned).to_vec(),
            created_by: text("shop"),
            host: text("example.com"),
            state: Some(LinkState::Disabled),
        };
        let mut scans = Vec::new();
        for _ in 0..10 {
            let (scan, rest) = Scan::of(&filter);
            scans.push(scan);
            filter = rest;
        }
        let word = |word: &str| Scan::Word(word.to_owned());
        let expected = [
            Scan::Creator("mail".to_owned()),
            Scan::Code("a".to_owned()),
            Scan::Tag("spring".to_owned()),
            word("spring"),
            word("year"),
            word("of"),
            Scan::Creator("shop".to_owned()),
            Scan::Host("example.com".to_owned()),
            Scan::Disabled,
            Scan::Creation,
        ];
        assert_eq!(scans, expected);
        for state in [LinkState::Live, LinkState::Expired] {
            let filter = Filter {
                state: Some(state),
                ..Filter::default()
            };
            assert_eq!(Scan::of(&filter), (Scan::Creation, filter));
        }
    }
}
