//! What an encoder noticed about payloads that it could nevertheless encode: each thing is told once, and counted always.

use std::collections::{HashMap, HashSet};

use crate::unfit::{Unfit, cut};

/// What happens to members that the schema does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownMembers {
    /// They are dropped; each is told once.
    Warn,
    Fail,
}

/// Member names told for one place; a payload that uses an object as a map would go on for ever.
const NAMES: usize = 100;
/// How much of a name is told and kept.
const SHOWN: usize = 80;

#[derive(Debug)]
pub struct Notices {
    policy: UnknownMembers,
    /// For each place in a plan, the names that were told.
    told: HashMap<Place, HashSet<Box<str>>>,
    untold: Vec<String>,
    unknown_members: u64,
}

/// A record, message or union of a plan. Unique among all plans of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(pub u32);

impl Notices {
    pub fn new(policy: UnknownMembers) -> Notices {
        Notices {
            policy,
            told: HashMap::new(),
            untold: Vec::new(),
            unknown_members: 0,
        }
    }

    /// A member that the schema does not have: dropped, or not accepted. `record` names the schema's type, `path` where it is.
    pub fn unknown_member(
        &mut self,
        place: Place,
        name: &str,
        (path, record): (&str, &str),
    ) -> Result<(), Unfit> {
        if self.policy == UnknownMembers::Fail {
            return Err(Unfit::new(format!(
                "{record} has no field {name}, and encode.unknown_members is \"fail\": add it to the schema"
            )));
        }
        self.unknown_members += 1;
        // A hostile name of megabytes is not kept.
        let name = cut(name, SHOWN);
        let told = self.told.entry(place).or_default();
        if told.len() > NAMES || told.contains(name) {
            return Ok(());
        }
        told.insert(name.into());
        self.untold.push(if told.len() > NAMES {
            format!(
                "{path}: more than {NAMES} members that {record} does not have; they are dropped, and told no longer"
            )
        } else {
            format!("{path}: member {name} is dropped: {record} has no such field")
        });
        Ok(())
    }

    /// Whether [`Notices::tie`] has told about this union, so that nobody needs to find out the path again.
    pub fn has_tie(&self, place: Place) -> bool {
        self.told.get(&place).is_some_and(|told| told.contains(""))
    }

    /// A value fits more than one branch of a union equally well.
    pub fn tie(&mut self, place: Place, path: &str, taken: &str) {
        if self.told.entry(place).or_default().insert("".into()) {
            self.untold.push(format!(
                "{path}: a value fits more than one branch of the union equally well; the first is taken: {taken}"
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

#[cfg(test)]
mod tests {
    use super::*;

    fn drop_member(notices: &mut Notices, name: &str) {
        notices
            .unknown_member(Place(1), name, ("port.avro.Sealed", "Sealed"))
            .expect("only warned about");
    }

    #[test]
    fn a_member_is_told_once_and_counted_always() {
        let mut notices = Notices::new(UnknownMembers::Warn);
        for _ in 0..3 {
            drop_member(&mut notices, "colour");
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
            drop_member(&mut notices, &format!("m{number}"));
        }
        assert_eq!(notices.take().len(), NAMES + 1);
        assert_eq!(notices.unknown_members(), 10_000);
    }

    #[test]
    fn with_fail_a_member_without_field_is_no_notice_but_a_failure() {
        let mut notices = Notices::new(UnknownMembers::Fail);
        let unfit = notices
            .unknown_member(Place(1), "colour", ("port.avro.Sealed", "Sealed"))
            .expect_err("not accepted");
        assert!(unfit.to_string().contains("colour"));
    }
}
