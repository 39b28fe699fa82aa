//! The times of a CronJob, in the form that the admission rules allow.

use k8s_openapi::jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};

/// Number of days that are searched for a time. 29 February may come after eight years.
const SEARCHED_DAYS: usize = 8 * 366 + 1;

/// The times at which a CronJob runs, in UTC. Each field is a set of numbers as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// True when the days of the month, or those of the week, are not limited. Otherwise a day of either list is one.
    every_day: bool,
}

impl Schedule {
    /// Parses the five fields of cron, or one of the words; `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let fields = match text {
            "@hourly" => "0 * * * *",
            "@daily" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" => "0 0 1 1 *",
            fields => fields,
        };
        let fields: Vec<&str> = fields.split(' ').collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return None;
        };
        let is_open = |field: &str| field == "*" || field == "*/1";
        Some(Self {
            minutes: numbers(minutes, 0, 59)?,
            hours: numbers(hours, 0, 23)?,
            days: numbers(days, 1, 31)?,
            months: numbers(months, 1, 12)?,
            weekdays: numbers(weekdays, 0, 6)?,
            every_day: is_open(days) || is_open(weekdays),
        })
    }

    /// Returns the last time before `now`; `None` if there was none for years.
    pub fn last_before(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(TimeZone::UTC).datetime();
        let mut day = now.date();
        for _ in 0..SEARCHED_DAYS {
            let mut times = self.times(day);
            if let Some(found) = times.find(|time| *time < now) {
                return Some(found.to_zoned(TimeZone::UTC).ok()?.timestamp());
            }
            day = day.yesterday().ok()?;
        }
        None
    }

    fn has_day(&self, day: Date) -> bool {
        let weekday = has(self.weekdays, day.weekday().to_sunday_zero_offset());
        let of_month = has(self.days, day.day());
        let day_fits = if self.every_day {
            weekday && of_month
        } else {
            weekday || of_month
        };
        day_fits && has(self.months, day.month())
    }

    /// Returns the times of a day, the latest first.
    fn times(&self, day: Date) -> impl Iterator<Item = DateTime> {
        let minutes = self.minutes;
        let hours = if self.has_day(day) { self.hours } else { 0 };
        members(hours)
            .flat_map(move |hour| members(minutes).map(move |minute| day.at(hour, minute, 0, 0)))
    }
}

fn has(set: u64, number: i8) -> bool {
    (set >> number) & 1 == 1
}

/// Returns the numbers of a set, the largest first.
fn members(set: u64) -> impl Iterator<Item = i8> {
    (0..60).rev().filter(move |number| has(set, *number))
}

/// Parses a list of numbers, ranges and steps within these limits.
fn numbers(field: &str, least: u32, most: u32) -> Option<u64> {
    let mut set = 0;
    for part in field.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let step: usize = step.parse().ok().filter(|step| *step > 0)?;
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
            None if range == "*" => (least, most),
            None => {
                let number = range.parse().ok()?;
                (number, number)
            }
        };
        if first < least || last > most || first > last {
            return None;
        }
        for number in (first..=last).step_by(step) {
            set |= 1 << number;
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(schedule: &str, now: &str) -> Option<String> {
        let schedule = Schedule::parse(schedule).unwrap();
        let last = schedule.last_before(now.parse().unwrap())?;
        Some(last.to_string())
    }

    #[test]
    fn the_last_time_before_a_moment_is_found() {
        // 28 November 2026 is a Saturday.
        let now = "2026-11-28T12:34:56Z";
        for (schedule, expected) in [
            ("17 3 * * *", "2026-11-28T03:17:00Z"),
            ("17 13 * * *", "2026-11-27T13:17:00Z"),
            ("34 12 * * *", "2026-11-28T12:34:00Z"),
            ("*/15 * * * *", "2026-11-28T12:30:00Z"),
            ("5,50 8-11/2 * * *", "2026-11-28T10:50:00Z"),
            ("0 0 * * 0", "2026-11-22T00:00:00Z"),
            ("0 0 31 * *", "2026-10-31T00:00:00Z"),
            ("0 0 29 2 *", "2024-02-29T00:00:00Z"),
            // A day of either list.
            ("0 0 1 * 5", "2026-11-27T00:00:00Z"),
            ("0 0 */1 * 5", "2026-11-27T00:00:00Z"),
            ("@hourly", "2026-11-28T12:00:00Z"),
            ("@daily", "2026-11-28T00:00:00Z"),
            ("@weekly", "2026-11-22T00:00:00Z"),
            ("@monthly", "2026-11-01T00:00:00Z"),
            ("@yearly", "2026-01-01T00:00:00Z"),
        ] {
            assert_eq!(last(schedule, now).as_deref(), Some(expected), "{schedule}");
        }
        // A time is not before itself.
        let twice = last("17 3 * * *", "2026-11-28T03:17:00Z");
        assert_eq!(twice.as_deref(), Some("2026-11-27T03:17:00Z"));
        assert_eq!(last("0 0 31 2 *", now), None);
    }

    #[test]
    fn what_the_rules_refuse_is_no_schedule() {
        for text in [
            "",
            "17 3 * *",
            "60 3 * * *",
            "8-2 3 * * *",
            "*/0 * * * *",
            "@reboot",
            "a * * * *",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text:?}");
        }
    }
}
