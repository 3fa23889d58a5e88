//! Strict JSON (RFC 8259) to an index of its values. What follows the first value is looked at only where that is asked for.

use std::fmt;

use super::text::Text;
use super::{Kind, Node};

/// What a payload may not exceed, so that a hostile one ends in a clear failure.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub number_characters: usize,
    pub depth: usize,
    pub name_characters: usize,
    pub text_characters: usize,
}

impl Limits {
    /// Those of the reference's JSON reader (Jackson 2.20).
    pub const REFERENCE: Limits = Limits {
        number_characters: 1000,
        depth: 1000,
        name_characters: 50_000,
        text_characters: 20_000_000,
    };

    /// Of a message that holds a payload within the limits of the reference, as JSON or as text.
    pub const EMBEDDED: Limits = Limits {
        depth: Limits::REFERENCE.depth + 1,
        text_characters: usize::MAX,
        ..Limits::REFERENCE
    };
}

/// The text is not JSON, or exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The byte at which it was noticed.
    pub at: usize,
    pub what: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed JSON at byte {}: {}", self.at, self.what)
    }
}

/// Where the value ends.
pub(super) fn read(
    text: &str,
    limits: &Limits,
    nodes: &mut Vec<Node>,
    open: &mut Vec<u32>,
) -> Result<usize, Malformed> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
        limits,
        nodes,
        open,
    };
    if u32::try_from(text.len()).is_err() {
        return reader.fail("it is longer than 4 GiB");
    }
    reader.space();
    if reader.at < reader.bytes.len() {
        while let Next::Value = reader.value()? {}
    }
    Ok(reader.at)
}

/// Only blanks may stand from there on.
pub(super) fn check_end(text: &str, end: usize) -> Result<(), Malformed> {
    let rest = text[end..].trim_start_matches([' ', '\n', '\r', '\t']);
    if rest.is_empty() {
        return Ok(());
    }
    Err(Malformed {
        at: text.len() - rest.len(),
        what: "the end of the text is wanted, and more follows".to_owned(),
    })
}

/// What comes next in the text.
enum Next {
    Value,
    Nothing,
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    limits: &'t Limits,
    nodes: &'t mut Vec<Node>,
    /// The arrays and objects that have not ended yet.
    open: &'t mut Vec<u32>,
}

/// How many bytes of plain text come first: up to a quote, a backslash or a control character. Eight are looked at at once:
/// subtracting sets the highest bit of a byte that was smaller, and wrongly only of bytes after such a one.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*eight);
        let quotes = is_zero(word ^ (ONES * u64::from(b'"')));
        let backslashes = is_zero(word ^ (ONES * u64::from(b'\\')));
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let stops = (quotes | backslashes | controls) & (ONES * 0x80);
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_stop = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    let rest = bytes[at..].iter().position(is_stop);
    rest.map_or(bytes.len(), |plain| at + plain)
}

