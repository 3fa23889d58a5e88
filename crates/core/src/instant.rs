//! Microseconds since 1970 as ISO-8601 text, and days as dates; proleptic Gregorian, any year.

use std::fmt;
use std::str::FromStr;

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
        // Every row has three: put together first, for formatting each part takes far longer.
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        digits(&mut text[5..7], month);
        digits(&mut text[8..10], day);
        digits(&mut text[11..13], seconds / 3600);
        digits(&mut text[14..16], seconds / 60 % 60);
        digits(&mut text[17..19], seconds % 60);
        digits(&mut text[20..26], micros);
        let mut start = 0;
        if (0..=9999).contains(&year) {
            digits(&mut text[..4], year);
        } else {
            write!(f, "{year:+07}")?;
            start = 4;
        }
        f.write_str(std::str::from_utf8(&text[start..]).unwrap_or_default())
    }
}

/// What is not a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAMoment;

impl fmt::Display for NotAMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "is no moment; 2026-06-11T10:22:47Z is wanted, or less of it (2026-06-11), or with another zone (+02:00)",
        )
    }
}

impl std::error::Error for NotAMoment {}

/// ISO-8601, with a blank or a T between date and time; UTC unless it says otherwise.
impl FromStr for Instant {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Instant, NotAMoment> {
        moment(text).ok_or(NotAMoment)
    }
}

fn moment(text: &str) -> Option<Instant> {
    let (date, rest) = text.split_at(text.find(['T', ' ']).unwrap_or(text.len()));
    let (sign, date) = match date.strip_prefix(['+', '-']) {
        None => (1, date),
        Some(expanded) if expanded.len() < "000000-00-00".len() => return None,
        Some(expanded) => (if date.starts_with('-') { -1 } else { 1 }, expanded),
    };
    let [year, month, day] = parts(date, '-')?;
    let mut seconds = days(sign * year, month, day)?.checked_mul(86_400)?;
    if rest.is_empty() {
        return Some(Instant(seconds.checked_mul(1_000_000)?));
    }
    let rest = rest.strip_prefix(['T', ' '])?;
    let at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(at);
    seconds -= offset(zone)?;
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let whole = if whole.matches(':').count() == 1 {
        format!("{whole}:00")
    } else {
        whole.to_owned()
    };
    let [hour, minute, second] = parts(&whole, ':')?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    seconds += hour * 3600 + minute * 60 + second;
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let micros = format!("{fraction:0<6}");
    let micros = micros.get(..6).filter(|_| is_number)?.parse::<i64>().ok()?;
    Some(Instant(
        seconds.checked_mul(1_000_000)?.checked_add(micros)?,
    ))
}

/// Three numbers of digits alone.
fn parts(text: &str, between: char) -> Option<[i64; 3]> {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    };
    let parts: Vec<i64> = text.split(between).map(number).collect::<Option<_>>()?;
    parts.try_into().ok()
}

/// Seconds east of Greenwich.
fn offset(zone: &str) -> Option<i64> {
    let Some(sign) = zone.chars().next().filter(|sign| *sign != 'Z') else {
        return (zone.len() < 2).then_some(0);
    };
    let [hours, minutes, _] = parts(&format!("{}:0", zone.get(1..)?), ':')?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    Some(if sign == '-' { -seconds } else { seconds })
}

/// Fills the place with a number's last digits.
fn digits(place: &mut [u8], number: i64) {
    let mut rest = number;
    for byte in place.iter_mut().rev() {
        *byte = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
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

/// The last year that a date may have, and the first one without its sign: as far as Java's dates reach, and farther than
/// any database's.
const LAST_YEAR: i64 = 999_999_999;

/// Days since 1970-01-01 of a date; the inverse of the above. `None` if it does not exist.
pub fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day < 1 || day > last || !(-LAST_YEAR..=LAST_YEAR).contains(&year) {
        return None;
    }
    let (year, month_from_march) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    Some(year * 365 + leap_days + day_of_year - 719_468)
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
    fn a_moment_is_read_as_it_is_told_or_shorter() {
        for micros in [
            0,
            1_781_234_567_000_123,
            -1,
            951_782_400_000_000,
            253_402_300_800_000_000,
            -62_167_219_200_000_001,
        ] {
            assert_eq!(Instant(micros).to_string().parse(), Ok(Instant(micros)));
        }
        let noon = Ok(Instant(1_781_265_600_000_000));
        for text in [
            "2026-06-12T12:00:00Z",
            "2026-06-12 12:00",
            "2026-06-12T14:00:00.000000+02:00",
            "2026-06-12T07:30:00.0-04:30",
        ] {
            assert_eq!(text.parse(), noon, "{text}");
        }
        assert_eq!("1970-01-02".parse(), Ok(Instant(86_400_000_000)));
        for text in [
            "",
            "today",
            "2026-13-01",
            "2026-06-12T",
            "2026-06-12T25:00:00Z",
            "2026-06-12T12:00:00ZZ",
            "2026-06-12T12:00:00+2",
            "2026-06-12T12:00:00.x",
            "2026-06-12T12",
            "+026-06-12",
            "2026-06-12T12:00:00+99:99",
            "2026-06-12T12:00:00+9999999999999999:00",
        ] {
            assert_eq!(text.parse::<Instant>(), Err(NotAMoment), "{text}");
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
    fn the_first_and_the_last_year_come_back() {
        for (year, month, day) in [(-LAST_YEAR, 1, 1), (LAST_YEAR, 12, 31)] {
            let number = days(year, month, day).expect("a day");
            assert_eq!(date(number), (year, month, day));
        }
    }

    #[test]
    fn a_date_that_does_not_exist_is_none() {
        assert_eq!(days(2027, 2, 29), None);
        assert_eq!(days(2026, 13, 1), None);
        assert_eq!(days(2026, 4, 31), None);
        assert_eq!(days(2026, 1, 0), None);
        assert_eq!(days(1_000_000_000, 1, 1), None);
        assert_eq!(days(i64::MIN, 1, 1), None);
    }
}
