//! The same on MySQL and MariaDB, by the same descriptions; and what only they can hold.

use headwater_testkit::{MysqlDatabase, unique};

use super::{AVRO, JSON, PROTOBUF, case, each_stops, no_json, no_objects, nulls};
use super::{stands_before, stands_before_the_first};
use crate::scene::{Event, Scene, headwater, on_every_binlog};

type BinlogScene<'a> = Scene<'a, MysqlDatabase<'a>>;

/// A table whose columns all may be null.
async fn make_lenient(scene: &BinlogScene<'_>) {
    let uuid = if scene.database.mysql().server().is_mariadb() {
        "UUID"
    } else {
        "CHAR(36) CHARACTER SET ascii"
    };
    let sql = format!(
        "ALTER TABLE events DROP PRIMARY KEY, MODIFY id {uuid} NULL, MODIFY namespace VARCHAR(255) NULL,
            MODIFY action_id {uuid} NULL, MODIFY action_name VARCHAR(255) NULL, MODIFY action_params JSON NULL,
            MODIFY started_date DATETIME(6) NULL, MODIFY completion_date DATETIME(6) NULL,
            MODIFY event_date DATETIME(6) NULL, MODIFY delivered BOOLEAN NULL"
    );
    scene.database.execute(&sql).await;
}

on_every_binlog!(a_null_stops_the_run: "failures", shared server, shared kafka);

async fn a_null_stops_the_run(mut scene: BinlogScene<'_>) {
    make_lenient(&scene).await;
    each_stops(&mut scene, &JSON, nulls()).await;
}

on_every_binlog!(a_payload_or_a_name_stops_the_run: "failures", shared server, shared kafka);

async fn a_payload_or_a_name_stops_the_run(mut scene: BinlogScene<'_>) {
    make_lenient(&scene).await;
    each_stops(&mut scene, &JSON, no_objects(&JSON)).await;
    let names = [
        case("namespace", "''", "column namespace is null or blank"),
        case("namespace", "' \\t'", "column namespace is null or blank"),
        case("event_type", "''", JSON.no_type),
    ];
    each_stops(&mut scene, &JSON, names).await;
    scene
        .database
        .execute("ALTER TABLE events MODIFY payload LONGTEXT")
        .await;
    each_stops(&mut scene, &JSON, no_json(&JSON)).await;
}

on_every_binlog!(what_fits_no_schema_stops_the_run: "failures", shared server, shared kafka);

async fn what_fits_no_schema_stops_the_run(mut scene: BinlogScene<'_>) {
    for format in [&AVRO, &PROTOBUF] {
        format.encode.clone_into(&mut scene.pipeline.encode);
        let wrong = case("payload", "'{\"seq\": 2.5}'", "WalletChangedEvent.seq: ");
        stands_before(&mut scene, format, &wrong).await;
    }
}

on_every_binlog!(a_column_of_another_type_stops_the_run: "types", shared server, shared kafka);

async fn a_column_of_another_type_stops_the_run(mut scene: BinlogScene<'_>) {
    make_lenient(&scene).await;
    for (column, kind, value, says) in [
        ("event_type", "INT", "7", "must be text, and is a number"),
        (
            "payload",
            "BOOLEAN",
            "TRUE",
            "must be text, and is a number",
        ),
        (
            "payload",
            "GEOMETRY",
            "POINT(1, 2)",
            "has the type GEOMETRY",
        ),
        (
            "event_date",
            "TEXT",
            "'now'",
            "must be a date and time, and is text",
        ),
        ("delivered", "TEXT", "'t'", "must be a boolean, and is text"),
        (
            "action_id",
            "VARBINARY(20)",
            "x'0102'",
            "holds 2 bytes; only 16 are a uuid",
        ),
        (
            "model_type",
            "VARCHAR(255) CHARACTER SET gbk",
            "'Konto'",
            "is in the character set gbk, which Headwater does not convert",
        ),
    ] {
        // GIVEN a table that has one, and a pipeline of its own
        let usual = format!(
            "CREATE TABLE other LIKE events; ALTER TABLE other MODIFY {column} {kind};
            RENAME TABLE events TO usual, other TO events"
        );
        scene.database.execute(&usual).await;
        begin_anew(&mut scene);

        // WHEN a row is written, THEN each start ends with code 3 and names the column
        let odd = Event::new(&scene.namespace, "k", 1);
        let insert = scene.insert_with(&odd, &[(column, value)]);
        scene.database.execute(&insert).await;
        stands_before_the_first(&scene, &odd, &format!("column {column} {says}")).await;
        let usual = "DROP TABLE events; RENAME TABLE usual TO events";
        scene.database.execute(usual).await;
    }
}

on_every_binlog!(a_column_that_is_not_in_the_log_stops_the_run: "image", shared server, shared kafka);

async fn a_column_that_is_not_in_the_log_stops_the_run(mut scene: BinlogScene<'_>) {
    // Without a primary key MariaDB has whole rows in its log, whatever the image.
    let lenient = "ALTER TABLE events MODIFY action_name VARCHAR(255) NULL, MODIFY delivered BOOLEAN DEFAULT TRUE";
    scene.database.execute(lenient).await;
    for column in ["action_name", "model_type", "payload", "delivered"] {
        // GIVEN a pipeline of its own
        begin_anew(&mut scene);

        // WHEN a session writes short images, and leaves a column out
        let odd = Event::new(&scene.namespace, "k", 1);
        let insert = odd.insert_into_without(scene.database.table(), &[column]);
        let sql = format!("SET SESSION binlog_row_image = MINIMAL; {insert}");
        scene.database.execute(&sql).await;

        // THEN nobody guesses what it was: each start ends with code 3 and names it
        let says = format!("column {column} did not come with the row");
        stands_before_the_first(&scene, &odd, &says).await;
    }
}

fn begin_anew(scene: &mut BinlogScene<'_>) {
    scene.pipeline.name = unique("anew");
    scene.headwater = headwater(&scene.pipeline);
    scene.init();
}