impl Reader<'_> {
    fn fail<T>(&self, what: impl Into<String>) -> Result<T, Malformed> {
        Err(Malformed {
            at: self.at,
            what: what.into(),
        })
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, Malformed> {
        match self.text[self.at..].chars().next() {
            Some(found) => self.fail(format!("{wanted} is wanted, and {found:?} is there")),
            None => self.fail(format!("{wanted} is wanted, and the text ends")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// One value, or the opening of an array or object; then everything up to the next value.
    fn value(&mut self) -> Result<Next, Malformed> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => {
                let size = self.string(self.limits.text_characters, "text")?;
                self.push(Kind::Text, start, size);
            }
            Some(b'{') => return self.opened(Kind::Object, b'}'),
            Some(b'[') => return self.opened(Kind::Array, b']'),
            Some(b'-' | b'0'..=b'9') => {
                let kind = self.number()?;
                self.push(kind, start, 0);
            }
            Some(b't') => self.literal("true", Kind::True)?,
            Some(b'f') => self.literal("false", Kind::False)?,
            Some(b'n') => self.literal("null", Kind::Null)?,
            _ => return self.unexpected("a value"),
        }
        self.after_value()
    }

    fn push(&mut self, kind: Kind, start: usize, size: usize) {
        let next = small(self.nodes.len() + 1);
        self.nodes.push(Node {
            kind,
            start: small(start),
            end: small(self.at),
            next,
            size: small(size),
        });
    }

    fn literal(&mut self, word: &str, kind: Kind) -> Result<(), Malformed> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return self.unexpected("a value");
        }
        let start = self.at;
        self.at += word.len();
        self.push(kind, start, 0);
        Ok(())
    }

    fn opened(&mut self, kind: Kind, close: u8) -> Result<Next, Malformed> {
        if self.open.len() == self.limits.depth {
            let depth = self.limits.depth;
            return self.fail(format!("it is nested deeper than {depth} levels"));
        }
        self.open.push(small(self.nodes.len()));
        let start = self.at;
        self.at += 1;
        self.push(kind, start, 0);
        self.space();
        if self.peek() == Some(close) {
            self.close();
            return self.after_value();
        }
        self.next_child(kind)
    }

    /// Stands before a value; in an object, before its name.
    fn next_child(&mut self, of: Kind) -> Result<Next, Malformed> {
        if let Some(parent) = self.open.last() {
            self.nodes[*parent as usize].size += 1;
        }
        if of == Kind::Object {
            if self.peek() != Some(b'"') {
                return self.unexpected("a member's name");
            }
            let start = self.at;
            let size = self.string(self.limits.name_characters, "a member's name")?;
            self.push(Kind::Text, start, size);
            self.space();
            if self.peek() != Some(b':') {
                return self.unexpected("':'");
            }
            self.at += 1;
            self.space();
        }
        Ok(Next::Value)
    }

    fn after_value(&mut self) -> Result<Next, Malformed> {
        while let Some(parent) = self.open.last() {
            let kind = self.nodes[*parent as usize].kind;
            self.space();
            match (self.peek(), kind) {
                (Some(b','), _) => {
                    self.at += 1;
                    self.space();
                    return self.next_child(kind);
                }
                (Some(b']'), Kind::Array) | (Some(b'}'), Kind::Object) => self.close(),
                (_, Kind::Array) => return self.unexpected("',' or ']'"),
                _ => return self.unexpected("',' or '}'"),
            }
        }
        Ok(Next::Nothing)
    }

    fn close(&mut self) {
        self.at += 1;
        let (end, next) = (small(self.at), small(self.nodes.len()));
        if let Some(closed) = self.open.pop() {
            let node = &mut self.nodes[closed as usize];
            (node.end, node.next) = (end, next);
        }
    }

    /// A string from its first quote to behind its last; how many bytes it has without its escapes.
    fn string(&mut self, limit: usize, what: &str) -> Result<usize, Malformed> {
        let start = self.at + 1;
        self.at = start;
        let mut saved = 0;
        loop {
            self.at += plain_length(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => saved += self.escape()?,
                Some(_) => {
                    return self.fail("a control character stands in a string without an escape");
                }
                None => return self.unexpected("the end of a string"),
            }
        }
        let text = Text::new(&self.text[start..self.at], self.at - start - saved);
        self.at += 1;
        // Bytes are never fewer than characters: only what might be too long is counted.
        if text.len() > limit && utf16_length(text) > limit {
            return self.fail(format!("{what} has more than {limit} characters"));
        }
        Ok(text.len())
    }

    /// Passes over an escape; by how many bytes it is longer than what it stands for.
    fn escape(&mut self) -> Result<usize, Malformed> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(1)
            }
            Some(b'u') => {
                let unit = self.code_unit()?;
                let is_pair = (0xD800..0xDC00).contains(&unit)
                    && self.bytes[self.at..].starts_with(b"\\u")
                    && self.is_low_surrogate();
                if is_pair {
                    self.at += 6;
                    return Ok(12 - 4);
                }
                Ok(match unit {
                    0..0x80 => 5,
                    0x80..0x800 => 4,
                    _ => 3,
                })
            }
            _ => {
                self.at += 1;
                self.unexpected("an escape (one of \" \\ / b f n r t u)")
            }
        }
    }

    /// The four digits of a `\u` escape, which is passed over.
    fn code_unit(&mut self) -> Result<u32, Malformed> {
        match self.digits_at(self.at + 2) {
            Some(unit) => {
                self.at += 6;
                Ok(unit)
            }
            None => self.fail("four hexadecimal digits are wanted after \\u"),
        }
    }

    fn is_low_surrogate(&self) -> bool {
        let unit = self.digits_at(self.at + 2);
        unit.is_some_and(|unit| (0xDC00..0xE000).contains(&unit))
    }

    fn digits_at(&self, start: usize) -> Option<u32> {
        let digits = self.bytes.get(start..start + 4)?;
        digits.iter().try_fold(0, |unit, digit| {
            Some(unit * 16 + char::from(*digit).to_digit(16)?)
        })
    }

    fn number(&mut self) -> Result<Kind, Malformed> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let start = self.at;
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut kind = Kind::Integer;
        if self.peek() == Some(b'.') {
            self.at += 1;
            kind = Kind::Decimal;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            kind = Kind::Decimal;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        if self.at - start > self.limits.number_characters {
            let limit = self.limits.number_characters;
            return self.fail(format!("a number has more than {limit} characters"));
        }
        self.ends_here().map(|()| kind)
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let rest = &self.bytes[self.at..];
        match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            0 => self.unexpected("a digit"),
            digits => {
                self.at += digits;
                Ok(())
            }
        }
    }

    /// `01` and `1x` are no numbers.
    fn ends_here(&self) -> Result<(), Malformed> {
        match self.peek() {
            None | Some(b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t') => Ok(()),
            _ => self.unexpected("the end of a number"),
        }
    }
}

/// Places fit: the text is not longer than 4 GiB, and no value is shorter than a byte.
pub(super) fn small(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Characters as Java counts them.
fn utf16_length(text: Text<'_>) -> usize {
    text.characters()
        .map(|character| character.map_or(1, char::len_utf16))
        .sum()
}
