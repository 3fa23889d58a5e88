//! MySQL's compressed transactions: all events of one, packed by zstd into a single event.
//!
//! They are unpacked one by one: how large a transaction is must not be felt.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::io::{BufReader, Cursor, Read};

use bytes::Bytes;
use zstd::stream::read::Decoder;

use super::decode::HEADER;
use super::reader::{Malformed, Reader};

/// zstd's own limit for what a stream may ask to be kept (128 MiB); the server's streams ask for a few.
const WINDOW: u32 = 27;

/// The events of one transaction that are still to come.
pub(super) struct Payload {
    unpacked: Box<dyn Read + Send>,
    /// How much is to come, as the event says.
    left: u64,
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payload")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

const UNPACK: Malformed = Malformed("a compressed transaction that cannot be unpacked");

impl Payload {
    pub(super) fn new(body: &Bytes) -> Result<Payload, Malformed> {
        let head = head(body)?;
        let start = body.len().saturating_sub(head.length);
        let packed = Cursor::new(body.slice(start..));
        let unpacked: Box<dyn Read + Send> = if head.is_packed {
            let mut decoder = Decoder::with_buffer(BufReader::new(packed)).map_err(|_| UNPACK)?;
            decoder.window_log_max(WINDOW).map_err(|_| UNPACK)?;
            Box::new(decoder)
        } else {
            Box::new(packed)
        };
        Ok(Payload {
            unpacked,
            left: head.unpacked,
        })
    }

    /// The next event, header included, or that there must be none.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Malformed> {
        if self.left == 0 {
            let mut more = [0];
            return match self.unpacked.read(&mut more) {
                Ok(0) => Ok(None),
                _ => Err(UNPACK),
            };
        }
        let mut header = [0; HEADER];
        self.unpacked.read_exact(&mut header).map_err(|_| UNPACK)?;
        let mut size = Reader(&header);
        size.skip(9)?;
        let size = u64::from(size.u32()?);
        let body = size
            .checked_sub(HEADER as u64)
            .ok_or(Malformed("an event that is shorter than its header"))?;
        self.left = self.left.checked_sub(size).ok_or(UNPACK)?;
        let mut event = Vec::from(header);
        // What is there grows the memory, not what is claimed.
        let read = (&mut self.unpacked).take(body).read_to_end(&mut event);
        match read {
            Ok(read) if u64::try_from(read) == Ok(body) => Ok(Some(event.into())),
            _ => Err(UNPACK),
        }
    }
}

struct Head {
    /// Of what is packed, which ends the event.
    length: usize,
    unpacked: u64,
    is_packed: bool,
}

/// Fields with numbers and lengths, up to number 0.
fn head(body: &[u8]) -> Result<Head, Malformed> {
    let mut reader = Reader(body);
    let (mut length, mut unpacked, mut is_packed) = (None, None, true);
    loop {
        let field = reader.packed()?;
        if field == 0 {
            break;
        }
        let mut value = Reader(reader.counted()?);
        match field {
            1 => length = Some(value.packed()?),
            2 => {
                is_packed = match value.packed()? {
                    0 => true,
                    255 => false,
                    _ => {
                        return Err(Malformed(
                            "a transaction compressed by an unknown algorithm",
                        ));
                    }
                }
            }
            3 => unpacked = Some(value.packed()?),
            _ => {}
        }
    }
    let length = length.unwrap_or(u64::try_from(reader.0.len()).unwrap_or(u64::MAX));
    if u64::try_from(reader.0.len()) != Ok(length) {
        return Err(Malformed(
            "a compressed transaction of another length than it says",
        ));
    }
    let unpacked = unpacked.or((!is_packed).then_some(length));
    // An empty one would be a transaction that was passed over.
    match unpacked {
        Some(unpacked) if unpacked > 0 => Ok(Head {
            length: reader.0.len(),
            unpacked,
            is_packed,
        }),
        _ => Err(Malformed("a compressed transaction without its length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(HEADER + body.len()).expect("short");
        let mut event = vec![0; 9];
        event.extend(size.to_le_bytes());
        event.extend([0; 6]);
        event.extend(body);
        event
    }

    fn payload(plain: &[u8], packed: &[u8], algorithm: u8) -> Bytes {
        let size = |length: usize| {
            let length = u16::try_from(length).expect("short").to_le_bytes();
            [252, length[0], length[1]]
        };
        let algorithm: &[u8] = if algorithm == 255 {
            &[252, 255, 0]
        } else {
            &[0]
        };
        let mut body = vec![2, u8::try_from(algorithm.len()).expect("short")];
        body.extend(algorithm);
        body.extend([3, 3]);
        body.extend(size(plain.len()));
        body.extend([1, 3]);
        body.extend(size(packed.len()));
        body.push(0);
        body.extend(packed);
        body.into()
    }

    fn all(body: &Bytes) -> Result<Vec<Bytes>, Malformed> {
        let mut payload = Payload::new(body)?;
        let mut events = Vec::new();
        while let Some(event) = payload.next()? {
            events.push(event);
        }
        Ok(events)
    }

    #[test]
    fn events_come_out_one_by_one_packed_or_not() {
        let events = [event(b"one"), event(&[7; 9000]), event(b"")];
        let plain = events.concat();
        let packed = zstd::encode_all(&plain[..], 3).expect("memory");
        for body in [payload(&plain, &packed, 0), payload(&plain, &plain, 255)] {
            assert_eq!(all(&body).expect("well-formed"), events);
        }
    }

    #[test]
    fn one_that_is_cut_empty_or_wrong_is_never_silently_short() {
        let plain = [event(b"one"), event(&[7; 900])].concat();
        let packed = zstd::encode_all(&plain[..], 3).expect("memory");
        let whole = payload(&plain, &packed, 0);
        for length in 0..whole.len() {
            assert!(all(&whole.slice(..length)).is_err(), "{length}");
        }
        for place in 0..whole.len() {
            let mut wrong = whole.to_vec();
            wrong[place] ^= 0x55;
            if let Ok(events) = all(&wrong.into()) {
                assert!(!events.is_empty());
            }
        }
        assert!(all(&payload(&plain[1..], &packed, 0)).is_err());
        let nothing = zstd::encode_all(&b""[..], 3).expect("memory");
        assert!(all(&payload(b"", &nothing, 0)).is_err());
        assert!(all(&payload(&plain, &nothing, 0)).is_err());
    }
}
