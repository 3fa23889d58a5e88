//! What could not be published: the letters on the topic of dead letters, and a second try for them.
//!
//! Rule: memory is bounded by the letters that are open; what they hold is read again in portions.

mod again;
mod letters;
mod made;
mod portion;

pub use again::{Again, Becomes};
pub use letters::{Letters, Stand};
pub use made::Maker;
pub use portion::{Held, portions, read, rows};

use headwater_core::dead_letter::Entry;
use headwater_core::route::legal;
use headwater_sink::Error;
use headwater_sink::kafka::{Back, Since, Stored};

/// Every letter of a pipeline that is open; those of these ids also if they are not.
pub async fn letters(back: &Back, pipeline: &str, asked: &[String]) -> Result<Letters, Error> {
    let letters = Letters::of(pipeline, asked);
    let reading = back.read(Since::Time(None), letters, put).await?;
    Ok(reading.into)
}

/// The topic that lacks a letter's event. No topic has an illegal name: what matters then is where its route leads today.
fn lacking(named: Option<&str>) -> Option<&str> {
    named.filter(|topic| legal(topic).is_ok())
}

fn put(letters: &mut Letters, stored: &Stored<'_>) {
    match Entry::read(stored.headers(), stored.value) {
        Ok(entry) => letters.take(stored.place(), entry, stored.value.len()),
        Err(_) => letters.strange += 1,
    }
}
