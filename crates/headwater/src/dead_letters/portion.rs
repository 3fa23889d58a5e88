//! Letters whole, and the rows that they were made of, so many at a time as fit into memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use bytes::Bytes;
use headwater_core::dead_letter::{self, Entry, Letter};
use headwater_core::row::Row;
use headwater_core::window::Window;
use headwater_sink::Error;
use headwater_sink::kafka::{Back, Since, Stored};
use headwater_source::NoPart;

use super::Stand;
use crate::parts::{self, Database};

/// So much is in memory at once: of letters, and of rows about as much.
const BYTES: usize = 8 << 20;
const LETTERS: usize = 500;
/// How large the row of a letter may be that was cut.
const CUT: usize = 4 << 20;

/// A letter that was read whole.
pub struct Held {
    pub letter: Letter,
    pub key: Option<Bytes>,
    /// Where a mark has to stand behind it.
    pub places: BTreeMap<i32, i64>,
}

/// Divides letters, in their order, into as many as may be in memory at once.
pub fn portions(letters: &[Stand]) -> Vec<&[Stand]> {
    let weight = |it: &Stand| it.bytes + if it.is_cut { CUT } else { 0 };
    let mut bytes = letters.first().map_or(0, weight);
    let mut count = 1;
    let together = |_: &Stand, next: &Stand| {
        (bytes, count) = (bytes + weight(next), count + 1);
        let fits = bytes <= BYTES && count <= LETTERS;
        if !fits {
            (bytes, count) = (weight(next), 1);
        }
        fits
    };
    letters.chunk_by(together).collect()
}

/// Reads letters whole, in the order in which they are asked for. One that is gone by now is left out.
pub async fn read(back: &Back, portion: &[Stand]) -> Result<Vec<Held>, Error> {
    let mut ranges: HashMap<i32, Range<i64>> = HashMap::new();
    let mut wanted = HashSet::new();
    for stand in portion {
        if let Some((partition, offset)) = stand.places.first_key_value() {
            wanted.insert((*partition, *offset));
            let range = ranges.entry(*partition).or_insert(*offset..*offset);
            *range = range.start.min(*offset)..range.end.max(offset + 1);
        }
    }
    let put = move |found: &mut HashMap<String, (Letter, Option<Bytes>)>, stored: &Stored<'_>| {
        if !wanted.contains(&stored.place()) {
            return;
        }
        if let Ok(Entry::Letter(letter)) = Entry::read(stored.headers(), stored.value) {
            let key = stored.key().map(Bytes::copy_from_slice);
            found.insert(letter.id.clone(), (*letter, key));
        }
    };
    let reading = back
        .read(Since::Within(ranges), HashMap::new(), put)
        .await?;
    let mut found = reading.into;
    let held = |stand: &Stand| {
        let (letter, key) = found.remove(&stand.id)?;
        Some(Held {
            letter,
            key,
            places: stand.places.clone(),
        })
    };
    Ok(portion.iter().filter_map(held).collect())
}

/// The rows of letters that are still in the table, by their events' ids.
pub async fn rows(database: &Database, held: &[Held]) -> Result<HashMap<String, Row>, NoPart> {
    let ids: HashSet<&String> = held.iter().map(|it| &it.letter.event_id).collect();
    let mut rows = HashMap::new();
    if ids.is_empty() {
        return Ok(rows);
    }
    let window = Window {
        ids: ids.into_iter().cloned().collect(),
        ..Window::default()
    };
    let outbox = parts::outbox();
    let mut part = parts::part(database, &window).await?;
    while let Some((row, _)) = part.next().await? {
        if let Ok(roles) = outbox.bind(&row.table) {
            rows.insert(dead_letter::event_id(&row, &roles), row);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(weights: &[(usize, bool)]) -> Vec<usize> {
        let stand = |(bytes, is_cut): &(usize, bool)| Stand {
            bytes: *bytes,
            is_cut: *is_cut,
            ..Stand::default()
        };
        let letters: Vec<Stand> = weights.iter().map(stand).collect();
        portions(&letters).into_iter().map(<[Stand]>::len).collect()
    }

    #[test]
    fn a_portion_is_no_larger_than_what_fits_and_never_empty() {
        assert_eq!(sizes(&[]), Vec::<usize>::new());
        assert_eq!(sizes(&[(100 << 20, false), (1, false)]), [1, 1]);
        assert_eq!(sizes(&[(0, true); 4]), [2, 2]);
        assert_eq!(sizes(&vec![(10, false); 1200]), [500, 500, 200]);
    }
}
