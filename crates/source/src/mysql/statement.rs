//! What a statement in the log is, as far as it matters: where transactions begin and end, and whether it touches the outbox.
//!
//! Rule: careful rather than clever. A statement that may change rows of the outbox counts as one that does.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod tokens;

use tokens::{Token, Tokens};

use super::decode::Query;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    /// A comment: MariaDB puts it where it must not send an event.
    Nothing,
    Begin,
    Commit,
    Rollback,
    Savepoint(Vec<u8>),
    RollbackTo(Vec<u8>),
    XaStart,
    /// With the transaction's name as the log writes it.
    XaCommit(String),
    XaRollback(String),
    /// It changes rows of the outbox, and does not tell which.
    Rows,
    /// It changes rows of something else (as it calls it), or calls what may. Whether a trigger, a view or a function leads
    /// from there to the outbox, its text does not tell.
    Elsewhere(String),
    Truncate,
    /// The outbox's definition may be another one after it.
    Redefine,
    /// A table is made out of rows that follow.
    CreateSelect,
    Other,
}

/// The outbox's name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outbox<'a> {
    pub schema: &'a str,
    pub table: &'a str,
}

impl Statement {
    pub(super) fn read(query: &Query<'_>, outbox: Outbox<'_>) -> Statement {
        // By far the most.
        if *query.text == *b"BEGIN" {
            return Statement::Begin;
        }
        let words = Words::read(query, outbox);
        let Some(first) = words.word(0) else {
            return Statement::Nothing;
        };
        match first.to_ascii_uppercase().as_slice() {
            b"BEGIN" => Statement::Begin,
            b"START" if words.is(1, "TRANSACTION") => Statement::Begin,
            b"COMMIT" => Statement::Commit,
            b"ROLLBACK" => words.rollback(),
            b"SAVEPOINT" => Statement::Savepoint(words.word(1).unwrap_or_default().to_vec()),
            b"XA" => words.xa(&query.text),
            b"TRUNCATE" if words.touches() => Statement::Truncate,
            b"INSERT" | b"REPLACE" => words.insert(),
            b"UPDATE" | b"DELETE" | b"LOAD" | b"WITH" | b"SELECT" | b"DO" | b"CALL" | b"SET"
            | b"IMPORT"
                if words.touches() =>
            {
                Statement::Rows
            }
            b"UPDATE" | b"DELETE" | b"LOAD" | b"WITH" | b"SELECT" | b"DO" | b"CALL" => {
                words.elsewhere()
            }
            b"CREATE" => words.create(),
            b"ALTER" | b"RENAME" | b"DROP" if words.redefines() => Statement::Redefine,
            _ => Statement::Other,
        }
    }
}

/// How many words at the beginning may tell what a statement is.
const HEAD: usize = 16;

struct Words<'a> {
    /// The first of them.
    tokens: Vec<Token<'a>>,
    /// The two at the end.
    last: [Option<Token<'a>>; 2],
    /// Of names without one.
    schema: &'a [u8],
    outbox: Outbox<'a>,
    mentions_schema: bool,
    mentions_table: bool,
}

