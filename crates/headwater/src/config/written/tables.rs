//! What can be written several times, each `[[route]]` and each pattern of `[sink.topics]`; and conditions on columns.

use super::{Entry, Item, Written};
use crate::config::problem::{Located, Place};
use crate::config::reference::{self, Kind};

/// One table of several: its keys have the paths that they would have if it were alone.
pub(super) struct Table {
    pub section: &'static str,
    pub name: String,
    pub place: Place,
    pub written: Written,
}

/// Columns, and the texts that may stand there, as written.
pub(in crate::config) struct Condition {
    pub place: Place,
    pub columns: Vec<Column>,
}

/// A column, and the patterns of which its text must fit one.
pub(in crate::config) type Column = (String, Place, Vec<(Place, String)>);

/// The same with `${NAME}` replaced: each column with its patterns.
pub(in crate::config) type Columns = Vec<(Located<String>, Vec<Located<Item>>)>;

impl Written {
    /// For one table of several: empty, of the same file and environment.
    pub(in crate::config) fn part(&self) -> Written {
        Written::new(&self.file(), self.environment.clone())
    }

    pub(in crate::config) fn add_table(
        &mut self,
        section: &'static str,
        (name, place): (&str, Place),
        written: Written,
    ) {
        self.tables.push(Table {
            section,
            name: name.to_owned(),
            place,
            written,
        });
    }

    /// All tables of a section, by name; to be given back by `absorb`.
    pub(in crate::config) fn tables(&mut self, section: &str) -> Vec<(String, Place, Written)> {
        let of_section = |table: &mut Table| table.section == section;
        let found = self.tables.extract_if(.., of_section);
        found.map(|it| (it.name, it.place, it.written)).collect()
    }

    /// Takes over what is wrong with a table, and what nobody asked of it.
    pub(in crate::config) fn absorb(&mut self, table: Written) {
        self.problems.extend(table.problems);
        self.entries.extend(table.entries);
        self.lists.extend(table.lists);
        self.conditions.extend(table.conditions);
    }

    /// The one table that the environment can mean: it names no other. A problem if there are several.
    pub(in crate::config) fn only_table(
        &mut self,
        section: &'static str,
        place: &Place,
    ) -> Option<&mut Written> {
        let count = self
            .tables
            .iter()
            .filter(|it| it.section == section)
            .count();
        if count > 1 {
            let what = format!(
                "the file has {count} of [[{section}]], and a variable cannot say which one it means; write it into the file"
            );
            self.refuse(place, section, what);
            return None;
        }
        if count == 0 {
            let part = self.part();
            self.add_table(section, ("", place.clone()), part);
        }
        let mut tables = self.tables.iter_mut();
        let found = tables.find(|it| it.section == section)?;
        Some(&mut found.written)
    }

    pub(in crate::config) fn put_conditions(
        &mut self,
        path: &str,
        place: Place,
        conditions: Vec<Condition>,
    ) {
        self.conditions.insert(path.to_owned(), (place, conditions));
    }

    /// Each condition that was given, with its place; none of them has no columns.
    pub(in crate::config) fn conditions(&mut self, path: &'static str) -> Vec<(Place, Columns)> {
        debug_assert!(
            reference::find(path)
                .is_some_and(|key| matches!(key.kind, Kind::Condition | Kind::Conditions)),
            "{path} is no condition in the reference"
        );
        let Some((_, conditions)) = self.conditions.remove(path) else {
            return Vec::new();
        };
        let conditions = conditions.into_iter();
        conditions
            .map(|it| {
                let columns = it.columns.into_iter();
                let columns =
                    columns.map(|(name, place, items)| self.column(path, name, &place, items));
                let columns = columns.collect();
                (it.place, columns)
            })
            .collect()
    }

    fn column(
        &mut self,
        path: &'static str,
        name: String,
        place: &Place,
        items: Vec<(Place, String)>,
    ) -> (Located<String>, Vec<Located<Item>>) {
        let key = format!("{path}.{name}");
        if items.is_empty() {
            self.refuse(
                place,
                &key,
                "is empty, so nothing could match; texts are wanted, or * at the end of one",
            );
        }
        let items = items.into_iter();
        let items = items.filter_map(|(place, text)| {
            let shown = format!("{text:?}");
            let found = self.expand(path, Entry { place, text })?;
            let within = found.value().strip_suffix('*').unwrap_or(found.value());
            let what = "has a * before its end, where it would be a plain letter; only texts that begin alike can be asked for";
            self.rule(&found, !within.contains('*'), what);
            let place = found.place().clone();
            let text = found.into_value();
            Some(Located::new(path, place, Item { shown, text }))
        });
        let items = items.collect();
        (Located::new(key, place.clone(), name), items)
    }
}
