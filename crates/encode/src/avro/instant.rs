//! ISO-8601 text as Java's `Instant` and `LocalDate` read it.

use headwater_core::instant::days;

const SECONDS_PER_DAY: i64 = 86_400;

/// Seconds and nanoseconds since 1970, the latter never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub seconds: i64,
    pub nanos: u32,
}

impl Moment {
    /// In units of which a second has so many; finer digits are cut. `None`: outside of 64 bits.
    pub fn in_units(self, per_second: u32) -> Option<i64> {
        // The first second of the range begins before it: the sum fits where the product alone does not.
        let whole = i128::from(self.seconds) * i128::from(per_second);
        let part = i128::from(self.nanos / (1_000_000_000 / per_second));
        i64::try_from(whole + part).ok()
    }
}

/// `2026-06-12T03:22:47[.450789123](Z|+02:00[:00])`.
pub fn moment(text: &str) -> Option<Moment> {
    let mut rest = Rest(text.as_bytes());
    let days = rest.date()?;
    rest.one_of(b'T', b't')?;
    let hour = rest.two_digits()?;
    rest.byte(b':')?;
    let minute = rest.two_digits()?;
    rest.byte(b':')?;
    let second = rest.two_digits()?;
    let nanos = rest.fraction()?;
    let offset = rest.offset()?;
    if !rest.0.is_empty() {
        return None;
    }
    let second = match (hour, minute, second) {
        // The end of a day is the beginning of the next one.
        (24, 0, 0) if nanos == 0 => 0,
        // A leap second counts as the second before it.
        (23, 59, 60) => 59,
        (0..=23, 0..=59, 0..=59) => second,
        _ => return None,
    };
    let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
    Some(Moment { seconds, nanos })
}

/// `2026-06-12`, as days since 1970.
pub fn date(text: &str) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let days = rest.date()?;
    rest.0.is_empty().then_some(days)
}

struct Rest<'t>(&'t [u8]);

