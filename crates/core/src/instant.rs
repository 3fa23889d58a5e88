//! Microseconds since 1970 as ISO-8601 text, and days as dates; proleptic Gregorian, any year.

use std::fmt;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A moment in UTC: `2026-06-11T10:22:47.000123Z`, always six digits of fraction. A year outside 0000 to 9999 has a sign
/// and six digits (ISO-8601's expanded form): year 0 is 1 BC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub i64);

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0.div_euclid(MICROS_PER_DAY));
        let within = self.0.rem_euclid(MICROS_PER_DAY);
        let (seconds, micros) = (within / 1_000_000, within % 1_000_000);
        if (0..=9999).contains(&year) {
            write!(f, "{year:04}")?;
        } else {
            write!(f, "{year:+07}")?;
        }
        write!(
            f,
            "-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        )
    }
}

/// Year, month and day of a number of days since 1970-01-01. Years are counted from 1 March, so that the leap day is the
/// last of its year, in eras of 400 years, which all have the same number of days.
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + 719_468; // since 0000-03-01
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// Days since 1970-01-01 of a date; the inverse of the above. `None` if it does not exist.
pub fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(-300_000..=300_000).contains(&year) {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    (date(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_with_six_digits_and_z() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1_781_234_567_000_123, "2026-06-12T03:22:47.000123Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (253_402_300_800_000_000, "+010000-01-01T00:00:00.000000Z"),
            (-62_167_219_200_000_001, "-000001-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Instant(micros).to_string(), text);
        }
    }

    #[test]
    fn every_day_of_eight_hundred_years_comes_back() {
        for number in -146_097..=146_097 {
            let (year, month, day) = date(number);
            assert_eq!(days(year, month, day), Some(number));
        }
    }

    #[test]
    fn the_next_day_follows_the_calendar() {
        let mut expected = (1600, 1, 1);
        let first = days(1600, 1, 1).expect("a day");
        for number in first..first + 146_097 {
            assert_eq!(date(number), expected);
            expected = tomorrow(expected);
        }
    }

    fn tomorrow((year, month, day): (i64, i64, i64)) -> (i64, i64, i64) {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (month, day) {
            (12, 31) => (year + 1, 1, 1),
            (_, day) if day == last => (year, month + 1, 1),
            _ => (year, month, day + 1),
        }
    }

    #[test]
    fn a_date_that_does_not_exist_is_none() {
        assert_eq!(days(2027, 2, 29), None);
        assert_eq!(days(2026, 13, 1), None);
        assert_eq!(days(2026, 4, 31), None);
        assert_eq!(days(2026, 1, 0), None);
    }
}
