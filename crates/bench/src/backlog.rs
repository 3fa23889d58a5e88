//! A database with a backlog of events, and readers that begin before it.

pub mod binlog;
pub mod postgres;

use headwater_testkit::Headwater;

use crate::Programs;
use crate::meter::Meter;
use crate::pipeline::Pipeline;
use crate::yardstick::Took;

pub const NAMESPACE: &str = "shop";

#[derive(Clone, Copy)]
pub struct Shape {
    pub rows: u32,
    pub rows_a_transaction: u32,
    /// Of a hundred rows, so many are none that become messages.
    pub sentinels: u32,
}

impl Shape {
    /// Of rows that wait in the table, whatever transactions they came in.
    pub fn full(rows: u32) -> Shape {
        Shape {
            rows,
            rows_a_transaction: 1000,
            sentinels: 0,
        }
    }
}

/// A server that backlogs are written on, and that is busy with nothing else.
#[allow(async_fn_in_trait)] // One thread calls it.
pub trait Host {
    type Backlog<'a>: Backlog
    where
        Self: 'a;

    fn words(&self) -> Words;
    async fn version(&self) -> String;
    async fn backlog(&self, programs: &Programs, shape: Shape) -> Self::Backlog<'_>;
}

/// How the page speaks of a server.
pub struct Words {
    /// Of the section.
    pub title: &'static str,
    /// What came with the server and reads its log; the first is the yardstick.
    pub own: &'static [Own],
    /// The process that serves a reader.
    pub sender: &'static str,
    /// A row in the log, about.
    pub row_bytes: u32,
    /// What is to be known of its own readers.
    pub remark: &'static str,
}

/// A reader that came with the server.
pub struct Own {
    pub name: &'static str,
    pub options: &'static [&'static str],
}

#[allow(async_fn_in_trait)] // One thread calls it.
pub trait Backlog {
    /// How many of its rows are events.
    fn events(&self) -> u32;
    /// The lines of `[source]` of the pipeline `name`.
    fn source(&self, name: &str) -> String;
    /// Lets a pipeline begin before the first row, whatever others have read.
    async fn begin(&self, pipeline: &Pipeline<'_>, headwater: &Headwater);
    /// What serves the one reader there is.
    async fn sender(&self) -> Meter;
    /// Returns when nothing serves the pipeline any more, which has ended.
    async fn end(&self, name: &str);
    /// Reads all of it with the server's own reader.
    async fn by_own(&self, options: &[&str]) -> Took;
}

/// What each database says in its own way.
struct Dialect<'a> {
    table: &'a str,
    uuid: &'a str,
    /// From text to the payload's type.
    json: &'a str,
    /// A date, and `n` milliseconds later.
    later: fn(&str) -> String,
    /// Gives the numbers `n` of the rows of the transaction `t`.
    numbers: String,
}

/// The rows of the transaction `t`. A row is about 800 bytes as PostgreSQL sends it.
fn insert(dialect: &Dialect<'_>, shape: Shape) -> String {
    let Dialect {
        table,
        uuid,
        json,
        later,
        numbers,
    } = dialect;
    let started = later("2026-06-12 03:22:47.000123");
    let completed = later("2026-06-12 03:22:47.450789");
    format!(
        r#"INSERT INTO {table}
        SELECT {uuid}, '{NAMESPACE}', {uuid}, 'PlaceOrderAction', '{{"cart": "c-4410", "coupon": null}}', {started}, {completed},
            CASE WHEN event THEN concat('order-', n % 10000) END, CASE WHEN event THEN 'Order' END,
            CASE WHEN event THEN 'OrderPlaced' END, CASE WHEN event THEN {PAYLOAD}{json} END, {completed}, false
        FROM (SELECT n, n % 100 >= {sentinels} AS event FROM {numbers}) AS r"#,
        sentinels = shape.sentinels,
    )
}

/// In one line and with no more spaces than PostgreSQL writes, for MariaDB keeps the text as it is.
const PAYLOAD: &str = concat!(
    r#"concat('{"gift": false, "lines": [{"sku": "TEA-0451", "name": "Assam, second flush", "count": 3, "price": 1249}, "#,
    r#"{"sku": "CUP-0007", "name": "Cup with saucer", "count": 12, "price": 899}], "state": "PLACED", "total": 145.35, "#,
    r#""modelId": "order-', n % 10000, '", "buyer": {"id": ', n, ', "name": "Ada Lovelace", "city": "Ockham"}, "coupon": null, "#,
    r#""modelName": "Order", "placedAt": "2026-06-12T03:22:47.450789Z", "reference": "2026-06-12/', n, '"}')"#
);