impl Rest<'_> {
    #[inline]
    fn byte(&mut self, wanted: u8) -> Option<()> {
        self.one_of(wanted, wanted)
    }

    #[inline]
    fn one_of(&mut self, one: u8, other: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        (*first == one || *first == other).then_some(())
    }

    #[inline]
    fn two_digits(&mut self) -> Option<i64> {
        let [tens, ones, rest @ ..] = self.0 else {
            return None;
        };
        self.0 = rest;
        Some(digit(*tens)? * 10 + digit(*ones)?)
    }

    fn date(&mut self) -> Option<i64> {
        let year = self.year()?;
        self.byte(b'-')?;
        let month = self.two_digits()?;
        self.byte(b'-')?;
        days(year, month, self.two_digits()?)
    }

    /// Four digits, or a sign and up to ten; `+` only where four are not enough, and no year is `-0000`.
    fn year(&mut self) -> Option<i64> {
        let sign = self
            .0
            .first()
            .copied()
            .filter(|sign| matches!(sign, b'+' | b'-'));
        if sign.is_some() {
            self.0 = &self.0[1..];
        }
        let count = self
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let is_allowed = match sign {
            None => count == 4,
            Some(b'+') => (5..=10).contains(&count),
            Some(_) => (4..=10).contains(&count),
        };
        if !is_allowed {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let year = digits
            .iter()
            .fold(0, |year, digit| year * 10 + i64::from(digit - b'0'));
        match sign {
            Some(b'-') => (year > 0).then_some(-year),
            _ => Some(year),
        }
    }

    /// Up to nine digits behind a point, or nothing.
    fn fraction(&mut self) -> Option<u32> {
        let [b'.', digits @ ..] = self.0 else {
            return Some(0);
        };
        let count = digits
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (digits, rest) = digits.split_at(count);
        self.0 = rest;
        let padding = 9_u32.checked_sub(u32::try_from(count).ok()?)?;
        let value = digits
            .iter()
            .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        Some(value * 10_u32.pow(padding))
    }

    /// Seconds east of Greenwich.
    fn offset(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        let sign = match first {
            b'Z' | b'z' => return Some(0),
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hours = self.two_digits()?;
        self.byte(b':')?;
        let minutes = self.two_digits()?;
        let seconds = if self.0.is_empty() {
            0
        } else {
            self.byte(b':')?;
            self.two_digits()?
        };
        let offset = hours * 3600 + minutes * 60 + seconds;
        (minutes < 60 && seconds < 60 && offset <= 18 * 3600).then_some(sign * offset)
    }
}

#[inline]
fn digit(byte: u8) -> Option<i64> {
    let digit = byte.wrapping_sub(b'0');
    (digit < 10).then_some(i64::from(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<(i64, u32)> {
        moment(text).map(|moment| (moment.seconds, moment.nanos))
    }

    #[test]
    fn a_moment_is_read_as_java_reads_it() {
        for (text, expected) in [
            (
                "2026-06-12T03:22:47.4507Z",
                Some((1_781_234_567, 450_700_000)),
            ),
            (
                "2026-06-12T03:22:47.450789123Z",
                Some((1_781_234_567, 450_789_123)),
            ),
            ("2026-06-12T05:22:47+02:00", Some((1_781_234_567, 0))),
            ("2026-06-12t03:22:47.z", Some((1_781_234_567, 0))),
            ("2026-06-11T24:00:00Z", Some((1_781_222_400, 0))),
            ("2016-12-31T23:59:60Z", Some((1_483_228_799, 0))),
            ("+12026-06-12T03:22:47Z", Some((317_350_754_567, 0))),
            ("-0001-01-01T00:00:00-18:00", Some((-62_198_690_400, 0))),
            ("0000-02-29T00:00:00Z", Some((-62_162_121_600, 0))),
            ("2026-06-12 03:22:47Z", None),
            ("2026-06-12T03:22Z", None),
            ("2026-06-12T03:22:47", None),
            ("2026-06-12T03:22:47+02", None),
            ("2026-06-12T03:22:47+0200", None),
            ("2026-06-12T03:22:47+18:01", None),
            ("2026-06-12T03:22:47.1234567890Z", None),
            ("2026-06-12T24:00:01Z", None),
            ("2026-06-12T22:59:60Z", None),
            ("2026-02-29T00:00:00Z", None),
            ("+2026-06-12T03:22:47Z", None),
            ("12026-06-12T03:22:47Z", None),
            ("-0000-06-12T03:22:47Z", None),
            ("+1000000000-01-01T00:00:00Z", None),
            ("2026-6-12T03:22:47Z", None),
            ("", None),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn the_first_and_the_last_moment_of_each_unit_fit_and_their_neighbours_do_not() {
        for (per_second, first, before, last, after) in [
            (
                1_000,
                "-292275055-05-16T16:47:04.192Z",
                "-292275055-05-16T16:47:04.191Z",
                "+292278994-08-17T07:12:55.807Z",
                "+292278994-08-17T07:12:55.808Z",
            ),
            (
                1_000_000,
                "-290308-12-21T19:59:05.224192Z",
                "-290308-12-21T19:59:05.224191Z",
                "+294247-01-10T04:00:54.775807Z",
                "+294247-01-10T04:00:54.775808Z",
            ),
            (
                1_000_000_000,
                "1677-09-21T00:12:43.145224192Z",
                "1677-09-21T00:12:43.145224191Z",
                "2262-04-11T23:47:16.854775807Z",
                "2262-04-11T23:47:16.854775808Z",
            ),
        ] {
            let units = |text: &str| moment(text).expect(text).in_units(per_second);
            assert_eq!(units(first), Some(i64::MIN), "{first}");
            assert_eq!(units(before), None, "{before}");
            assert_eq!(units(last), Some(i64::MAX), "{last}");
            assert_eq!(units(after), None, "{after}");
        }
    }
}
