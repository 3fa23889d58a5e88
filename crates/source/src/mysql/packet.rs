//! MySQL's packets on a wire: a length, a number, and the bytes themselves; what is longer than 16 MiB comes in pieces.
//!
//! Rule: a packet's bytes are shared with the buffer that they were received in, and copied only if they came in pieces.

#![deny(clippy::indexing_slicing)]

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::wire::Wire;

const HEADER: usize = 4;

/// A piece of this length has another one behind it.
const PIECE: usize = 0xFF_FFFF;

/// As much as the socket gives at once, several times.
const GULP: usize = 64 * 1024;

/// The largest `max_allowed_packet`: no server sends more at once, and a length that says so is no length.
const LARGEST: usize = 1 << 30;

/// A connection, as packets.
pub(super) struct Packets {
    wire: Wire,
    buffer: BytesMut,
    /// The pieces of a packet that is not whole yet.
    pieces: BytesMut,
    /// The number of the next packet, whoever sends it.
    number: u8,
}

impl Packets {
    pub(super) fn new(wire: Wire, number: u8) -> Packets {
        Packets {
            wire,
            buffer: BytesMut::new(),
            pieces: BytesMut::new(),
            number,
        }
    }

    /// Cancel-safe: what was received stays in the buffers.
    pub(super) async fn next(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(packet) = self.cut()? {
                return Ok(packet);
            }
            self.buffer.reserve(GULP);
            if self.wire.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// A packet that is whole already.
    fn cut(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(([a, b, c, number], rest)) = self.buffer.split_first_chunk::<HEADER>() {
            let length = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
            if rest.len() < length {
                let missing = length - rest.len();
                self.buffer.reserve(missing.max(GULP));
                return Ok(None);
            }
            if *number != self.number {
                return Err(io::Error::other("a packet is missing"));
            }
            self.number = self.number.wrapping_add(1);
            self.buffer.advance(HEADER);
            let piece = self.buffer.split_to(length);
            if length < PIECE && self.pieces.is_empty() {
                return Ok(Some(piece.freeze()));
            }
            if self.pieces.len() + length > LARGEST {
                return Err(io::Error::other("a packet is larger than 1 GiB"));
            }
            self.pieces.extend_from_slice(&piece);
            if length < PIECE {
                return Ok(Some(self.pieces.split().freeze()));
            }
        }
        Ok(None)
    }

    /// The answer to what was received last.
    pub(super) async fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + HEADER);
        let mut pieces = payload.chunks(PIECE);
        loop {
            let piece = pieces.next().unwrap_or_default();
            let length = u32::try_from(piece.len()).unwrap_or_default();
            let [a, b, c, _] = length.to_le_bytes();
            bytes.extend_from_slice(&[a, b, c, self.number]);
            bytes.extend_from_slice(piece);
            self.number = self.number.wrapping_add(1);
            if piece.len() < PIECE {
                break;
            }
        }
        self.wire.write_all(&bytes).await?;
        self.wire.flush().await
    }

    /// A new question; its answers are numbered after it.
    pub(super) async fn ask(&mut self, command: u8, rest: &[u8]) -> io::Result<()> {
        self.number = 0;
        let mut payload = Vec::with_capacity(1 + rest.len());
        payload.push(command);
        payload.extend_from_slice(rest);
        self.send(&payload).await
    }
}

/// Reads what is in a packet, and never past its end.
pub(super) struct Reader<'p>(pub &'p [u8]);

impl<'p> Reader<'p> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'p [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Little-endian, of up to eight bytes.
    pub(super) fn number(&mut self, length: usize) -> Option<u64> {
        let bytes = self.bytes(length)?;
        let number = bytes.iter().rev();
        Some(number.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Up to a zero byte, or to the end.
    pub(super) fn until_zero(&mut self) -> &'p [u8] {
        let zero = self.0.iter().position(|byte| *byte == 0);
        let bytes = self.0.get(..zero.unwrap_or(self.0.len()));
        let bytes = bytes.unwrap_or_default();
        self.0 = self.0.get(bytes.len() + 1..).unwrap_or_default();
        bytes
    }

    /// A number that says how long it is itself; `None` also for SQL's NULL.
    pub(super) fn counted(&mut self) -> Option<u64> {
        match self.number(1)? {
            few @ 0..=250 => Some(few),
            252 => self.number(2),
            253 => self.number(3),
            254 => self.number(8),
            _ => None,
        }
    }

    /// Bytes behind their length.
    pub(super) fn text(&mut self) -> Option<&'p [u8]> {
        let length = self.counted()?;
        self.bytes(usize::try_from(length).ok()?)
    }
}

