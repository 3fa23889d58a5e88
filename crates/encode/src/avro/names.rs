//! Names to numbers, found without allocating: the fields of a record, the symbols of an enum.

use crate::document::Text;

/// Sorted as PostgreSQL's jsonb sorts members (by length, then by bytes), so that a payload's next member is most often the
/// name after the last one found.
#[derive(Debug)]
pub struct Names(Box<[(Box<str>, u32)]>);

impl Names {
    /// Each name stands for its place.
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> Names {
        let mut sorted: Vec<(Box<str>, u32)> = names.map(Into::into).zip(0..).collect();
        sorted.sort_by(|(one, _), (other, _)| order(one, other));
        Names(sorted.into())
    }

    /// `guess`: where the name might stand; then where the next one might.
    #[inline]
    pub fn find(&self, name: Text<'_>, guess: &mut usize) -> Option<u32> {
        match name.plain() {
            Some(plain) => self.find_plain(plain, guess),
            // Half a surrogate pair is in no name.
            None => self.find_plain(&name.to_str().ok()?, guess),
        }
    }

    #[inline]
    fn find_plain(&self, name: &str, guess: &mut usize) -> Option<u32> {
        if let Some((guessed, number)) = self.0.get(*guess)
            && **guessed == *name
        {
            *guess += 1;
            return Some(*number);
        }
        let found = self.0.binary_search_by(|(known, _)| order(known, name));
        let place = found.ok()?;
        *guess = place + 1;
        Some(self.0[place].1)
    }
}

fn order(one: &str, other: &str) -> std::cmp::Ordering {
    let by_length = one.len().cmp(&other.len());
    by_length.then_with(|| one.as_bytes().cmp(other.as_bytes()))
}
