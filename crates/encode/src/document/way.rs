//! The way from a document's first value to one inside it, found when it is told: nobody keeps it while a row is written.

use super::{Kind, Text, Value};

/// One step of the way.
#[derive(Debug, Clone, Copy)]
pub enum Step<'d> {
    Member(Text<'d>),
    Element(usize),
}

impl<'d> Value<'d> {
    /// The steps that lead to it. Each looks at all values beside the next one.
    pub fn way(self) -> impl Iterator<Item = Step<'d>> {
        let mut here = Value { at: 0, ..self };
        std::iter::from_fn(move || {
            let (step, next) = here.towards(self)?;
            here = next;
            Some(step)
        })
    }

    /// The child that the other value is, or is in.
    fn towards(self, other: Value<'d>) -> Option<(Step<'d>, Value<'d>)> {
        let leads = |child: &Value<'d>| other.at < child.node().next;
        if other.at <= self.at {
            return None;
        }
        if self.kind() == Kind::Object {
            let mut members = self.members();
            let (name, value) = members.find(|(_, value)| leads(value))?;
            return Some((Step::Member(name), value));
        }
        let (index, element) = self.elements().enumerate().find(|(_, e)| leads(e))?;
        Some((Step::Element(index), element))
    }
}
