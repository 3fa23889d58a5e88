//! What only a binlog does: it is cut into files, packed, purged and reset, and follows its server's settings. What every
//! database promises is in the other files.

mod check;
mod columns;
mod damaged;
mod first_start;
mod login;
pub mod lost;
mod rows;
mod server;
mod takeover;
mod transactions;
mod wire;

use std::time::Duration;

use headwater_testkit::{Load, MysqlDatabase, Written};

use crate::scene::{LIMIT, Scene, on_every_binlog};

/// A scene on MySQL or MariaDB.
pub type BinlogScene<'a> = Scene<'a, MysqlDatabase<'a>>;

/// A MySQL whose positions are files and offsets.
pub const WITHOUT_GTIDS: [(&str, &str); 2] =
    [("gtid_mode", "OFF"), ("enforce_gtid_consistency", "OFF")];

/// Between two looks at what a test waits for.
const SOON: Duration = Duration::from_millis(50);

on_every_binlog!(whatever_the_log_looks_like_all_of_it_arrives: "looks", own server, shared kafka);

async fn whatever_the_log_looks_like_all_of_it_arrives(mut scene: BinlogScene<'_>) {
    // GIVEN a pipeline at work under load
    let mysql = scene.database.mysql();
    scene.init();
    let run = scene.start().await;
    let load = Load {
        rate: Some(100),
        ..Load::new(&scene.another_namespace("load").await, 61)
    };
    let load = load.start(&scene.database.owner_url());

    // WHEN the log's files become tiny, events lose and get back their checksums, and transactions are compressed
    let (pack, unpack) = if mysql.server().is_mariadb() {
        let on = "SET GLOBAL log_bin_compress_min_len = 10; SET GLOBAL log_bin_compress = ON";
        (on, "SET GLOBAL log_bin_compress = OFF")
    } else {
        let on = "SET GLOBAL binlog_transaction_compression = ON";
        (on, "SET GLOBAL binlog_transaction_compression = OFF")
    };
    let steps = [
        "SET GLOBAL max_binlog_size = 4096",
        "SET GLOBAL binlog_checksum = NONE",
        pack,
        "SET GLOBAL binlog_checksum = CRC32",
        "SET GLOBAL max_binlog_size = 1073741824; FLUSH BINARY LOGS",
        unpack,
        "SET GLOBAL binlog_row_image = MINIMAL",
    ];
    let mut written = Written::default();
    for step in steps {
        mysql.execute(step).await;
        written.add(scene.commit_events(10).await);
        let rows = scene.database.bulk_rows(&scene.namespace, 2000, 100).await;
        written.add(rows);
        mysql.execute("FLUSH BINARY LOGS").await;
        load.wait_for(load.events() + 20, LIMIT).await;
    }
    written.add(load.stop().await);

    // THEN nothing is lost, doubled, reordered or foreign
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}
