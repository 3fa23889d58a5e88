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
