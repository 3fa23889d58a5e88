//! What was written, by key, wherever it was written; hands it out typed, and collects what is wrong with it.
//!
//! Rule: an error shows a value as it was written, so what `${NAME}` stands for is never seen.

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

pub(super) struct Written {
    file: Arc<Path>,
    environment: BTreeMap<String, String>,
    /// The line of each section that the file has.
    sections: BTreeMap<String, usize>,
    entries: BTreeMap<String, Entry>,
    problems: Vec<Problem>,
}

struct Entry {
    place: Place,
    text: String,
}

impl Written {
    pub(super) fn new(file: &Path, environment: BTreeMap<String, String>) -> Self {
        Self {
            file: Arc::from(file),
            environment,
            sections: BTreeMap::new(),
            entries: BTreeMap::new(),
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

    /// A later value of the same key replaces the earlier one.
    pub(super) fn put(&mut self, path: &str, place: Place, text: String) {
        self.entries.insert(path.to_owned(), Entry { place, text });
    }

    pub(super) fn refuse(&mut self, place: &Place, key: &str, what: impl Display) {
        self.problems.push(Problem::new(place, key, what));
    }

    pub(super) fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Where a key, or a member of a map, was written.
    pub(super) fn given(&self, path: &str) -> Option<Place> {
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
        Some(Located::new(path, Place::Default, default?))
    }

    pub(super) fn path(&mut self, path: &'static str) -> Option<PathBuf> {
        let text = self.text(path)?;
        Some(self.folder().join(text.value()))
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
                let name = key.strip_prefix(&beginning)?.to_owned();
                Some((name, self.expand(&key, entry)?))
            })
            .collect()
    }

    /// Whether nothing is wrong; else everything that is.
    pub(super) fn finish(mut self) -> Result<(), ConfigError> {
        // Nothing is ignored silently: what nobody asked for means nothing here. Looked at only now, because after
        // another problem much is not asked for.
        if self.problems.is_empty() {
            let what = "says nothing beside the other settings; remove it";
            let unread = self.entries.iter();
            self.problems = unread
                .map(|(key, entry)| Problem::new(&entry.place, key, what))
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
