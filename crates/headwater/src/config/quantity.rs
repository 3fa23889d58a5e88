//! Durations and sizes as people write them.

use std::time::Duration;

/// `200ms`, `30s`, `5m`, `1h`, or `0`. Other numbers need their unit: seconds or milliseconds cannot be guessed.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (number, unit) = split(text)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

/// `16MiB`, `1MB`, or plain bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(bytes)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_known_unit() {
        for (text, wanted) in [
            ("200ms", Some(Duration::from_millis(200))),
            ("30s", Some(Duration::from_secs(30))),
            ("5m", Some(Duration::from_mins(5))),
            ("2h", Some(Duration::from_hours(2))),
            ("0", Some(Duration::ZERO)),
            ("0s", Some(Duration::ZERO)),
            ("30", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("30 s", None),
            ("30S", None),
            ("1d", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(duration(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn sizes_count_in_thousands_or_in_1024s() {
        for (text, wanted) in [
            ("16MiB", Some(16 * 1024 * 1024)),
            ("1MB", Some(1_000_000)),
            ("3kB", Some(3_000)),
            ("3KB", Some(3_000)),
            ("2KiB", Some(2048)),
            ("1GiB", Some(1 << 30)),
            ("1GB", Some(1_000_000_000)),
            ("17", Some(17)),
            ("17B", Some(17)),
            ("0", Some(0)),
            ("16mib", None),
            ("16M", None),
            ("MiB", None),
            ("-1", None),
            ("1.5MiB", None),
            ("18446744073709551615GiB", None),
        ] {
            assert_eq!(size(text), wanted, "{text:?}");
        }
    }
}
