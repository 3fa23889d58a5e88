//! A part of the table's events, in the order of date and id, as one moment saw it: whatever database they are in.

use headwater_core::row::Row;
use headwater_core::window::{Key, Window};

use crate::{Error, mysql, postgres, sqlite};

/// Rows that are still to come.
pub struct Part(View);

/// A closed set, so an enum.
enum View {
    Postgres(Box<postgres::View>),
    MySql(Box<mysql::View>),
    Sqlite(sqlite::View),
}

impl Part {
    pub(crate) fn postgres(view: postgres::View) -> Part {
        Part(View::Postgres(Box::new(view)))
    }

    pub(crate) fn mysql(view: mysql::View) -> Part {
        Part(View::MySql(Box::new(view)))
    }

    pub(crate) fn sqlite(view: sqlite::View) -> Part {
        Part(View::Sqlite(view))
    }

    /// The next row and where it stands, or none after the last one. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<(Row, Key)>, Error> {
        match &mut self.0 {
            View::Postgres(view) => view.next().await,
            View::MySql(view) => view.next().await,
            View::Sqlite(view) => view.next().await,
        }
    }
}

/// A uuid in its canonical form, as its digits: what a database may be asked for that has a type of its own for it.
pub(crate) fn uuid(id: &str) -> Option<String> {
    let hyphens = [8, 13, 18, 23];
    let fits = |(place, byte): (usize, u8)| match byte {
        b'-' => hyphens.contains(&place),
        other => other.is_ascii_hexdigit() && !hyphens.contains(&place),
    };
    let is_uuid = id.len() == 36 && id.bytes().enumerate().all(fits);
    is_uuid.then(|| id.replace('-', ""))
}

/// A condition that the id is one of these literals; no row meets it without a single one.
pub(crate) fn one_of(column: &str, literals: impl Iterator<Item = String>) -> String {
    let literals: Vec<String> = literals.collect();
    if literals.is_empty() {
        "1 = 0".into()
    } else {
        format!("{column} IN ({})", literals.join(", "))
    }
}

/// Why a part of the table is not read.
#[derive(Debug, thiserror::Error)]
pub enum NoPart {
    #[error("the table has no column {wanted}; there are {}", there.join(", "))]
    NoColumn { wanted: String, there: Vec<String> },
    #[error(transparent)]
    Source(#[from] Error),
}

impl NoPart {
    /// Unless every column that a window names is one of these.
    pub(crate) fn unless_there(there: &[String], window: &Window) -> Result<(), NoPart> {
        let missing = |(column, _): &&(String, String)| !there.contains(column);
        match window.equal.iter().find(missing) {
            None => Ok(()),
            Some((wanted, _)) => Err(NoPart::NoColumn {
                wanted: wanted.clone(),
                there: there.to_vec(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uuid_in_its_canonical_form_is_asked_for_as_one() {
        let digits = "0102030405060708090a0b0c0d0e0f10";
        let text = "01020304-0506-0708-090a-0b0c0d0e0f10";
        assert_eq!(uuid(text).as_deref(), Some(digits));
        for other in ["", digits, "01020304-0506-0708-090a-0b0c0d0e0f1+", "x"] {
            assert_eq!(uuid(other), None, "{other}");
        }
        assert_eq!(one_of("id", std::iter::empty()), "1 = 0");
    }
}
