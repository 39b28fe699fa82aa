//! Times that repeat, in the five fields of cron: minute, hour, day of the month, month, and day of the week. All times
//! are in UTC.

use std::str::FromStr;

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};

/// The number of days in which a time is looked for: two leap days may be eight years apart.
const DAYS: u32 = 8 * 366;

/// Names and ranges of the fields.
const FIELDS: [(&str, u32, u32); 5] = [
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    // 0 and 7 are Sunday.
    ("day of the week", 0, 7),
];

/// Times that repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The permitted values of each field, one bit for each.
    fields: [u64; 5],
    /// True if both fields for days are restricted. As in cron, a day then needs to match only one of them.
    either_day: bool,
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let words: [&str; 5] = words
            .try_into()
            .map_err(|_| "must have five fields, such as 17 3 * * *".to_owned())?;
        let mut fields = [0; 5];
        for ((set, word), (name, low, high)) in fields.iter_mut().zip(words).zip(FIELDS) {
            *set = values(word, low, high).ok_or_else(|| {
                format!(
                    "the {name} {word} must be *, numbers from {low} to {high}, or ranges of them, such as 1,10-20/2"
                )
            })?;
        }
        // Sunday has two numbers.
        fields[4] |= fields[4] >> 7 & 1;
        let restricted = |word: &str| !word.starts_with('*');
        Ok(Self {
            fields,
            either_day: restricted(words[2]) && restricted(words[4]),
        })
    }
}

/// Returns the values of a field, or `None` if it is malformed. A range may go over the end of the values: `22-2`.
fn values(field: &str, low: u32, high: u32) -> Option<u64> {
    let mut set = 0;
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step_of(step)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((from, to)) => (number(from, low, high)?, number(to, low, high)?),
            None if step.is_none() => {
                let only = number(range, low, high)?;
                (only, only)
            }
            None => return None,
        };
        let size = high - low + 1;
        let length = (to + size - from) % size;
        for offset in (0..=length).step_by(step.unwrap_or(1)) {
            set |= 1 << (low + (from - low + offset) % size);
        }
    }
    Some(set)
}

fn number(text: &str, low: u32, high: u32) -> Option<u32> {
    let plain = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| plain)?;
    (low..=high).contains(&number).then_some(number)
}

fn step_of(text: &str) -> Option<usize> {
    let step = number(text, 1, 99).filter(|_| !text.starts_with('0'))?;
    usize::try_from(step).ok()
}

