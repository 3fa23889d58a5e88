//! Text that is almost JSON, as JSON: what the reference's reader (Gson, lenient) takes beyond the standard.
//!
//! Rule: rows hardly ever need it, so it comes second, and it need not be fast; it never recurses.

use std::fmt::Write;

/// The same value in strict JSON, appended to `out`. None if the reference would not read it either.
pub fn rewrite(text: &str, out: &mut String) -> Option<()> {
    let mut rewriting = Rewriting {
        text: text.strip_prefix('\u{FEFF}').unwrap_or(text),
        at: 0,
        out,
        open: Vec::new(),
    };
    rewriting.space()?;
    // Put before JSON by programs that fear it might be run as a script.
    if rewriting.rest().starts_with(")]}'\n") {
        rewriting.at += 5;
        rewriting.space()?;
    }
    rewriting.value()?;
    while let Some(scope) = rewriting.open.pop() {
        rewriting.next(scope)?;
    }
    Some(())
}

/// An array or object that has not ended.
#[derive(Clone, Copy)]
struct Scope {
    is_object: bool,
    is_empty: bool,
}

/// The longest number that is read as one; a longer one is text.
const NUMBER_CHARACTERS: usize = 1023;

struct Rewriting<'t, 'o> {
    text: &'t str,
    at: usize,
    out: &'o mut String,
    open: Vec<Scope>,
}

impl<'t> Rewriting<'t, '_> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes over blanks and comments.
    fn space(&mut self) -> Option<()> {
        loop {
            let rest = self.rest();
            if rest.starts_with([' ', '\n', '\r', '\t']) {
                self.at += 1;
            } else if let Some(comment) = rest.strip_prefix("/*") {
                self.at += 2 + comment.find("*/")? + 2;
            } else if rest.starts_with("//") || rest.starts_with('#') {
                self.at += rest.find(['\n', '\r']).map_or(rest.len(), |end| end + 1);
            } else {
                return Some(());
            }
        }
    }

    /// Stands behind a bracket or a value: a separator and the next value, or the end.
    fn next(&mut self, mut scope: Scope) -> Option<()> {
        self.space()?;
        let end = if scope.is_object { b'}' } else { b']' };
        if self.peek()? == end {
            self.at += 1;
            self.out.push(char::from(end));
            return Some(());
        }
        if !scope.is_empty {
            if !matches!(self.peek()?, b',' | b';') {
                return None;
            }
            self.at += 1;
            self.out.push(',');
            self.space()?;
        }
        scope.is_empty = false;
        self.open.push(scope);
        if scope.is_object {
            return self.member();
        }
        // What is missing between separators is null.
        if matches!(self.peek()?, b',' | b';' | b']') {
            self.out.push_str("null");
            return Some(());
        }
        self.value()
    }

    fn member(&mut self) -> Option<()> {
        if let quote @ (b'"' | b'\'') = self.peek()? {
            self.string(quote)?;
        } else {
            let name = self.unquoted()?;
            self.quoted(name);
        }
        self.space()?;
        match self.peek()? {
            b':' => self.at += 1,
            b'=' => self.at += if self.rest().starts_with("=>") { 2 } else { 1 },
            _ => return None,
        }
        self.out.push(':');
        self.space()?;
        self.value()
    }

    fn value(&mut self) -> Option<()> {
        let bracket = self.peek()?;
        if let b'{' | b'[' = bracket {
            self.at += 1;
            self.out.push(char::from(bracket));
            self.open.push(Scope {
                is_object: bracket == b'{',
                is_empty: true,
            });
            return Some(());
        }
        if let b'"' | b'\'' = bracket {
            return self.string(bracket);
        }
        let literal = self.unquoted()?;
        let keyword = ["true", "false", "null"]
            .into_iter()
            .find(|word| literal.eq_ignore_ascii_case(word));
        match keyword {
            Some(word) => self.out.push_str(word),
            None if is_number(literal) => self.out.push_str(literal),
            None => self.quoted(literal),
        }
        Some(())
    }

    /// At least one character that means nothing else.
    fn unquoted(&mut self) -> Option<&'t str> {
        const ENDS: [char; 16] = [
            '/', '\\', ';', '#', '=', '{', '}', '[', ']', ':', ',', ' ', '\t', '\u{c}', '\r', '\n',
        ];
        let rest = self.rest();
        let literal = &rest[..rest.find(ENDS).unwrap_or(rest.len())];
        self.at += literal.len();
        (!literal.is_empty()).then_some(literal)
    }

    fn quoted(&mut self, text: &str) {
        self.out.push('"');
        text.chars().for_each(|character| self.character(character));
        self.out.push('"');
    }

    fn character(&mut self, character: char) {
        match character {
            '"' | '\\' => self.out.extend(['\\', character]),
            '\0'..' ' => {
                // Writing to a `String` cannot fail.
                let _ = write!(self.out, "\\u{:04x}", u32::from(character));
            }
            _ => self.out.push(character),
        }
    }

    fn string(&mut self, quote: u8) -> Option<()> {
        self.at += 1;
        self.out.push('"');
        loop {
            let character = self.rest().chars().next()?;
            self.at += character.len_utf8();
            match character {
                '\\' => self.escape()?,
                end if end == char::from(quote) => break,
                _ => self.character(character),
            }
        }
        self.out.push('"');
        Some(())
    }

    /// What follows a backslash. A line's end and an apostrophe stand for themselves.
    fn escape(&mut self) -> Option<()> {
        let escaped = self.rest().chars().next()?;
        self.at += escaped.len_utf8();
        match escaped {
            '\n' | '\'' => self.character(escaped),
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => self.out.extend(['\\', escaped]),
            'u' => {
                let digits = self.rest().get(..4)?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                self.at += 4;
                self.out.extend(["\\u", digits]);
            }
            _ => return None,
        }
        Some(())
    }
}

