//! The clicks on a link by day, and the links with most of them.

use axum::{extract::State, response::Response};
use http::Uri;
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use serde::Serialize;

use super::{found, links::code_in, page_size, parameters, private};
use crate::{
    clicks::Clicks,
    error::Error,
    faults::Faults,
    rights::Rights,
    state::{AppState, SharedState},
    store::clicks::{ClickTotals, ClicksOfDay, TopLink},
};

/// UTC days in a query: how many there are, unless both ends are given, and how many there may be.
struct Period {
    usual: i32,
    most: i32,
}

const SERIES: Period = Period {
    usual: 30,
    most: 400,
};
const TOP: Period = Period { usual: 7, most: 31 };

/// The clicks on a link.
#[derive(Debug, Serialize)]
pub struct LinkClicks {
    /// Short code.
    code: String,
    /// First UTC day.
    from: Date,
    /// Last UTC day.
    to: Date,
    #[serde(flatten)]
    total: ClickTotals,
    /// Clicks on each of the days.
    days: Vec<ClicksOfDay>,
}

/// The links with most clicks of people.
#[derive(Debug, Serialize)]
pub struct TopLinks {
    /// First UTC day.
    from: Date,
    /// Last UTC day.
    to: Date,
    /// Links, the one with most clicks of people first.
    links: Vec<ClickedLink>,
}

/// A link with its clicks in a period.
#[derive(Debug, Serialize)]
struct ClickedLink {
    /// Short code.
    code: String,
    /// Public URL of the link.
    short_url: String,
    /// Destination; null once it was removed.
    url: Option<String>,
    #[serde(flatten)]
    clicks: ClickTotals,
}

/// Returns the clicks on a link, day by day.
pub async fn of_link(
    State(state): State<AppState>,
    rights: Rights,
    uri: Uri,
) -> Result<Response, Error> {
    let code = code_in(&uri)?;
    let mut faults = Faults::default();
    let [from, to] = parameters(uri.query(), ["from", "to"], &mut faults);
    let period = SERIES.read(from, to, today(), &mut faults);
    let (from, to) = faults.end(period)?;
    let store = &clicks(&state)?.store;
    let clicked = store.of_link(code.borrow(), (from, to), &rights).await?;
    let clicked = found(&state, clicked)?;
    let mut total = ClickTotals::default();
    for day in &clicked {
        total.people += day.clicks.people;
        total.bots += day.clicks.bots;
    }
    Ok(private(LinkClicks {
        code: code.borrow().as_str().to_owned(),
        from,
        to,
        total,
        days: every_day((from, to), clicked),
    }))
}

/// Returns the links that most people clicked.
pub async fn top(
    State(state): State<AppState>,
    rights: Rights,
    uri: Uri,
) -> Result<Response, Error> {
    let mut faults = Faults::default();
    let [from, to, limit] = parameters(uri.query(), ["from", "to", "limit"], &mut faults);
    let limit = page_size(limit, &mut faults);
    let period = TOP.read(from, to, today(), &mut faults);
    let (from, to) = faults.end(period)?;
    let store = &clicks(&state)?.store;
    let links = store.top((from, to), limit, &rights).await?.into_iter();
    let links = links.map(|link| ClickedLink::new(link, &state.public_base));
    let links = links.collect();
    Ok(private(TopLinks { from, to, links }))
}

/// Returns the clicks.
///
/// # Errors
/// Fails if the service does not count them.
fn clicks(state: &SharedState) -> Result<&Clicks, Error> {
    state.clicks.as_ref().ok_or(Error::ClicksDisabled)
}

impl ClickedLink {
    fn new(link: TopLink, public_base: &str) -> Self {
        Self {
            short_url: format!("{public_base}/{}", link.code),
            code: link.code,
            url: link.url,
            clicks: link.clicks,
        }
    }
}

impl Period {
    /// Returns the first and the last day of a query. Without an end, the usual number of days ends today.
    fn read(
        &self,
        from: Option<String>,
        to: Option<String>,
        today: Date,
        faults: &mut Faults,
    ) -> (Date, Date) {
        let from = from.map(|text| day(&text)).transpose();
        let to = to.map(|text| day(&text)).transpose();
        let (from, to) = match (from, to) {
            (Ok(from), Ok(to)) => (from, to),
            // The distance of a day that is none says nothing.
            (from, to) => {
                faults.value("from", from);
                faults.value("to", to);
                return Default::default();
            }
        };
        let more = (self.usual - 1).days();
        let (from, to) = match (from, to) {
            (Some(from), Some(to)) => (from, to),
            (Some(from), None) => (from, from.saturating_add(more).min(today.max(from))),
            (None, to) => {
                let to = to.unwrap_or(today);
                (to.saturating_sub(more), to)
            }
        };
        let days = (to - from).get_days() + 1;
        if !(1..=self.most).contains(&days) {
            let rule = format!("must be 0 to {} days after from", self.most - 1);
            faults.add::<()>("to", rule);
        }
        (from, to)
    }
}

