//! The time of a line as text (RFC 3339), as `jiff` writes it: in UTC, with the digits of the fraction that are needed.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// The text of the last second, which the lines of that second share.
#[derive(Default)]
pub(super) struct Clock {
    second: u64,
    /// The text up to the second; empty until the first line.
    text: String,
}

impl Clock {
    /// Appends this time.
    pub(super) fn write(&mut self, now: SystemTime, text: &mut Vec<u8>) {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.second != since.as_secs() || self.text.is_empty() {
            self.second = since.as_secs();
            self.text = text_of(self.second);
        }
        text.extend_from_slice(self.text.as_bytes());
        write_fraction(since.subsec_nanos(), text);
        text.push(b'Z');
    }
}

fn text_of(second: u64) -> String {
    let second = i64::try_from(second).unwrap_or(i64::MAX);
    let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// Appends a point and the digits of a fraction without zeros at the end, or nothing for a whole second.
fn write_fraction(nanoseconds: u32, text: &mut Vec<u8>) {
    let mut digits = [b'0'; 10];
    digits[0] = b'.';
    let mut rest = nanoseconds;
    for digit in digits[1..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    if nanoseconds > 0 {
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0');
        let end = digits.len() - zeros.count();
        text.extend_from_slice(&digits[..end]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn written(clock: &mut Clock, since: Duration) -> String {
        let mut text = Vec::new();
        clock.write(UNIX_EPOCH + since, &mut text);
        String::from_utf8(text).unwrap()
    }

    fn expected(since: Duration) -> String {
        Timestamp::try_from(UNIX_EPOCH + since).unwrap().to_string()
    }

    #[test]
    fn a_fraction_has_the_digits_that_are_needed() {
        let mut clock = Clock::default();
        for (nanoseconds, fraction) in [
            (0, ""),
            (1, ".000000001"),
            (100, ".0000001"),
            (500_000_000, ".5"),
            (999_999_999, ".999999999"),
        ] {
            let text = written(&mut clock, Duration::new(0, nanoseconds));
            assert_eq!(text, format!("1970-01-01T00:00:00{fraction}Z"));
        }
    }

    proptest! {
        #[test]
        fn times_read_as_before_whichever_second_was_last(
            times in proptest::collection::vec((0u64..253_402_207_200, 0u32..1_000_000_000), 1..8),
        ) {
            let mut clock = Clock::default();
            for (seconds, nanoseconds) in times {
                for nanoseconds in [nanoseconds, 0] {
                    let since = Duration::new(seconds, nanoseconds);
                    prop_assert_eq!(written(&mut clock, since), expected(since));
                }
            }
        }
    }
}
