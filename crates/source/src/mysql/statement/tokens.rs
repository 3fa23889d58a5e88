//! A statement cut into names and marks; literals and comments are passed over.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A word, a number, or what stands in backticks or double quotes (which quote names in ANSI mode).
    Name(Cow<'a, [u8]>),
    Literal,
    Mark(u8),
}

impl Token<'_> {
    pub(super) fn name(&self) -> Option<&[u8]> {
        match self {
            Token::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// One by one: a statement may be as long as the largest packet.
pub(super) struct Tokens<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = self.0;
            let byte = *rest.first()?;
            if let Some(behind) = behind_comment(rest) {
                self.0 = behind;
            } else if byte.is_ascii_whitespace() || rest.starts_with(b"*/") {
                // The end of a comment whose text counts.
                let length = if byte == b'*' { 2 } else { 1 };
                self.0 = rest.get(length..).unwrap_or_default();
            } else {
                return Some(self.token(byte));
            }
        }
    }
}

impl<'a> Tokens<'a> {
    fn token(&mut self, byte: u8) -> Token<'a> {
        let rest = self.0;
        if matches!(byte, b'\'' | b'"' | b'`') {
            if byte == b'\'' {
                self.0 = quoted(rest, byte, |_| {});
                return Token::Literal;
            }
            let mut inside = Vec::new();
            self.0 = quoted(rest, byte, |byte| inside.push(byte));
            return Token::Name(inside.into());
        }
        let length = rest.iter().take_while(|byte| is_name(**byte)).count();
        let (word, behind) = rest.split_at_checked(length.max(1)).unwrap_or_default();
        self.0 = behind;
        if length == 0 {
            Token::Mark(byte)
        } else {
            Token::Name(word.into())
        }
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// What follows a comment (or the beginning of one whose text counts), if one begins here.
fn behind_comment(text: &[u8]) -> Option<&[u8]> {
    let after = |end: &[u8]| {
        let found = text.windows(end.len()).position(|window| window == end);
        let end = found.map_or(text.len(), |found| found.saturating_add(end.len()));
        text.get(end..).unwrap_or_default()
    };
    let counts = text.strip_prefix(b"/*!").or(text.strip_prefix(b"/*M!"));
    if let Some(inside) = counts {
        let version = inside.iter().take_while(|b| b.is_ascii_digit()).count();
        return inside.get(version..);
    }
    if text.starts_with(b"/*") {
        // Not its own beginning: `/*/` is no comment.
        let inside = text.get(2..).unwrap_or_default();
        let found = inside.windows(2).position(|window| window == b"*/");
        return found.map_or(Some(&[]), |found| inside.get(found.saturating_add(2)..));
    }
    let dashes = text.strip_prefix(b"--").is_some_and(|behind| {
        behind
            .first()
            .is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
    });
    (dashes || text.starts_with(b"#")).then(|| after(b"\n"))
}

/// Tells what stands in quotes; returns what follows. Two quotes are one; a backslash (but not in backticks) escapes.
fn quoted(text: &[u8], quote: u8, mut tell: impl FnMut(u8)) -> &[u8] {
    let mut rest = text.get(1..).unwrap_or_default();
    loop {
        let inside;
        (inside, rest) = match rest {
            [] => return rest,
            [b'\\', escaped, behind @ ..] if quote != b'`' => (*escaped, behind),
            [first, second, behind @ ..] if *first == quote && *second == quote => (quote, behind),
            [first, behind @ ..] if *first == quote => return behind,
            [first, behind @ ..] => (*first, behind),
        };
        tell(inside);
    }
}