impl<'a> Words<'a> {
    fn read(query: &'a Query<'_>, outbox: Outbox<'a>) -> Words<'a> {
        // A name that is not ASCII may be written in the session's character set.
        let mut words = Words {
            tokens: Vec::with_capacity(HEAD),
            last: [None, None],
            schema: query.schema,
            outbox,
            mentions_schema: !outbox.schema.is_ascii(),
            mentions_table: !outbox.table.is_ascii(),
        };
        for token in Tokens(&query.text) {
            if let Some(name) = token.name() {
                words.mentions_schema |= name.eq_ignore_ascii_case(outbox.schema.as_bytes());
                words.mentions_table |= name.eq_ignore_ascii_case(outbox.table.as_bytes());
            }
            words.last.swap(0, 1);
            if words.tokens.len() < HEAD {
                words.tokens.push(token.clone());
            } else if words.is(0, "INSERT") || words.is(0, "REPLACE") {
                break; // their beginning says all
            }
            words.last[1] = Some(token);
        }
        words
    }

    fn word(&self, place: usize) -> Option<&[u8]> {
        self.tokens.get(place).and_then(Token::name)
    }

    fn is(&self, place: usize, keyword: &str) -> bool {
        self.word(place)
            .is_some_and(|word| word.eq_ignore_ascii_case(keyword.as_bytes()))
    }

    /// The outbox occurs, under its whole name or where its database is the usual one.
    fn touches(&self) -> bool {
        let usual = self
            .schema
            .eq_ignore_ascii_case(self.outbox.schema.as_bytes());
        self.mentions_table && (usual || self.mentions_schema)
    }

    /// Of these the one table that they change comes first.
    fn insert(&self) -> Statement {
        const BEFORE: [&str; 5] = ["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"];
        let mut place = 1;
        while BEFORE.iter().any(|keyword| self.is(place, keyword)) {
            place = place.saturating_add(1);
        }
        if self.is_outbox(place) {
            Statement::Rows
        } else {
            self.elsewhere()
        }
    }

    /// Its kind, and the first names behind that which are no keywords: one of a table or of a function.
    fn elsewhere(&self) -> Statement {
        const KEYWORDS: [&str; 12] = [
            "LOW_PRIORITY",
            "DELAYED",
            "HIGH_PRIORITY",
            "QUICK",
            "CONCURRENT",
            "IGNORE",
            "INTO",
            "FROM",
            "DATA",
            "LOCAL",
            "INFILE",
            "TABLE",
        ];
        let text = |place: usize| self.word(place).map(String::from_utf8_lossy);
        let mut place = 1;
        let is_skipped = |place: usize| {
            KEYWORDS.iter().any(|keyword| self.is(place, keyword))
                || self.tokens.get(place) == Some(&Token::Literal)
        };
        while is_skipped(place) {
            place = place.saturating_add(1);
        }
        let dot = self.tokens.get(place.saturating_add(1)) == Some(&Token::Mark(b'.'));
        let second = text(place.saturating_add(2)).filter(|_| dot);
        let first = text(place).unwrap_or_default();
        let (schema, name) = match second {
            Some(second) => (first, second),
            None => (String::from_utf8_lossy(self.schema), first),
        };
        let kind = text(0).unwrap_or_default().to_ascii_uppercase();
        Statement::Elsewhere(format!("{kind} {schema}.{name}"))
    }

    /// A table's name begins here, and it is the outbox's. What cannot be read as a name may be.
    fn is_outbox(&self, place: usize) -> bool {
        let Some(first) = self.word(place) else {
            return self.touches();
        };
        let same = |word: &[u8], name: &str| {
            !name.is_ascii() || word.eq_ignore_ascii_case(name.as_bytes())
        };
        let (schema, table) = match self.tokens.get(place.saturating_add(1)) {
            Some(Token::Mark(b'.')) => match self.word(place.saturating_add(2)) {
                Some(second) => (first, second),
                None => return self.touches(),
            },
            _ => (self.schema, first),
        };
        same(schema, self.outbox.schema) && same(table, self.outbox.table)
    }

    fn rollback(&self) -> Statement {
        let mut place = if self.is(1, "WORK") { 2 } else { 1 };
        if !self.is(place, "TO") {
            return Statement::Rollback;
        }
        place = place.saturating_add(1);
        // A savepoint may be called so.
        if self.is(place, "SAVEPOINT") && self.word(place.saturating_add(1)).is_some() {
            place = place.saturating_add(1);
        }
        Statement::RollbackTo(self.word(place).unwrap_or_default().to_vec())
    }

    fn xa(&self, text: &[u8]) -> Statement {
        if self.is(1, "START") || self.is(1, "BEGIN") {
            Statement::XaStart
        } else if self.is(1, "COMMIT") {
            Statement::XaCommit(xid(text))
        } else if self.is(1, "ROLLBACK") {
            Statement::XaRollback(xid(text))
        } else {
            Statement::Other
        }
    }

    fn create(&self) -> Statement {
        let last = self.last.each_ref().map(|token| {
            let name = token.as_ref().and_then(Token::name);
            name.unwrap_or_default().to_ascii_uppercase()
        });
        if last == [b"START".to_vec(), b"TRANSACTION".to_vec()] {
            return Statement::CreateSelect;
        }
        let mut place = 1;
        if self.is(1, "OR") {
            place = 3;
        }
        // A table for one session alone, or none at all; or one that stays as it is if it is there.
        if !self.is(place, "TABLE") || self.is(place.saturating_add(1), "IF") {
            return Statement::Other;
        }
        if self.is_outbox(place.saturating_add(1)) {
            Statement::Redefine
        } else {
            Statement::Other
        }
    }

    /// ALTER, RENAME and DROP, of a table or of the whole database.
    fn redefines(&self) -> bool {
        let about = |keyword: &str| (1..4).any(|place| self.is(place, keyword));
        if about("TEMPORARY") {
            return false;
        }
        let database = self.is(0, "DROP") && (about("DATABASE") || about("SCHEMA"));
        (about("TABLE") || about("TABLES")) && self.touches() || database && self.mentions_schema
    }
}

/// `XA COMMIT X'67',X'',1`, as the server always writes it, without its first two words.
fn xid(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let words = text.trim_start().splitn(3, char::is_whitespace);
    let name = words.last().unwrap_or_default();
    let name = name.trim().trim_end_matches("one phase").trim();
    name.replace("x'", "X'").replace(", ", ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(schema: &str, text: &str) -> Statement {
        let query = Query {
            schema: schema.as_bytes(),
            text: text.as_bytes().into(),
        };
        let outbox = Outbox {
            schema: "eventlog",
            table: "events",
        };
        Statement::read(&query, outbox)
    }

    #[test]
    fn ends_and_beginnings_of_transactions_are_known() {
        for (text, statement) in [
            ("BEGIN", Statement::Begin),
            ("begin", Statement::Begin),
            ("START TRANSACTION", Statement::Begin),
            ("COMMIT", Statement::Commit),
            ("COMMIT /* added by proxy */", Statement::Commit),
            ("ROLLBACK", Statement::Rollback),
            ("ROLLBACK TO `a b`", Statement::RollbackTo(b"a b".to_vec())),
            (
                "ROLLBACK TO SAVEPOINT sp",
                Statement::RollbackTo(b"sp".to_vec()),
            ),
            ("SAVEPOINT `a b`", Statement::Savepoint(b"a b".to_vec())),
            ("XA START X'61',X'',1", Statement::XaStart),
            ("XA END X'61',X'',1", Statement::Other),
            (
                "XA COMMIT X'61',X'0b',7",
                Statement::XaCommit("X'61',X'0b',7".into()),
            ),
            (
                "XA ROLLBACK X'61',X'0B',7",
                Statement::XaRollback("X'61',X'0b',7".into()),
            ),
            ("# Dummy ev", Statement::Nothing),
            ("/* nothing */ ", Statement::Nothing),
            (
                "CREATE TABLE `t` (\n  `n` int\n) START TRANSACTION",
                Statement::CreateSelect,
            ),
        ] {
            assert_eq!(read("eventlog", text), statement, "{text}");
        }
    }

    #[test]
    fn a_statement_that_may_change_the_outbox_counts_as_one() {
        for (schema, text) in [
            ("", "INSERT INTO eventlog.events VALUES (1)"),
            ("eventlog", "insert into `Events` values (1)"),
            (
                "x",
                "INSERT IGNORE INTO `eventlog` . `events` SELECT * FROM y",
            ),
            ("x", "REPLACE eventlog.events VALUES (1)"),
            ("x", "/* app */ UPDATE eventlog.events SET delivered = 1"),
            ("eventlog", "UPDATE other, events SET a = 1"),
            ("x", "DELETE FROM eventlog.events"),
            ("x", "/*!50000 DELETE FROM eventlog.events */"),
            ("x", "LOAD DATA INFILE 'f' INTO TABLE `eventlog`.`events`"),
            ("x", "WITH a AS (SELECT 1) DELETE FROM eventlog.events"),
        ] {
            assert_eq!(read(schema, text), Statement::Rows, "{text}");
        }
        for (schema, text, told) in [
            (
                "shop",
                "INSERT INTO events VALUES (1)",
                "INSERT shop.events",
            ),
            (
                "eventlog",
                "insert into `shop`.`events` values (1)",
                "INSERT shop.events",
            ),
            (
                "eventlog",
                "REPLACE INTO percona.checksums SELECT 1 FROM eventlog.events",
                "REPLACE percona.checksums",
            ),
            (
                "eventlog",
                "INSERT INTO other VALUES ('events')",
                "INSERT eventlog.other",
            ),
            (
                "eventlog",
                "UPDATE IGNORE other SET a = 'events'",
                "UPDATE eventlog.other",
            ),
            ("shop", "DELETE QUICK FROM orders", "DELETE shop.orders"),
            (
                "shop",
                "LOAD DATA LOCAL INFILE 'x' INTO TABLE orders",
                "LOAD shop.orders",
            ),
            ("shop", "SELECT `shop`.`f`(1)", "SELECT shop.f"),
            ("shop", "CALL p()", "CALL shop.p"),
        ] {
            let elsewhere = Statement::Elsewhere(told.to_owned());
            assert_eq!(read(schema, text), elsewhere, "{text}");
        }
        for (schema, text) in [
            ("eventlog", "ANALYZE TABLE events"),
            ("eventlog", "GRANT SELECT ON events TO a"),
        ] {
            assert_eq!(read(schema, text), Statement::Other, "{text}");
        }
    }

    #[test]
    fn what_may_give_the_outbox_other_columns_is_known() {
        for (schema, text) in [
            ("x", "ALTER TABLE eventlog.events ADD COLUMN a INT"),
            ("eventlog", "DROP TABLE `events` /* generated by server */"),
            ("eventlog", "DROP TABLE IF EXISTS a, events"),
            ("eventlog", "RENAME TABLE new TO events"),
            ("eventlog", "ALTER TABLE new RENAME TO events"),
            ("x", "CREATE OR REPLACE TABLE eventlog.events (id INT)"),
            ("x", "CREATE TABLE eventlog.events (id INT)"),
            ("x", "DROP DATABASE eventlog"),
        ] {
            assert_eq!(read(schema, text), Statement::Redefine, "{text}");
        }
        for text in [
            "CREATE TABLE IF NOT EXISTS events (id INT)",
            "CREATE TABLE copy LIKE events",
            "CREATE INDEX i ON events (id)",
            "CREATE TEMPORARY TABLE events (id INT)",
            "DROP TEMPORARY TABLE IF EXISTS events",
            "DROP DATABASE other",
            "ALTER USER events IDENTIFIED BY 'x'",
            "DROP INDEX i ON other",
        ] {
            assert_eq!(read("eventlog", text), Statement::Other, "{text}");
        }
        assert_eq!(
            read("eventlog", "TRUNCATE TABLE events"),
            Statement::Truncate
        );
        assert_eq!(read("x", "truncate eventlog.events"), Statement::Truncate);
        assert_eq!(read("x", "TRUNCATE events"), Statement::Other);
    }

    #[test]
    fn any_bytes_are_survived() {
        for text in [
            "'",
            "`",
            "\"",
            "/*",
            "/*!",
            "--",
            "#",
            "\\",
            "'\\",
            "`a``",
            "INSERT INTO `",
            "XA COMMIT",
        ] {
            read("eventlog", text);
        }
    }
}
