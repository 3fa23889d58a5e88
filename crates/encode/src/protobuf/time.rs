//! Points in time and spans of it, from the text that Protobuf's JSON has for them.

use headwater_core::instant::days;

/// Seconds and nanoseconds, as `google.protobuf.Timestamp` and `Duration` hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub seconds: i64,
    pub nanos: i32,
}

/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;
/// About ten thousand years.
const LONGEST: i64 = 315_576_000_000;

/// `2026-06-12T03:22:47.450789Z` or with an offset; parts may have a single digit, dates must exist.
pub fn timestamp(text: &str) -> Option<Moment> {
    let mut parts = Parts(text.as_bytes());
    let year = parts.number(9)?;
    parts.skip(b'-')?;
    let month = parts.number(2)?;
    parts.skip(b'-')?;
    let day = parts.number(2)?;
    parts.skip(b'T')?;
    let hour = parts.number(2)?;
    parts.skip(b':')?;
    let minute = parts.number(2)?;
    parts.skip(b':')?;
    let second = parts.number(2)?;
    let nanos = parts.fraction()?;
    let offset = parts.offset()?;
    let is_time = hour < 24 && minute < 60 && second < 60;
    if !is_time || !(1..=9999).contains(&year) {
        return None;
    }
    let seconds = (days(year, month, day)? * 24 + hour) * 3600 + minute * 60 + second - offset;
    let is_in_range = (FIRST..=LAST).contains(&seconds);
    is_in_range.then_some(Moment { seconds, nanos })
}

/// `-1.5s`: seconds with an optional fraction.
pub fn duration(text: &str) -> Option<Moment> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = Parts(unsigned.strip_prefix('+').unwrap_or(unsigned).as_bytes());
    let seconds = parts.number(usize::MAX)?;
    let nanos = parts.fraction()?;
    parts.skip(b's')?;
    if !parts.0.is_empty() || seconds > LONGEST {
        return None;
    }
    let sign = if negative { -1 } else { 1 };
    Some(Moment {
        seconds: seconds * sign,
        nanos: nanos * i32::try_from(sign).unwrap_or(1),
    })
}

/// What is left of a text.
struct Parts<'t>(&'t [u8]);

impl Parts<'_> {
    fn skip(&mut self, wanted: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        (*first == wanted).then_some(())
    }

    /// At least one digit, at most so many.
    fn number(&mut self, most: usize) -> Option<i64> {
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 || digits > most {
            return None;
        }
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        number.iter().try_fold(0_i64, |value, digit| {
            value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))
        })
    }

    /// Nothing, or a point and any digits; those after the ninth are cut.
    fn fraction(&mut self) -> Option<i32> {
        if self.0.first() != Some(&b'.') {
            return Some(0);
        }
        self.skip(b'.')?;
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let (fraction, rest) = self.0.split_at(digits);
        self.0 = rest;
        let nine = fraction
            .iter()
            .copied()
            .chain(std::iter::repeat(b'0'))
            .take(9);
        Some(nine.fold(0, |nanos, digit| nanos * 10 + i32::from(digit - b'0')))
    }

    /// `Z`, or how far local time is ahead; then the text must end.
    fn offset(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        let seconds = match first {
            b'Z' => 0,
            b'+' => self.hours()?,
            b'-' => -self.hours()?,
            _ => return None,
        };
        self.0.is_empty().then_some(seconds)
    }

    fn hours(&mut self) -> Option<i64> {
        let hours = self.number(2)?;
        self.skip(b':')?;
        let minutes = self.number(2)?;
        (hours < 24 && minutes < 60).then_some((hours * 60 + minutes) * 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(moment: Option<Moment>) -> Option<(i64, i32)> {
        moment.map(|moment| (moment.seconds, moment.nanos))
    }

    #[test]
    fn a_timestamp_is_read_with_offset_fraction_and_single_digits() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2026-06-12T03:22:47.450789Z", 1_781_234_567, 450_789_000),
            ("2026-06-12T05:22:47+02:00", 1_781_234_567, 0),
            ("2026-6-12T0:52:47-2:30", 1_781_234_567, 0),
            ("2026-06-12T03:22:47.Z", 1_781_234_567, 0),
            (
                "2026-06-12T03:22:47.1234567899Z",
                1_781_234_567,
                123_456_789,
            ),
            ("1969-12-31T23:59:58.25Z", -2, 250_000_000),
            ("0001-01-01T00:00:00Z", FIRST, 0),
            ("9999-12-31T23:59:59.999999999Z", LAST, 999_999_999),
            ("2000-02-29T00:00:00Z", 951_782_400, 0),
        ] {
            assert_eq!(parts(timestamp(text)), Some((seconds, nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_existing_point_in_time_is_refused() {
        for text in [
            "",
            "T",
            "2026-06-12",
            "2026-06-12T03:22:47",
            "2026-06-12T03:22Z",
            "2026-06-12t03:22:47Z",
            "2026-06-12T03:22:47z",
            "2027-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "0000-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+01:00",
            "2026-06-12T03:22:47+02",
            "2026-06-12T03:22:47+0200",
            "2026-06-12T03:22:47Zx",
            "2026-06-12T03:22:47.x1Z",
            "2026-06-12 03:22:47Z",
            "-2026-06-12T03:22:47Z",
            "1781234567",
        ] {
            assert_eq!(timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn a_duration_is_seconds_with_a_sign() {
        for (text, seconds, nanos) in [
            ("0s", 0, 0),
            ("90.25s", 90, 250_000_000),
            ("-1.5s", -1, -500_000_000),
            ("-0.5s", 0, -500_000_000),
            ("+5s", 5, 0),
            ("5.s", 5, 0),
            ("1.0000000019s", 1, 1),
            ("315576000000.999999999s", LONGEST, 999_999_999),
        ] {
            assert_eq!(parts(duration(text)), Some((seconds, nanos)), "{text}");
        }
        for text in [
            "",
            "s",
            "5",
            ".5s",
            "PT90S",
            "--5s",
            "5S",
            "1.5xs",
            "315576000001s",
            "1e3s",
            " 5s",
            "99999999999999999999s",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
