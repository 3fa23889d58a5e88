//! What an encoder noticed about payloads that it could nevertheless encode: each thing is told once, and counted always.

use std::collections::{HashMap, HashSet};

use crate::document::{Text, Value};
use crate::unfit::{self, Unfit, cut};

/// What happens to members that the schema does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownMembers {
    /// They are dropped; each is told once.
    Warn,
    Fail,
}

/// Member names told for one place; a payload that uses an object as a map would go on for ever.
const NAMES: usize = 100;

#[derive(Debug)]
pub struct Notices {
    policy: UnknownMembers,
    dropped: Told,
    tried: Told,
    ties: HashSet<Place>,
    untold: Vec<String>,
    unknown_members: u64,
}

/// A record, message or union of a plan. Unique among all plans of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(pub u32);

/// For each place in a plan, the names that were told.
type Told = HashMap<Place, HashSet<Box<str>>>;

/// A record or message that has no field for some members of an object.
#[derive(Debug, Clone, Copy)]
pub struct Lacking<'a> {
    pub place: Place,
    /// Its name in the schema.
    pub name: &'a str,
    /// The name that paths begin with.
    pub root: &'a str,
    pub object: Value<'a>,
}

impl Notices {
    pub fn new(policy: UnknownMembers) -> Notices {
        Notices {
            policy,
            dropped: Told::new(),
            tried: Told::new(),
            ties: HashSet::new(),
            untold: Vec::new(),
            unknown_members: 0,
        }
    }

    /// Whether members without a field make a row fail, by [`refusal`].
    pub fn refuses(&self) -> bool {
        self.policy == UnknownMembers::Fail
    }

    /// A member is dropped.
    pub fn dropped(&mut self, of: Lacking<'_>, member: Text<'_>) {
        self.unknown_members += 1;
        let told = self.dropped.entry(of.place).or_default();
        self.untold.extend(told_once(told, of, member, |name| {
            format!("member {name} is dropped: {} has no such field", of.name)
        }));
    }

    /// A branch of a union would have dropped a member, and another branch was taken.
    pub fn tried(&mut self, of: Lacking<'_>, member: Text<'_>) {
        let told = self.tried.entry(of.place).or_default();
        self.untold.extend(told_once(told, of, member, |name| {
            format!("{} has no field {name}; it was only tried, in a branch of a union, and nothing is dropped", of.name)
        }));
    }

    /// A value fits more than one branch of a union equally well.
    pub fn tie(&mut self, place: Place, taken: &str, path: impl FnOnce() -> String) {
        if self.ties.insert(place) {
            self.untold.push(format!(
                "{}: a value fits more than one branch of the union equally well; the first is taken: {taken}",
                path()
            ));
        }
    }

    /// What has not been told yet.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.untold)
    }

    /// How many members have been dropped.
    pub fn unknown_members(&self) -> u64 {
        self.unknown_members
    }
}

/// Why a member without a field does not fit.
pub fn refusal(record: &str, member: Text<'_>) -> Unfit {
    Unfit::new(format!(
        "{record} has no field {}, and encode.unknown_members is \"fail\": add it to the schema",
        cut(&member.lossy(), unfit::NAME)
    ))
}

/// The sentence, if it is new. A name is cut first: a hostile one of megabytes is not kept.
fn told_once(
    told: &mut HashSet<Box<str>>,
    of: Lacking<'_>,
    member: Text<'_>,
    sentence: impl FnOnce(&str) -> String,
) -> Option<String> {
    let name = member.lossy();
    let name = cut(&name, unfit::NAME);
    if told.len() > NAMES || told.contains(name) {
        return None;
    }
    told.insert(name.into());
    let what = if told.len() > NAMES {
        format!(
            "more than {NAMES} members that {} does not have; further ones are not told",
            of.name
        )
    } else {
        sentence(name)
    };
    Some(format!("{}: {what}", unfit::path(of.root, of.object)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Document, Limits};

    /// All members of the object have no field.
    fn drop_members(notices: &mut Notices, json: &str) {
        let mut document = Document::new();
        let object = document.read(json, &Limits::REFERENCE).expect("is JSON");
        let object = object.expect("an object");
        let of = Lacking {
            place: Place(1),
            name: "Sealed",
            root: "port.avro.Sealed",
            object,
        };
        for (name, _) in object.members() {
            notices.dropped(of, name);
        }
    }

    #[test]
    fn a_member_is_told_once_and_counted_always() {
        let mut notices = Notices::new(UnknownMembers::Warn);
        for _ in 0..3 {
            drop_members(&mut notices, r#"{"colour":1}"#);
        }
        let told = notices.take();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("colour") && told[0].contains("port.avro.Sealed"));
        assert_eq!(notices.unknown_members(), 3);
        assert!(notices.take().is_empty());
    }

    #[test]
    fn names_without_end_are_told_only_so_often() {
        let mut notices = Notices::new(UnknownMembers::Warn);
        for number in 0..10_000 {
            drop_members(&mut notices, &format!("{{\"m{number}\":1}}"));
        }
        assert_eq!(notices.take().len(), NAMES + 1);
        assert_eq!(notices.unknown_members(), 10_000);
    }

    #[test]
    fn a_name_as_long_as_a_payload_is_cut_wherever_it_is_told() {
        let json = format!("{{\"{}\":1}}", "é".repeat(40_000));
        let mut document = Document::new();
        let object = document.read(&json, &Limits::REFERENCE).expect("is JSON");
        let object = object.expect("an object");
        let (name, _) = object.members().next().expect("a member");
        assert!(refusal("Sealed", name).to_string().len() < 1_000);
        let mut notices = Notices::new(UnknownMembers::Warn);
        drop_members(&mut notices, &json);
        assert!(notices.take().concat().len() < 1_000);
    }
}