/// Returns today in UTC.
fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

fn day(text: &str) -> Result<Date, String> {
    let day = text.parse().ok();
    // The parser also takes other ways to write a day.
    let day = day.filter(|day: &Date| day.year() >= 0 && day.to_string() == text);
    day.ok_or_else(|| "must be a day like 2030-01-31".to_owned())
}

/// Adds the days without a click.
fn every_day((from, to): (Date, Date), clicked: Vec<ClicksOfDay>) -> Vec<ClicksOfDay> {
    let mut clicked = clicked.into_iter().peekable();
    let days = from.series(1.day()).take_while(|day| *day <= to);
    let of_day = |day| {
        let clicks = clicked.next_if(|clicked| clicked.day == day);
        clicks.unwrap_or(ClicksOfDay {
            day,
            clicks: ClickTotals::default(),
        })
    };
    days.map(of_day).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(period: &Period, from: &str, to: &str) -> Result<[String; 2], Vec<&'static str>> {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut faults = Faults::default();
        let today = "2030-03-01".parse().unwrap();
        let (from, to) = period.read(given(from), given(to), today, &mut faults);
        match faults.end([from.to_string(), to.to_string()]) {
            Err(Error::InvalidFields(faults)) => {
                Err(faults.iter().map(|fault| fault.field).collect())
            }
            other => Ok(other.unwrap()),
        }
    }

    #[test]
    fn a_period_ends_today_unless_the_query_says_otherwise() {
        for (period, from, to, expected) in [
            (&SERIES, "", "", ["2030-01-31", "2030-03-01"]),
            (&TOP, "", "", ["2030-02-23", "2030-03-01"]),
            (&TOP, "", "2030-01-07", ["2030-01-01", "2030-01-07"]),
            (&TOP, "2030-01-01", "", ["2030-01-01", "2030-01-07"]),
            (
                &TOP,
                "2030-01-01",
                "2030-01-31",
                ["2030-01-01", "2030-01-31"],
            ),
            (&TOP, "2030-02-27", "", ["2030-02-27", "2030-03-01"]),
            (&TOP, "9999-12-31", "", ["9999-12-31", "9999-12-31"]),
            (
                &SERIES,
                "2029-01-01",
                "2030-02-04",
                ["2029-01-01", "2030-02-04"],
            ),
        ] {
            let expected = expected.map(str::to_owned);
            assert_eq!(read(period, from, to), Ok(expected), "{from} {to}");
        }
    }

    #[test]
    fn every_invalid_day_is_named_and_so_is_a_period_that_is_too_long() {
        for (from, to, expected) in [
            ("2030-1-1", "2030-01-07T00:00:00", &["from", "to"][..]),
            ("20300101", "", &["from"]),
            ("x", "2030-01-07", &["from"]),
            ("2030-01-01", "x", &["to"]),
            ("2030-02-30", "", &["from"]),
            ("2030-01-02", "2030-01-01", &["to"]),
            ("2030-01-01", "2030-02-01", &["to"]),
        ] {
            assert_eq!(read(&TOP, from, to), Err(expected.to_vec()), "{from} {to}");
        }
        assert_eq!(read(&SERIES, "2029-01-01", "2030-02-05"), Err(vec!["to"]));
    }

    #[test]
    fn a_day_without_a_click_has_a_row() {
        let of = |day: &str, people| ClicksOfDay {
            day: day.parse().unwrap(),
            clicks: ClickTotals { people, bots: 0 },
        };
        let days = ["2030-02-28".parse().unwrap(), "2030-03-02".parse().unwrap()];
        let found = every_day((days[0], days[1]), vec![of("2030-03-01", 7)]);
        let expected = [
            of("2030-02-28", 0),
            of("2030-03-01", 7),
            of("2030-03-02", 0),
        ];
        assert_eq!(found, expected);
    }
}
