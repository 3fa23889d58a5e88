//! Base64 as the reference's JSON reader takes it: standard alphabet, padding required, white space before a group of four.

/// Not base64.
#[derive(Debug, PartialEq, Eq)]
pub struct NotBase64;

/// The six bits of each letter; `OUTSIDE` for every other byte.
static BITS: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = [OUTSIDE; 256];
    let mut place = 0;
    while place < 64 {
        bits[alphabet[place as usize] as usize] = place;
        place += 1;
    }
    bits
};

const OUTSIDE: u8 = 0xFF;

/// Leaves the decoded bytes in `bytes`.
pub fn decode(text: &str, bytes: &mut Vec<u8>) -> Result<(), NotBase64> {
    bytes.clear();
    bytes.reserve(text.len() / 4 * 3);
    let mut rest = text.as_bytes();
    loop {
        while let [b'\0'..=b' ', more @ ..] = rest {
            rest = more;
        }
        let [one, two, three, four, more @ ..] = rest else {
            return if rest.is_empty() {
                Ok(())
            } else {
                Err(NotBase64)
            };
        };
        rest = more;
        let high = u32::from(bits(*one)?) << 18 | u32::from(bits(*two)?) << 12;
        // Text may go on after a padded group, and its spare bits may be set: so the reference has it.
        match (*three, *four) {
            (b'=', b'=') => bytes.push(byte(high >> 16)),
            (three, b'=') => {
                let group = high | u32::from(bits(three)?) << 6;
                bytes.extend([byte(group >> 16), byte(group >> 8)]);
            }
            (three, four) => {
                let group = high | u32::from(bits(three)?) << 6 | u32::from(bits(four)?);
                bytes.extend([byte(group >> 16), byte(group >> 8), byte(group)]);
            }
        }
    }
}

fn bits(letter: u8) -> Result<u8, NotBase64> {
    match BITS[usize::from(letter)] {
        OUTSIDE => Err(NotBase64),
        bits => Ok(bits),
    }
}

/// The lowest eight bits.
fn byte(group: u32) -> u8 {
    group.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<Vec<u8>, NotBase64> {
        let mut bytes = vec![7];
        decode(text, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn padding_is_required_and_white_space_stands_only_before_a_group() {
        for (text, expected) in [
            ("", vec![]),
            (" \t\r\n", vec![]),
            ("AP8Qfw==", vec![0, 0xFF, 0x10, 0x7F]),
            ("AP8Q fw==\r\n", vec![0, 0xFF, 0x10, 0x7F]),
            ("AP8Qfz==", vec![0, 0xFF, 0x10, 0x7F]),
            ("Wg==WQ==", vec![0x5A, 0x59]),
            ("SEVMUA==", b"HELP".to_vec()),
            ("SEU=", b"HE".to_vec()),
        ] {
            assert_eq!(decoded(text), Ok(expected), "{text:?}");
        }
        for text in [
            "AP8Qfw",
            "-_8=",
            "A P8",
            "AP8Q f w==",
            "=",
            "====",
            "A===",
            "AB=C",
            "!!",
            "é===",
            "AP8Qf",
            "AP8Qfw=",
            "AP8Qfw= =",
        ] {
            assert_eq!(decoded(text), Err(NotBase64), "{text:?}");
        }
    }
}
