//! What was written, by key, wherever it was written; hands it out typed, and collects what is wrong with it.
//!
//! Rule: an error shows a value as it was written, so what `${NAME}` stands for is never seen.

mod tables;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::environment;
use super::problem::{ConfigError, Located, Place, Problem};
use super::quantity;
use super::reference::{self, Fallback, Key, Kind};
use super::show;
use tables::Table;

pub(super) use tables::{Column, Columns, Condition};

pub(super) struct Written {
    file: Arc<Path>,
    environment: BTreeMap<String, String>,
    /// The line of each section that the file has.
    sections: BTreeMap<String, usize>,
    entries: BTreeMap<String, Entry>,
    lists: BTreeMap<String, List>,
    conditions: BTreeMap<String, (Place, Vec<Condition>)>,
    tables: Vec<Table>,
    /// What was asked for, as it was written or by default, in TOML and without secrets.
    told: BTreeMap<String, String>,
    problems: Vec<Problem>,
}

struct Entry {
    place: Place,
    text: String,
}

struct List {
    place: Place,
    items: Vec<Entry>,
}

/// An item of a list.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// As it was written, in quotes, for people.
    pub shown: String,
    pub text: String,
}

impl Written {
    pub(super) fn new(file: &Path, environment: BTreeMap<String, String>) -> Self {
        Self {
            file: Arc::from(file),
            environment,
            sections: BTreeMap::new(),
            entries: BTreeMap::new(),
            lists: BTreeMap::new(),
            conditions: BTreeMap::new(),
            tables: Vec::new(),
            told: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn file(&self) -> Arc<Path> {
        Arc::clone(&self.file)
    }

    /// The folder that relative paths begin at; empty for the working folder.
    pub(super) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }

    pub(super) fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    pub(super) fn line(&self, line: usize) -> Place {
        Place::File {
            file: self.file(),
            line,
        }
    }

    pub(super) fn section(&mut self, path: &str, line: usize) {
        self.sections.insert(path.to_owned(), line);
    }

    /// Where a section begins in the file, be it empty.
    pub(super) fn section_begins(&self, path: &str) -> Option<Place> {
        self.sections.get(path).map(|line| self.line(*line))
    }

    /// A later value of the same key replaces the earlier one.
    pub(super) fn put(&mut self, path: &str, place: Place, text: String) {
        self.entries.insert(path.to_owned(), Entry { place, text });
    }

    /// The same for a list, with the place of each item.
    pub(super) fn put_list(&mut self, path: &str, place: Place, items: Vec<(Place, String)>) {
        let items = items.into_iter();
        let items = items.map(|(place, text)| Entry { place, text }).collect();
        self.lists.insert(path.to_owned(), List { place, items });
    }

    pub(super) fn refuse(&mut self, place: &Place, key: &str, what: impl Display) {
        self.problems.push(Problem::new(place, key, what));
    }

    pub(super) fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Where a key, or a member of a map, was written.
    pub(super) fn given(&self, path: &str) -> Option<Place> {
        if let Some(list) = self.lists.get(path) {
            return Some(list.place.clone());
        }
        if let Some((place, _)) = self.conditions.get(path) {
            return Some(place.clone());
        }
        if let Some(table) = self.tables.iter().find(|it| it.section == path) {
            return Some(table.place.clone());
        }
        let member = format!("{path}.");
        self.entries
            .iter()
            .find(|(key, _)| *key == path || key.starts_with(&member))
            .map(|(_, entry)| entry.place.clone())
    }

    /// Refuses keys that say nothing, or the opposite, beside another one.
    pub(super) fn contradict(&mut self, paths: &[&str], what: &str) {
        for path in paths {
            if let Some(place) = self.given(path) {
                self.refuse(&place, path, what);
            }
        }
    }

    /// Tells that a key is needed, at its section if the file has it.
    pub(super) fn missing(&mut self, path: &str, wanted: impl Display) {
        // What was written and is wrong is not missing.
        if self.problems.iter().any(|it| it.is_about(path)) {
            return;
        }
        let section = path.rsplit_once('.').map_or("", |(section, _)| section);
        let line = self.sections.get(section).copied().unwrap_or(1);
        self.refuse(&self.line(line), path, format!("is missing; {wanted}"));
    }

    /// A problem unless the rule holds.
    pub(super) fn rule<T>(&mut self, found: &Located<T>, holds: bool, what: &str) -> bool {
        if !holds {
            self.refuse(found.place(), found.key(), what);
        }
        holds
    }

    pub(super) fn text(&mut self, path: &'static str) -> Option<Located<String>> {
        let found = self.text_or_empty(path)?;
        let holds = !found.value().is_empty();
        self.rule(&found, holds, "is empty; a text is wanted")
            .then_some(found)
    }

    pub(super) fn text_or_empty(&mut self, path: &'static str) -> Option<Located<String>> {
        let entry = self.take(path)?;
        self.expand(path, entry)
    }

    /// For a default that depends on other keys; absent if those are wrong.
    pub(super) fn text_or(
        &mut self,
        path: &'static str,
        default: Option<String>,
    ) -> Option<Located<String>> {
        if self.given(path).is_some() {
            return self.text(path);
        }
        let default = default?;
        self.told
            .insert(path.to_owned(), show::value(path, &default));
        Some(Located::new(path, Place::Default, default))
    }

    pub(super) fn path(&mut self, path: &'static str) -> Option<PathBuf> {
        self.located_path(path).map(Located::into_value)
    }

    pub(super) fn located_path(&mut self, path: &'static str) -> Option<Located<PathBuf>> {
        let text = self.text(path)?;
        let joined = self.folder().join(text.value());
        Some(Located::new(path, text.place().clone(), joined))
    }

    pub(super) fn flag(&mut self, path: &'static str) -> Option<bool> {
        self.parse(path, |text| text.parse().ok())
            .map(Located::into_value)
    }

    pub(super) fn duration(&mut self, path: &'static str) -> Option<Located<Duration>> {
        self.parse(path, quantity::duration)
    }

    pub(super) fn size(&mut self, path: &'static str) -> Option<Located<u64>> {
        self.parse(path, quantity::size)
    }

    pub(super) fn integer(
        &mut self,
        path: &'static str,
        range: RangeInclusive<u32>,
    ) -> Option<u32> {
        let found = self.parse(path, |text| text.parse::<i64>().ok())?;
        let number = u32::try_from(*found.value())
            .ok()
            .filter(|number| range.contains(number));
        let what = format!(
            "is out of range; {} to {} is wanted",
            range.start(),
            range.end()
        );
        self.rule(&found, number.is_some(), &what);
        number
    }

    /// The meaning of a key's word. `meanings` names the words that the reference calls built.
    pub(super) fn word<T: Copy>(
        &mut self,
        path: &'static str,
        meanings: &[(&str, T)],
    ) -> Option<T> {
        debug_assert!(
            is_built(path, meanings.iter().map(|(word, _)| *word)),
            "{path} has other words in the reference"
        );
        let entry = self.take(path)?;
        let shown = format!("{:?}", entry.text);
        let found = self.expand(path, entry)?;
        if let Some((_, meaning)) = meanings.iter().find(|(word, _)| found.value() == word) {
            return Some(*meaning);
        }
        if let Some(key) = reference::find(path) {
            self.refuse(found.place(), path, wrong_word(key, found.value(), &shown));
        }
        None
    }

    /// The members of a map, with their own names.
    pub(super) fn members(&mut self, path: &'static str) -> Vec<(String, Located<String>)> {
        let beginning = format!("{path}.");
        let keys: Vec<String> = self
            .entries
            .keys()
            .filter(|key| key.starts_with(&beginning))
            .cloned()
            .collect();
        keys.into_iter()
            .filter_map(|key| {
                let entry = self.entries.remove(&key)?;
                self.told
                    .insert(key.clone(), show::value(path, &entry.text));
                let name = key.strip_prefix(&beginning)?.to_owned();
                Some((name, self.expand(&key, entry)?))
            })
            .collect()
    }

    /// The items of a list that was given, maybe none of them; absent if one is wrong.
    pub(super) fn list(&mut self, path: &'static str) -> Option<Located<Vec<Located<Item>>>> {
        debug_assert!(
            reference::find(path).is_some_and(|key| key.kind == Kind::List),
            "{path} is no list in the reference"
        );
        let list = self.lists.remove(path)?;
        let texts = list.items.iter().map(|item| show::value(path, &item.text));
        let texts: Vec<String> = texts.collect();
        self.told
            .insert(path.to_owned(), format!("[{}]", texts.join(", ")));
        let count = list.items.len();
        let items = list.items.into_iter();
        let items = items.filter_map(|entry| self.item(path, entry));
        let items: Vec<Located<Item>> = items.collect();
        (items.len() == count).then(|| Located::new(path, list.place, items))
    }

    fn item(&mut self, path: &'static str, entry: Entry) -> Option<Located<Item>> {
        let shown = format!("{:?}", entry.text);
        let found = self.expand(path, entry)?;
        let holds = !found.value().is_empty();
        let holds = self.rule(&found, holds, "has an empty item; a text is wanted");
        let place = found.place().clone();
        let text = found.into_value();
        holds.then(|| Located::new(path, place, Item { shown, text }))
    }

    /// What was asked for so far, by key, as TOML.
    pub(super) fn told(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.told)
    }