/// A number as the standard has it: `-`, digits without a leading zero, a fraction, an exponent.
fn is_number(literal: &str) -> bool {
    fn digits(text: &str) -> &str {
        text.trim_start_matches(|c: char| c.is_ascii_digit())
    }
    let unsigned = literal.strip_prefix('-').unwrap_or(literal);
    let mut rest = digits(unsigned);
    let whole = &unsigned[..unsigned.len() - rest.len()];
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = digits(fraction);
        if rest.len() == fraction.len() {
            return false;
        }
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        rest = digits(unsigned);
        if rest.len() == unsigned.len() {
            return false;
        }
    }
    rest.is_empty() && literal.len() <= NUMBER_CHARACTERS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Option<String> {
        let mut out = String::new();
        rewrite(text, &mut out).map(|()| out)
    }

    #[test]
    fn what_gson_takes_becomes_json() {
        for (text, json) in [
            ("{}", "{}"),
            ("{'a':'it''s'}", ""),
            (r#"{'a':'say "x"\'s'}"#, r#"{"a":"say \"x\"'s"}"#),
            ("{a:b c:d}", ""),
            ("{a:b,c=>1;d='e'}", r#"{"a":"b","c":1,"d":"e"}"#),
            ("{a:[,1,;]}", r#"{"a":[null,1,null,null]}"#),
            ("[]", "[]"),
            (
                "{a:NaN,b:-Infinity,c:NULL,d:True,e:fAlSe,f:nullsoft}",
                r#"{"a":"NaN","b":"-Infinity","c":null,"d":true,"e":false,"f":"nullsoft"}"#,
            ),
            (
                "{a:01,b:+5,c:1.,d:.5,e:-0,f:1e5,g:-,h:1e}",
                r#"{"a":"01","b":"+5","c":"1.","d":".5","e":-0,"f":1e5,"g":"-","h":"1e"}"#,
            ),
            ("// x\n{ /* y */ \"a\" # z\r: 1 }", r#"{"a":1}"#),
            ("\u{FEFF})]}'\n{\"a\":1} rest {", r#"{"a":1}"#),
            ("{\"a\":\"x\ty\\\nz\"}", "{\"a\":\"x\\u0009y\\u000az\"}"),
            (r#"{"a":"\u00e4\ud83d"}"#, r#"{"a":"\u00e4\ud83d"}"#),
            ("{\"a\":é}", "{\"a\":\"é\"}"),
        ] {
            assert_eq!(rewritten(text).unwrap_or_default(), json, "{text}");
        }
    }

    #[test]
    fn what_gson_refuses_stays_refused() {
        for text in [
            "",
            "{",
            "{a",
            "{a:",
            "{a:1",
            "{a:1,}",
            "{,}",
            "{a 1}",
            "[1 2]",
            "{a:/}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u12g4\"}",
            "{\"a\":\"",
            "/* x",
            "{a:}",
            "}",
            "{a:1]",
            "{\"a\":\"\\u12é\"}",
        ] {
            assert_eq!(rewritten(text), None, "{text}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(rewritten(&deep).as_deref(), Some(&*deep));
    }
}
