//! A table full of events, and who can read all of it: for `snapshot`.

pub mod binlog;
pub mod postgres;

use std::process::Command;

use headwater_testkit::Outbox;

/// A server that tables are filled on, and that is busy with nothing else.
#[allow(async_fn_in_trait)] // One thread calls it.
pub trait Store {
    type Stock<'a>: Stock
    where
        Self: 'a;

    fn words(&self) -> Words;
    async fn version(&self) -> String;
    async fn stock(&self, rows: u32) -> Self::Stock<'_>;
}

/// How the page speaks of a server.
pub struct Words {
    /// Of the section.
    pub title: &'static str,
    /// The server's own client, which is the yardstick.
    pub own: &'static str,
}

#[allow(async_fn_in_trait)] // One thread calls it.
pub trait Stock {
    type Database: Outbox;

    fn database(&self) -> &Self::Database;
    /// The lines of `[source]`.
    fn source(&self) -> String;
    /// The server's own client: it writes all events, in the order of a snapshot, to standard output.
    fn own(&self) -> Command;
    /// Takes away what a pipeline, which has ended, made for itself.
    async fn end(&self, name: &str);
}

/// All columns of all events, as a snapshot asks for them.
fn select(table: &str) -> String {
    format!("SELECT * FROM {table} WHERE event_type IS NOT NULL ORDER BY event_date, id")
}

/// What spares the server the sorting.
pub async fn index(stock: &impl Stock) {
    let database = stock.database();
    let table = database.table();
    let sql = format!("CREATE INDEX events_in_order ON {table} (event_date, id)");
    database.execute(&sql).await;
}