    /// Whether nothing is wrong; else everything that is.
    pub(super) fn finish(mut self) -> Result<(), ConfigError> {
        // Nothing is ignored silently: what nobody asked for means nothing here. Looked at only now, because after
        // another problem much is not asked for.
        if self.problems.is_empty() {
            let what = "says nothing beside the other settings; remove it";
            let entries = self.entries.iter();
            let entries = entries.map(|(key, entry)| (key, &entry.place));
            let lists = self.lists.iter().map(|(key, list)| (key, &list.place));
            let conditions = self.conditions.iter().map(|(key, (place, _))| (key, place));
            self.problems = entries
                .chain(lists)
                .chain(conditions)
                .map(|(key, place)| Problem::new(place, key, what))
                .collect();
        }
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::new(self.problems))
        }
    }

    fn take(&mut self, path: &'static str) -> Option<Entry> {
        let key = reference::find(path);
        debug_assert!(key.is_some(), "{path} is not in the reference");
        let found = self.entries.remove(path);
        let known = found.as_ref().map(|entry| entry.text.as_str());
        let known = known.or(match key?.fallback {
            Fallback::Value(text) => Some(text),
            _ => None,
        });
        if let Some(text) = known {
            self.told.insert(path.to_owned(), show::value(path, text));
        }
        match (found, key?.fallback) {
            (Some(entry), _) => Some(entry),
            (None, Fallback::Value(text)) => Some(Entry {
                place: Place::Default,
                text: text.to_owned(),
            }),
            (None, Fallback::Required) => {
                self.missing(path, key?.kind.wanted());
                None
            }
            (None, Fallback::Said(_)) => None,
        }
    }

    fn expand(&mut self, path: &str, entry: Entry) -> Option<Located<String>> {
        // What the environment gave is meant as it is: a password may well contain `${`.
        if !matches!(entry.place, Place::File { .. }) {
            return Some(Located::new(path, entry.place, entry.text));
        }
        match environment::expand(&entry.text, &self.environment) {
            Ok(text) => Some(Located::new(path, entry.place, text)),
            Err(what) => {
                self.refuse(&entry.place, path, what);
                None
            }
        }
    }

    fn parse<T>(
        &mut self,
        path: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<Located<T>> {
        let entry = self.take(path)?;
        let shown = format!("{:?}", entry.text);
        let found = self.expand(path, entry)?;
        let parsed = parse(found.value());
        if parsed.is_none() {
            let kind = reference::find(path).map_or(Kind::Text, |key| key.kind);
            let what = format!("cannot be {shown}; {}", kind.wanted());
            self.refuse(found.place(), path, what);
        }
        Some(Located::new(path, found.place().clone(), parsed?))
    }
}

fn is_built<'a>(path: &str, words: impl Iterator<Item = &'a str>) -> bool {
    match reference::find(path).map(|key| key.kind) {
        Some(Kind::Word { built, .. }) => built.iter().copied().eq(words),
        _ => false,
    }
}

fn wrong_word(key: &Key, word: &str, shown: &str) -> String {
    match key.kind {
        Kind::Word { built, later } if later.contains(&word) => format!(
            "{shown} is known but not built yet; built so far: {}",
            built.join(", ")
        ),
        kind => format!("cannot be {shown}; {}", kind.wanted()),
    }
}
