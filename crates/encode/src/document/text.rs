//! Text in a document: as it was written between its quotes, and what its escapes stand for.

use std::borrow::Cow;

/// Half of a surrogate pair: no text that could be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoneSurrogate;

/// A JSON string or the name of a member.
#[derive(Debug, Clone, Copy)]
pub struct Text<'d> {
    raw: &'d str,
    size: usize,
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Text<'_>) -> bool {
        self.size == other.size && self.bytes() == other.bytes()
    }
}

impl<'d> Text<'d> {
    /// `size`: how many bytes it has without its escapes.
    pub(super) fn new(raw: &'d str, size: usize) -> Text<'d> {
        Text { raw, size }
    }

    /// How many bytes it has in UTF-8.
    pub fn len(self) -> usize {
        self.size
    }

    /// The text itself, where it has no escapes.
    pub fn plain(self) -> Option<&'d str> {
        // Every escape is longer than what it stands for.
        (self.raw.len() == self.size).then_some(self.raw)
    }

    pub fn to_str(self) -> Result<Cow<'d, str>, LoneSurrogate> {
        match self.plain() {
            Some(plain) => Ok(Cow::Borrowed(plain)),
            None => Ok(Cow::Owned(self.characters().collect::<Result<_, _>>()?)),
        }
    }

    /// For names in messages and comparisons: a lone surrogate stands as the character for "unknown".
    pub fn lossy(self) -> Cow<'d, str> {
        let or_unknown = |c: Result<char, LoneSurrogate>| c.unwrap_or(char::REPLACEMENT_CHARACTER);
        match self.plain() {
            Some(plain) => Cow::Borrowed(plain),
            None => Cow::Owned(self.characters().map(or_unknown).collect()),
        }
    }

    /// Appends its UTF-8 bytes.
    pub fn append_to(self, buffer: &mut Vec<u8>) -> Result<(), LoneSurrogate> {
        if let Some(plain) = self.plain() {
            buffer.extend_from_slice(plain.as_bytes());
            return Ok(());
        }
        for character in self.characters() {
            buffer.extend_from_slice(character?.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Ok(())
    }

    /// What two equal texts share, lone surrogates included.
    pub(super) fn bytes(self) -> Cow<'d, [u8]> {
        match self.plain() {
            Some(plain) => Cow::Borrowed(plain.as_bytes()),
            None => match self.to_str() {
                Ok(text) => Cow::Owned(text.into_owned().into_bytes()),
                // A byte that UTF-8 never has keeps it apart from every text.
                Err(LoneSurrogate) => Cow::Owned([&[0xFF], self.raw.as_bytes()].concat()),
            },
        }
    }

    /// What its escapes stand for. The reader has made sure that they are well formed.
    pub(super) fn characters(self) -> impl Iterator<Item = Result<char, LoneSurrogate>> + 'd {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            let mut chars = rest.chars();
            let (character, left) = match chars.next()? {
                '\\' => escape(chars.as_str()),
                plain => (Ok(plain), chars.as_str()),
            };
            rest = left;
            Some(character)
        })
    }
}

/// What the escape stands for whose backslash was taken, and what follows it.
fn escape(rest: &str) -> (Result<char, LoneSurrogate>, &str) {
    let (letter, left) = rest.split_at(1);
    let character = match letter {
        "b" => '\u{8}',
        "f" => '\u{c}',
        "n" => '\n',
        "r" => '\r',
        "t" => '\t',
        "u" => return unicode(left),
        itself => itself.chars().next().unwrap_or_default(),
    };
    (Ok(character), left)
}

fn unicode(rest: &str) -> (Result<char, LoneSurrogate>, &str) {
    let (unit, left) = code_unit(rest);
    if let Some(character) = char::from_u32(unit) {
        return (Ok(character), left);
    }
    if let (0xD800..0xDC00, Some(second)) = (unit, left.strip_prefix("\\u")) {
        let (low, left) = code_unit(second);
        if (0xDC00..0xE000).contains(&low) {
            let pair = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            return (char::from_u32(pair).ok_or(LoneSurrogate), left);
        }
    }
    (Err(LoneSurrogate), left)
}

fn code_unit(rest: &str) -> (u32, &str) {
    let (digits, left) = rest.split_at(4);
    (u32::from_str_radix(digits, 16).unwrap_or_default(), left)
}