/// Puts bytes behind their length.
pub(super) fn put_text(payload: &mut Vec<u8>, text: &[u8]) {
    let length = text.len() as u64;
    match length {
        0..=250 => payload.push(text.len().to_le_bytes()[0]),
        251..=0xFFFF => {
            payload.push(252);
            payload.extend_from_slice(length.to_le_bytes().get(..2).unwrap_or_default());
        }
        _ => {
            payload.push(254);
            payload.extend_from_slice(&length.to_le_bytes());
        }
    }
    payload.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn framed(number: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        let mut bytes = vec![length[0], length[1], length[2], number];
        bytes.extend_from_slice(payload);
        bytes
    }

    #[tokio::test]
    async fn packets_come_whole_however_they_are_cut() {
        let (ours, mut theirs) = duplex(7);
        let mut packets = Packets::new(Box::new(ours), 0);
        let mut sent = framed(0, b"one");
        sent.extend(framed(1, b""));
        sent.extend(framed(2, &[7; 100]));
        let writing = tokio::spawn(async move { theirs.write_all(&sent).await.map(|()| theirs) });
        assert_eq!(packets.next().await.unwrap(), "one");
        assert_eq!(packets.next().await.unwrap(), "");
        assert_eq!(packets.next().await.unwrap(), vec![7; 100]);
        drop(writing.await.unwrap().unwrap());
        let end = packets.next().await.unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_large_packet_is_put_together_and_taken_apart() {
        for length in [PIECE - 1, PIECE, PIECE + 1, 2 * PIECE] {
            let (ours, mut theirs) = duplex(1 << 20);
            let mut packets = Packets::new(Box::new(ours), 0);
            let payload: Vec<u8> = (0_u8..=250).cycle().take(length).collect();
            let wanted = payload.clone();
            let echo = tokio::spawn(async move {
                let mut all = Vec::new();
                let mut chunk = vec![0; 1 << 16];
                let whole = length + HEADER * (length / PIECE + 1);
                while all.len() < whole {
                    let read = theirs.read(&mut chunk).await.unwrap();
                    all.extend_from_slice(&chunk[..read]);
                }
                theirs.write_all(&all).await.unwrap();
                theirs
            });
            packets.send(&payload).await.unwrap();
            packets.number = 0;
            assert_eq!(packets.next().await.unwrap(), wanted, "{length}");
            drop(echo.await);
        }
    }

    #[tokio::test]
    async fn a_packet_out_of_turn_is_refused() {
        let (ours, mut theirs) = duplex(100);
        let mut packets = Packets::new(Box::new(ours), 0);
        theirs.write_all(&framed(1, b"late")).await.unwrap();
        assert!(packets.next().await.is_err());
    }

    #[test]
    fn what_is_read_never_lies_past_the_end() {
        let bytes = [0xFC, 3, 0, b'a', b'b', b'c', b'x', 0, 5];
        let mut reader = Reader(&bytes);
        assert_eq!(reader.text(), Some(&b"abc"[..]));
        assert_eq!(reader.until_zero(), b"x");
        assert_eq!(reader.text(), None);
        assert_eq!(reader.number(8), None);
        assert_eq!(reader.until_zero(), b"");
        for length in [0, 1, 250, 251, 65_535, 65_536] {
            let mut put = Vec::new();
            put_text(&mut put, &vec![1; length]);
            assert_eq!(Reader(&put).text().map(<[u8]>::len), Some(length));
        }
    }
}