impl Schedule {
    /// Returns the last time that is not after `now`, or `None` if there is none, such as for 30 February.
    #[must_use]
    pub fn latest(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(TimeZone::UTC).datetime();
        let mut date = now.date();
        let mut until = (now.hour(), now.minute());
        for _ in 0..DAYS {
            if self.has_day(date)
                && let Some(time) = self.latest_time(date, until)
            {
                return time
                    .to_zoned(TimeZone::UTC)
                    .ok()
                    .map(|time| time.timestamp());
            }
            date = date.yesterday().ok()?;
            until = (23, 59);
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let [_, _, days, months, weekdays] = self.fields;
        let day = has(days, date.day());
        let weekday = has(weekdays, date.weekday().to_sunday_zero_offset());
        let matches = if self.either_day {
            day || weekday
        } else {
            day && weekday
        };
        matches && has(months, date.month())
    }

    /// Returns the last time of a day up to this hour and minute.
    fn latest_time(&self, date: Date, (hour, minute): (i8, i8)) -> Option<DateTime> {
        let [minutes, hours, ..] = self.fields;
        let mut candidates = (0..=hour).rev().filter(|hour| has(hours, *hour));
        candidates.find_map(|candidate| {
            let last = if candidate == hour { minute } else { 59 };
            let found = (0..=last).rev().find(|minute| has(minutes, *minute))?;
            Some(date.at(candidate, found, 0, 0))
        })
    }
}

fn has(set: u64, value: i8) -> bool {
    set >> value & 1 == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn latest(schedule: &str, now: &str) -> String {
        let schedule: Schedule = schedule.parse().unwrap();
        let latest = schedule.latest(now.parse().unwrap());
        latest.map_or_else(|| "never".to_owned(), |time| time.to_string())
    }

    #[test]
    fn the_latest_time_is_found_in_days_months_and_years_before() {
        for (schedule, now, expected) in [
            ("17 3 * * *", "2026-11-23T03:17:00Z", "2026-11-23T03:17:00Z"),
            ("17 3 * * *", "2026-11-23T03:16:59Z", "2026-11-22T03:17:00Z"),
            ("17 3 * * *", "2026-01-01T00:00:00Z", "2025-12-31T03:17:00Z"),
            (
                "* * * * *",
                "2026-11-23T03:16:59.5Z",
                "2026-11-23T03:16:00Z",
            ),
            (
                "*/15 8-17 * * *",
                "2026-11-23T18:20:00Z",
                "2026-11-23T17:45:00Z",
            ),
            (
                "0 22-2/2 * * *",
                "2026-11-23T03:00:00Z",
                "2026-11-23T02:00:00Z",
            ),
            (
                "5,50 * * * *",
                "2026-11-23T00:04:00Z",
                "2026-11-22T23:50:00Z",
            ),
            // A Sunday, by both of its numbers; 23 November 2026 is a Monday.
            ("0 0 * * 0", "2026-11-23T10:00:00Z", "2026-11-22T00:00:00Z"),
            ("0 0 * * 7", "2026-11-23T10:00:00Z", "2026-11-22T00:00:00Z"),
            (
                "0 0 * * 6-7",
                "2026-11-22T10:00:00Z",
                "2026-11-22T00:00:00Z",
            ),
            // The first of a month or a Friday.
            ("0 0 1 * 5", "2026-11-23T10:00:00Z", "2026-11-20T00:00:00Z"),
            ("0 0 1 * 5", "2026-11-03T10:00:00Z", "2026-11-01T00:00:00Z"),
            ("0 0 31 * *", "2026-12-01T00:00:00Z", "2026-10-31T00:00:00Z"),
            ("0 0 29 2 *", "2026-12-01T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("0 0 29 2 *", "2104-02-28T00:00:00Z", "2096-02-29T00:00:00Z"),
            ("0 0 30 2 *", "2026-12-01T00:00:00Z", "never"),
        ] {
            assert_eq!(latest(schedule, now), expected, "{schedule} at {now}");
        }
    }

    #[test]
    fn what_is_not_five_fields_of_numbers_is_refused_with_the_field() {
        for (schedule, part) in [
            ("", "five fields"),
            ("17 3 * *", "five fields"),
            ("17  3 * * *", "five fields"),
            ("60 3 * * *", "minute 60"),
            ("+5 3 * * *", "minute +5"),
            ("17 24 * * *", "hour 24"),
            ("17 3 0 * *", "day of the month 0"),
            ("17 3 * 13 *", "month 13"),
            ("17 3 * JAN *", "month JAN"),
            ("17 3 * * 8", "day of the week 8"),
            ("*/0 3 * * *", "minute */0"),
            ("5/10 3 * * *", "minute 5/10"),
            ("1, 3 * * *", "minute 1,"),
            ("@daily", "five fields"),
        ] {
            let error = schedule.parse::<Schedule>().unwrap_err();
            assert!(error.contains(part), "{schedule}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[0-9*/, -]{0,20}") {
            let _ = text.parse::<Schedule>();
        }

        #[test]
        fn no_time_is_left_out(minute in 0_i64..60, seconds in 0_i64..4_000_000_000) {
            let schedule: Schedule = format!("{minute} * * * *").parse().unwrap();
            let latest = schedule.latest(Timestamp::from_second(seconds).unwrap()).unwrap();
            let distance = seconds - latest.as_second();
            prop_assert!((0..3600).contains(&distance) && latest.as_second() % 3600 == minute * 60);
        }
    }
}
