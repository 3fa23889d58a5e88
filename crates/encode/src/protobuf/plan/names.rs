//! Finds a field by one of its two names, most often at the first try.

/// Which of a field's names a member has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// As in the schema.
    Own,
    /// As in JSON: lower camel case, or `json_name`.
    Json,
}

#[derive(Debug)]
struct Name {
    text: Box<str>,
    field: usize,
    spelling: Spelling,
}

/// All names of a message's fields, sorted by length, then bytes.
#[derive(Debug)]
pub struct Names {
    sorted: Vec<Name>,
    /// Where this message's guesses begin.
    guesses: usize,
}

/// Which name followed which in the rows before: databases and programs write members in one order again and again.
#[derive(Debug, Default)]
pub struct Guesses(Vec<u32>);

impl Names {
    /// Of equal names the later counts.
    pub fn new(names: Vec<(String, usize, Spelling)>, guesses: &mut Guesses) -> Names {
        let mut sorted: Vec<Name> = Vec::with_capacity(names.len());
        for (text, field, spelling) in names {
            sorted.retain(|name| *name.text != text);
            let text = text.into();
            sorted.push(Name {
                text,
                field,
                spelling,
            });
        }
        sorted.sort_by(|a, b| (a.text.len(), &a.text).cmp(&(b.text.len(), &b.text)));
        let start = guesses.0.len();
        // At first, that each is followed by its neighbour, as in PostgreSQL's jsonb.
        guesses.0.extend((0..).take(sorted.len() + 1));
        Names {
            sorted,
            guesses: start,
        }
    }

    pub fn search(&self) -> Search<'_> {
        Search {
            names: self,
            last: 0,
        }
    }
}

/// The members of one object, looked up one after the other.
pub struct Search<'n> {
    names: &'n Names,
    /// One more than the place of the last name found.
    last: usize,
}

impl Search<'_> {
    pub fn find(&mut self, text: &str, guesses: &mut Guesses) -> Option<(usize, Spelling)> {
        let sorted = &self.names.sorted;
        let guess = &mut guesses.0[self.names.guesses + self.last];
        let mut place = *guess as usize;
        if sorted.get(place).is_none_or(|name| *name.text != *text) {
            let wanted = (text.len(), text);
            let order = |name: &Name| (name.text.len(), &*name.text).cmp(&wanted);
            place = sorted.binary_search_by(order).ok()?;
            *guess = u32::try_from(place).unwrap_or_default();
        }
        self.last = place + 1;
        let name = &sorted[place];
        Some((name.field, name.spelling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_order_and_others_are_not() {
        let mut guesses = Guesses::default();
        Names::new(vec![("other".into(), 9, Spelling::Own)], &mut guesses);
        let texts = ["seal", "a", "dock", "bb", "sealed"];
        let names = texts.iter().enumerate();
        let names = names.map(|(field, text)| ((*text).to_owned(), field, Spelling::Json));
        let names = Names::new(names.collect(), &mut guesses);
        for round in 0..20 {
            let mut search = names.search();
            for step in 0..texts.len() {
                let field = (step * 3 + round / 2) % texts.len();
                assert_eq!(search.find("sea", &mut guesses), None);
                let found = search.find(texts[field], &mut guesses);
                assert_eq!(found, Some((field, Spelling::Json)));
            }
        }
    }

    #[test]
    fn of_equal_names_the_later_counts() {
        let mut guesses = Guesses::default();
        let names = vec![
            ("a".to_owned(), 0, Spelling::Json),
            ("a".to_owned(), 1, Spelling::Own),
        ];
        let found = Names::new(names, &mut guesses)
            .search()
            .find("a", &mut guesses);
        assert_eq!(found, Some((1, Spelling::Own)));
    }
}
