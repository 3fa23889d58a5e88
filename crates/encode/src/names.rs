//! Finds by name, without allocating, most often at the first try: the fields of a record or message, the symbols of an enum.

use crate::document::Text;

/// Names with what each stands for, sorted as PostgreSQL's jsonb sorts members: by length, then by bytes.
#[derive(Debug)]
pub struct Names<T> {
    sorted: Box<[(Box<str>, T)]>,
    /// Where their guesses begin.
    guesses: usize,
}

/// Which name followed which in the rows before: databases and programs write members in one order again and again.
#[derive(Debug, Default)]
pub struct Guesses(Vec<u32>);

impl<T: Copy> Names<T> {
    /// Of equal names the later counts.
    pub fn new<'n>(names: impl Iterator<Item = (&'n str, T)>, guesses: &mut Guesses) -> Names<T> {
        let mut sorted: Vec<(Box<str>, T)> = names.map(|(name, of)| (name.into(), of)).collect();
        // Stable, so that of equal names the last stands behind the others.
        sorted.sort_by(|(one, _), (other, _)| order(one, other));
        sorted.reverse();
        sorted.dedup_by(|(one, _), (other, _)| one == other);
        sorted.reverse();
        let start = guesses.0.len();
        // At first, that each is followed by its neighbour.
        guesses.0.extend((0..).take(sorted.len() + 1));
        Names {
            sorted: sorted.into(),
            guesses: start,
        }
    }

    /// Looks for one name alone.
    pub fn get(&self, name: Text<'_>) -> Option<T> {
        match name.plain() {
            Some(plain) => Some(self.sorted[self.place(plain)?].1),
            // Half a surrogate pair is in no name.
            None => Some(self.sorted[self.place(&name.to_str().ok()?)?].1),
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        let found = self
            .sorted
            .binary_search_by(|(known, _)| order(known, name));
        found.ok()
    }

    pub fn search(&self) -> Search<'_, T> {
        Search {
            names: self,
            last: 0,
        }
    }
}

fn order(one: &str, other: &str) -> std::cmp::Ordering {
    let by_length = one.len().cmp(&other.len());
    by_length.then_with(|| one.as_bytes().cmp(other.as_bytes()))
}

/// The members of one object, looked up one after the other.
pub struct Search<'n, T> {
    names: &'n Names<T>,
    /// One more than the place of the last name found.
    last: usize,
}

impl<T: Copy> Search<'_, T> {
    #[inline]
    pub fn find(&mut self, name: Text<'_>, guesses: &mut Guesses) -> Option<T> {
        match name.plain() {
            Some(plain) => self.find_plain(plain, guesses),
            None => self.find_plain(&name.to_str().ok()?, guesses),
        }
    }

    #[inline]
    fn find_plain(&mut self, name: &str, guesses: &mut Guesses) -> Option<T> {
        let guess = &mut guesses.0[self.names.guesses + self.last];
        let place = *guess as usize;
        if let Some((guessed, of)) = self.names.sorted.get(place)
            && **guessed == *name
        {
            self.last = place + 1;
            return Some(*of);
        }
        let place = self.names.place(name)?;
        *guess = u32::try_from(place).unwrap_or_default();
        self.last = place + 1;
        Some(self.names.sorted[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_order_and_others_are_not() {
        let mut guesses = Guesses::default();
        Names::new([("other", 9)].into_iter(), &mut guesses);
        let texts = ["seal", "a", "dock", "bb", "sealed"];
        let names = Names::new(texts.into_iter().zip(0_usize..), &mut guesses);
        for round in 0..20 {
            let mut search = names.search();
            for step in 0..texts.len() {
                let field = (step * 3 + round / 2) % texts.len();
                assert_eq!(search.find_plain("sea", &mut guesses), None);
                let found = search.find_plain(texts[field], &mut guesses);
                assert_eq!(found, Some(field));
                assert_eq!(
                    names.place(texts[field]).map(|place| names.sorted[place].1),
                    Some(field)
                );
            }
        }
    }

    #[test]
    fn of_equal_names_the_later_counts() {
        let mut guesses = Guesses::default();
        let names = Names::new(
            [("a", 0), ("b", 7), ("a", 1), ("a", 2)].into_iter(),
            &mut guesses,
        );
        assert_eq!(names.search().find_plain("a", &mut guesses), Some(2));
        assert_eq!(names.search().find_plain("b", &mut guesses), Some(7));
    }
}
