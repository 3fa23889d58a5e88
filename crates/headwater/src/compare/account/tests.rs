use std::collections::HashSet;
use std::path::Path;

use headwater_core::band::{self, Gathering};
use headwater_core::event::Outbox;
use headwater_core::route::Route;
use headwater_encode::{Encoder, Json, JsonStyle};
use headwater_sink::Error;
use headwater_source::sqlite;
use rusqlite::Connection;

use super::*;
use crate::dead_letters::Stand;

/// What is on a topic: event and date.
type There = Vec<(u32, i64)>;

/// One topic, read in bands of two or three.
struct Scripted {
    there: There,
    topics: [String; 1],
    bands: usize,
}

impl Bands for Scripted {
    async fn band(&mut self, from: Place, whole_dates: bool) -> Result<(Band, Ends), Error> {
        let mut gathering = Gathering::new(from, 3).of_whole_dates(whole_dates);
        for (number, date) in &self.there {
            gathering.add(band::Found {
                id: ShortId::of(&uuid(*number)),
                topic: 0,
                date: *date,
                is_replay: false,
            });
        }
        self.bands += 1;
        Ok((gathering.finish(), Ends::default()))
    }

    async fn since(&mut self, _: &Ends, _: HashSet<(u16, ShortId)>) -> Result<Band, Error> {
        Ok(Gathering::new(beginning(None), 3).finish())
    }

    fn topics(&self) -> &[String] {
        &self.topics
    }

    fn number(&self, topic: &str) -> Option<u16> {
        (topic == self.topics[0]).then_some(0)
    }

    fn absent(&self, _: u16, _: i64) -> Absent {
        Absent::Surely
    }

    fn unreadable(&self) -> u64 {
        0
    }

    fn doubts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Not in the order of the numbers.
fn uuid(number: u32) -> String {
    format!("{:08x}-0000-0000-0000-000000000000", number.reverse_bits())
}

const DATE: i64 = 1_781_234_567_000_123;
const TEXT: &str = "2026-06-12 03:22:47.000123";

fn insert(file: &Connection, number: u32, payload: &str) {
    let sql = "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date, \
        model_id, model_type, event_type, payload, event_date, delivered) \
        VALUES (?1, 'shop', 'a', 'Open', '{}', ?2, ?2, 'm', 'M', 'Opened', ?3, ?2, 0)";
    file.execute(sql, [&uuid(number), TEXT, payload]).unwrap();
}

fn table(folder: &Path) -> (Connection, Database) {
    let path = folder.join("shop.db");
    let file = Connection::open(&path).unwrap();
    let schema = include_str!("../../../../../schemas/outbox/sqlite.sql");
    file.execute_batch(schema).unwrap();
    file.pragma_update(None, "ignore_check_constraints", true)
        .unwrap();
    let settings = sqlite::Settings {
        name: "shop".into(),
        path,
        table: "events".into(),
    };
    (file, Database::Sqlite(settings))
}

async fn compared(database: &Database, there: There) -> (Account, usize) {
    let routes = vec![Route::parse("t", "").unwrap()];
    compared_by(routes, &Unsent::default(), database, there).await
}

async fn compared_by(
    routes: Vec<Route>,
    unsent: &Unsent,
    database: &Database,
    there: There,
) -> (Account, usize) {
    let mut published = Scripted {
        there,
        topics: ["t".into()],
        bands: 0,
    };
    let unfit = Unfit::default();
    let encoder = Encoder::Json(Json::new(JsonStyle::Embedded));
    let preparer = Preparer::new(Outbox::ekbatan(), encoder, routes).comparing(&unfit);
    let order = Order {
        database,
        preparer: (preparer, unfit.clone()),
        published: &mut published,
        unsent,
        window: Window::default(),
        progress: &mut |_| {},
    };
    let (_ask, mut stop) = Stop::channel();
    let (account, ended) = compare(order, &mut stop).await;
    ended.unwrap();
    assert!(unfit.is_empty(), "nothing of them is kept");
    (account, published.bands)
}

#[tokio::test]
async fn the_events_of_one_date_are_compared_part_by_part() {
    // GIVEN many events of one date, of which some are missing, and on the topic one that the table does not have, and one twice
    let folder = tempfile::tempdir().unwrap();
    let (file, database) = table(folder.path());
    (0..60).for_each(|number| insert(&file, number, "{}"));
    let mut there: There = (0..60).filter(|n| n % 4 != 0).map(|n| (n, DATE)).collect();
    there.extend([(99, DATE), (1, DATE)]);

    // WHEN they are compared in bands that are much smaller, THEN each is counted once
    let (account, bands) = compared(&database, there).await;
    assert!(bands > 15, "{bands}");
    assert_eq!((account.rows, account.there, account.missing), (60, 45, 15));
    assert_eq!((account.doubled, account.foreign), (1, 1));
}

#[tokio::test]
async fn an_event_that_cannot_be_encoded_any_more_is_not_missed_if_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (file, database) = table(folder.path());
    (0..12).for_each(|number| insert(&file, number, "{"));
    let there = (0..10).map(|number| (number, DATE)).collect();
    let (account, _) = compared(&database, there).await;
    assert_eq!((account.rows, account.there), (12, 10));
    assert_eq!(
        (account.unpublishable, account.missing, account.foreign),
        (2, 0, 0)
    );
}

#[tokio::test]
async fn a_row_that_fails_at_one_route_is_compared_at_the_others() {
    // GIVEN rows whose second route makes no key of them, each with an open letter of that route
    let folder = tempfile::tempdir().unwrap();
    let (file, database) = table(folder.path());
    (0..3).for_each(|number| insert(&file, number, "{}"));
    let letters: Vec<Stand> = (0..3)
        .map(|number| Stand {
            event_id: uuid(number),
            topic: Some("u".into()),
            ..Stand::default()
        })
        .collect();
    let routes = vec![
        Route::parse("t", "").unwrap(),
        Route::parse("u", "{payload.k}").unwrap(),
    ];

    // WHEN one lacks the message of the first route, THEN that is missing, and what is there is not called foreign
    let there = vec![(0, DATE), (2, DATE), (2, DATE)];
    let unsent = Unsent::of(letters.iter());
    let (account, _) = compared_by(routes, &unsent, &database, there).await;
    assert_eq!((account.rows, account.there, account.missing), (3, 2, 1));
    assert_eq!((account.dead_lettered, account.unpublishable), (3, 0));
    assert_eq!((account.doubled, account.foreign), (1, 0));
}
