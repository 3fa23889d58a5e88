//! A backlog in the binlog of MySQL or MariaDB, and pipelines whose record stands before it.
//!
//! The server remembers nothing of its replicas: where a pipeline begins is in its record alone. So the record of one that
//! began before the first row is kept, and copied for each.

use std::fs;

use headwater_testkit::{Headwater, Mysql, MysqlDatabase, Server};
use serde_json::Value;

use super::{Dialect, Host, Own, Shape, Words, insert};
use crate::Programs;
use crate::meter::Meter;
use crate::mysqlbinlog;
use crate::pipeline::{POSITION_FILE, POSITIONS_TOPIC, Pipeline, command};
use crate::yardstick::Took;

/// The pipeline whose record is copied.
const FIRST: &str = "bench_first";

/// No checkpoint while something is measured.
pub fn server(server: Server) -> Mysql {
    let redo = if server.is_mariadb() {
        ("innodb_log_file_size", "2G")
    } else {
        ("innodb_redo_log_capacity", "2G")
    };
    Mysql::start(server, &[redo, ("innodb_buffer_pool_size", "512M")])
}

impl Host for Mysql {
    type Backlog<'a> = Backlog<'a>;

    fn words(&self) -> Words {
        if self.server().is_mariadb() {
            MARIADB
        } else {
            MYSQL
        }
    }

    async fn version(&self) -> String {
        version(self).await
    }

    async fn backlog(&self, programs: &Programs, shape: Shape) -> Backlog<'_> {
        Backlog::write(self, programs, shape).await
    }
}

pub async fn version(mysql: &Mysql) -> String {
    let name = if mysql.server().is_mariadb() {
        "MariaDB"
    } else {
        "MySQL"
    };
    let number = "SELECT SUBSTRING_INDEX(VERSION(), '-', 1)";
    format!("{name} {}", mysql.ask(number).await.unwrap())
}

/// Writes the rows.
pub async fn fill(database: &MysqlDatabase<'_>, shape: Shape) {
    database.execute(&procedure(shape)).await;
    database.execute("CALL fill()").await;
}

const MYSQL: Words = Words {
    title: "Drain, MySQL",
    own: &[
        Own {
            name: "`mysqlbinlog --raw`",
            options: &["--raw"],
        },
        Own {
            name: "`mysqlbinlog`",
            options: &[],
        },
    ],
    sender: "mysqld",
    row_bytes: 640,
    remark: "`mysqlbinlog --read-from-remote-server` reads without TLS, as Headwater does on one machine. With `--raw` it writes what it gets, as \
             `pg_recvlogical` does, and without it each event as base64.",
};

const MARIADB: Words = Words {
    title: "Drain, MariaDB",
    own: &[
        Own {
            name: "`mariadb-binlog --raw`",
            options: &["--raw"],
        },
        Own {
            name: "`mariadb-binlog`",
            options: &[],
        },
    ],
    sender: "mariadbd",
    row_bytes: 580,
    remark: "`mariadb-binlog --read-from-remote-server` reads without TLS, as Headwater does on one machine, and like it has the server leave \
             out the statements (`--skip-annotate-row-events`). With `--raw` it writes what it gets, as `pg_recvlogical` does, and without it \
             each event as base64.",
};

pub struct Backlog<'a> {
    pub database: MysqlDatabase<'a>,
    events: u32,
    /// The record of a pipeline that began before the first row.
    first: Value,
    /// The log's last file.
    last: String,
}

impl<'a> Backlog<'a> {
    async fn write(mysql: &'a Mysql, programs: &Programs, shape: Shape) -> Backlog<'a> {
        let database = mysql.database("bench").await;
        database.execute(&procedure(shape)).await;
        // A file of its own: nobody has to look for the backlog's beginning.
        database.execute("FLUSH BINARY LOGS").await;
        let first = first_record(&database, programs);
        database.execute("CALL fill()").await;
        let events = database.ask("SELECT count(event_type) FROM events").await;
        // They are in the log; the table's pages would be written to disk while something is measured.
        let empty = "SET sql_log_bin = 0; TRUNCATE TABLE events";
        database.execute(empty).await;
        let status = if mysql.server().is_mariadb() {
            "SHOW BINLOG STATUS"
        } else {
            "SHOW BINARY LOG STATUS"
        };
        Backlog {
            events: events.unwrap().parse().unwrap(),
            first,
            last: database.ask(status).await.unwrap(),
            database,
        }
    }

    /// The log's files that it is in: `binlog.000002` and so on.
    pub fn files(&self) -> Vec<String> {
        let first = self.first["position"]["file"].as_str().unwrap();
        let [(name, first), (_, last)] =
            [first, &self.last].map(|file| file.rsplit_once('.').unwrap());
        let [first, last] = [first, last].map(|number| number.parse::<u32>().unwrap());
        let files = first..=last;
        files.map(|number| format!("{name}.{number:06}")).collect()
    }
}

impl super::Backlog for Backlog<'_> {
    fn events(&self) -> u32 {
        self.events
    }

    fn source(&self, _: &str) -> String {
        source(&self.database)
    }

    async fn begin(&self, pipeline: &Pipeline<'_>, headwater: &Headwater) {
        command(headwater, "adopt");
        let mut record = self.first.clone();
        record["name"] = pipeline.name.into();
        let record = record.to_string();
        match pipeline.kafka {
            Some(kafka) => {
                let key = Some(pipeline.name.as_bytes());
                let value = Some(record.as_bytes());
                kafka.produce(POSITIONS_TOPIC, key, value).await;
            }
            None => fs::write(headwater.folder().join(POSITION_FILE), record).unwrap(),
        }
    }

    async fn sender(&self) -> Meter {
        Meter::begin_now(self.database.mysql().pid())
    }

    /// The server notices that a reader is gone when it has something to say to it.
    async fn end(&self, _: &str) {
        self.database.end_readers().await;
    }

    async fn by_own(&self, options: &[&str]) -> Took {
        mysqlbinlog::drain(self, options).await
    }
}

pub fn source(database: &MysqlDatabase<'_>) -> String {
    format!(
        "url = \"{}\"\ntable = \"{}\"",
        database.url(),
        database.table()
    )
}

/// Where the log ends now.
fn first_record(database: &MysqlDatabase<'_>, programs: &Programs) -> Value {
    let pipeline = Pipeline {
        name: FIRST,
        source: source(database),
        snapshot: "never",
        format: "json",
        routes: 1,
        kafka: None,
    };
    let headwater = pipeline.program(&programs.counting);
    command(&headwater, "adopt");
    let record = fs::read(headwater.folder().join(POSITION_FILE)).unwrap();
    serde_json::from_slice(&record).unwrap()
}

/// Each insert commits by itself. MySQL has loops in procedures only.
fn procedure(shape: Shape) -> String {
    let each = shape.rows_a_transaction;
    let dialect = Dialect {
        table: "events",
        uuid: "UUID()",
        json: "",
        later: |date| format!("timestamp '{date}' + INTERVAL n * 1000 MICROSECOND"),
        numbers: format!("(SELECT t * {each} + n AS n FROM numbers WHERE n <= {each}) AS ns"),
    };
    format!(
        "CREATE TABLE numbers (n BIGINT PRIMARY KEY);
        INSERT INTO numbers WITH RECURSIVE up AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM up WHERE n < {each}) SELECT n FROM up;
        CREATE PROCEDURE fill() BEGIN
            DECLARE t BIGINT DEFAULT 0;
            WHILE t < {transactions} DO {insert}; SET t = t + 1; END WHILE;
        END",
        transactions = shape.rows / each,
        insert = insert(&dialect, shape),
    )
}
