//! A payload's JSON to Avro's binary form, by the plan.
//!
//! Rule: a value that does not fit fails; nothing is rounded, cut or guessed.

use super::plan::{Node, Plan, Record, Shape};
use super::put;
use crate::buffer;
use crate::document::{Kind, Spot, Text, Value};
use crate::names::Guesses;
use crate::notice::{self, Lacking, Notices};
use crate::unfit::{self, Shown, Unfit};

/// What a writer works with, reused from row to row.
#[derive(Debug, Default)]
pub struct Desk {
    /// For each field of the records under way, where its value is, if it has one.
    slots: Vec<Option<Spot>>,
    /// The objects with members that their records do not have. They are told when it is known which branches of unions
    /// are written.
    pub(super) lacking: Vec<(u32, Spot)>,
    pub(super) scratch: Vec<u8>,
    guesses: Guesses,
}

impl Desk {
    pub fn new(guesses: Guesses) -> Desk {
        Desk {
            guesses,
            ..Desk::default()
        }
    }

    fn clear(&mut self) {
        buffer::empty(&mut self.slots);
        buffer::empty(&mut self.lacking);
        buffer::empty(&mut self.scratch);
    }
}

/// Why a value does not fit. Without words where nobody would read them: a union tries branches, and most do not fit.
#[derive(Debug)]
pub struct Misfit(pub Option<Unfit>);

impl From<Unfit> for Misfit {
    fn from(unfit: Unfit) -> Misfit {
        Misfit(Some(unfit))
    }
}

impl Misfit {
    #[cold]
    fn in_field(self, name: &str) -> Misfit {
        Misfit(self.0.map(|unfit| unfit.in_field(name)))
    }

    #[cold]
    fn at_index(self, index: usize) -> Misfit {
        Misfit(self.0.map(|unfit| unfit.at_index(index)))
    }
}

pub type Fit = Result<(), Misfit>;

/// Writes one payload.
pub struct Writer<'w, 'd> {
    pub(super) plan: &'w Plan,
    /// The name that paths begin with.
    pub(super) root: &'w str,
    document: Value<'d>,
    pub(super) out: &'w mut Vec<u8>,
    pub(super) desk: &'w mut Desk,
    pub(super) notices: &'w mut Notices,
    /// Failures need no words.
    pub(super) quiet: bool,
    /// Values that may still be looked at; unions look at theirs again and again.
    pub(super) work_left: usize,
    /// Of the last object written: members that have a place in it, and fields without a member.
    pub(super) accounted: usize,
    pub(super) unfilled: usize,
}

/// Where a writer stands, to go back to.
pub(super) struct Stand {
    slots: usize,
    lacking: usize,
}

/// Appends the payload, which is an object, to `out`.
pub fn encode(
    (plan, root): (&Plan, &str),
    payload: Value<'_>,
    out: &mut Vec<u8>,
    desk: &mut Desk,
    notices: &mut Notices,
) -> Result<(), Unfit> {
    desk.clear();
    let mut writer = Writer {
        plan,
        root,
        document: payload,
        out,
        desk,
        notices,
        quiet: false,
        work_left: super::union::work_for(plan, payload),
        accounted: 0,
        unfilled: 0,
    };
    let written = writer.record(plan.root, payload);
    // Outside of unions every failure has words.
    written.map_err(|Misfit(unfit)| unfit.unwrap_or_else(|| Unfit::new("it does not fit")))?;
    writer.tell_lacking(0, Notices::dropped);
    Ok(())
}

impl<'d> Writer<'_, 'd> {
    pub(super) fn value(&mut self, node: Node, value: Value<'d>) -> Fit {
        match node.shape {
            Shape::Record(record) => match value.kind() {
                Kind::Object => self.record(record, value),
                _ => Err(self.mismatch(node, "needs an object", value)),
            },
            Shape::Array(items) => self.array(node, self.plan.at(items), value),
            Shape::Map(values) => self.map(node, self.plan.at(values), value),
            Shape::Optional {
                null,
                index,
                branch,
            } => {
                if let (true, Some(null)) = (value.is_null(), null) {
                    put::long(self.out, i64::from(null));
                    return Ok(());
                }
                put::long(self.out, i64::from(index));
                self.value(self.plan.at(branch), value)
            }
            Shape::Union(union) => self.union(union, value),
            _ => self.leaf(node, value),
        }
    }

    fn record(&mut self, id: u32, object: Value<'d>) -> Fit {
        let plan = self.plan;
        let record = &plan.records[id as usize];
        let base = self.desk.slots.len();
        self.look_at(object.len())?;
        let (filled, is_known) = self.find_members(record, object);
        for (field, slot) in record.fields.iter().zip(base..) {
            let Some(spot) = self.desk.slots[slot] else {
                match &field.default {
                    Some(default) => self.out.extend_from_slice(default),
                    None => return Err(self.missing(record, &field.name, field.node, object)),
                }
                continue;
            };
            let value = self.document.at(spot);
            let fit = if field.node.shape.is_leaf() {
                self.leaf(field.node, value)
            } else {
                self.value(field.node, value)
            };
            if let Err(misfit) = fit {
                return Err(misfit.in_field(&field.name));
            }
        }
        self.desk.slots.truncate(base);
        if !is_known {
            self.lacks(id, object)?;
        }
        self.accounted = filled;
        self.unfilled = record.fields.len() - filled;
        Ok(())
    }

    /// Notes where each field's value is; of equal names the last counts. How many fields have one, and whether every
    /// member is a field.
    fn find_members(&mut self, record: &Record, object: Value<'d>) -> (usize, bool) {
        let Desk { slots, guesses, .. } = &mut *self.desk;
        let base = slots.len();
        slots.resize(base + record.fields.len(), None);
        let slots = &mut slots[base..];
        let (mut filled, mut is_known) = (0, true);
        let mut search = record.names.search();
        for (name, value) in object.members() {
            match search.find(name, guesses) {
                Some(field) => {
                    let slot = &mut slots[field as usize];
                    filled += usize::from(slot.is_none());
                    *slot = Some(value.spot());
                }
                None => is_known = false,
            }
        }
        (filled, is_known)
    }

    #[cold]
    fn missing(&self, record: &Record, name: &str, node: Node, object: Value<'d>) -> Misfit {
        self.unfit(|| {
            let declared = node.declared;
            let meant = unfit::probably_meant(name, unknown_members(record, object));
            Unfit::new(format!(
                "Missing field: the schema declares {declared} without a default{meant}"
            ))
            .in_field(name)
        })
    }

    /// After its fields, so that a branch that does not fit is not told about.
    #[cold]
    fn lacks(&mut self, id: u32, object: Value<'d>) -> Fit {
        let record = &self.plan.records[id as usize];
        if self.notices.refuses()
            && let Some(name) = unknown_members(record, object).next()
        {
            return Err(self.unfit(|| notice::refusal(&record.name, name)));
        }
        self.desk.lacking.push((id, object.spot()));
        Ok(())
    }

    /// Tells about the members without a field that were met from there on, and forgets them.
    pub(super) fn tell_lacking(
        &mut self,
        from: usize,
        tell: impl Fn(&mut Notices, Lacking<'_>, Text<'_>),
    ) {
        for (id, spot) in self.desk.lacking.drain(from..) {
            let record = &self.plan.records[id as usize];
            let of = Lacking {
                place: record.place,
                name: &record.name,
                root: self.root,
                object: self.document.at(spot),
            };
            for name in unknown_members(record, of.object) {
                tell(self.notices, of, name);
            }
        }
    }

    fn array(&mut self, node: Node, items: Node, array: Value<'d>) -> Fit {
        if array.kind() != Kind::Array {
            return Err(self.mismatch(node, "needs an array", array));
        }
        self.look_at(array.len())?;
        put::count(self.out, array.len());
        for (index, element) in array.elements().enumerate() {
            let fit = if items.shape.is_leaf() {
                self.leaf(items, element)
            } else {
                self.value(items, element)
            };
            if let Err(misfit) = fit {
                return Err(misfit.at_index(index));
            }
        }
        put::end(self.out);
        Ok(())
    }

    fn map(&mut self, node: Node, values: Node, object: Value<'d>) -> Fit {
        if object.kind() != Kind::Object {
            return Err(self.mismatch(node, "needs an object", object));
        }
        self.look_at(object.len())?;
        let entries = object.entries();
        let count = entries.count_left();
        put::count(self.out, count);
        for (name, value) in entries {
            put::length(self.out, name.len());
            let fit = match name.append_to(self.out) {
                Err(_) => Err(self.lone_surrogate("a map's key")),
                Ok(()) if values.shape.is_leaf() => self.leaf(values, value),
                Ok(()) => self.value(values, value),
            };
            if let Err(misfit) = fit {
                return Err(misfit.in_field(&name.lossy()));
            }
        }
        put::end(self.out);
        self.accounted = count;
        self.unfilled = 0;
        Ok(())
    }
}

/// Failures, and the way back.
impl Writer<'_, '_> {
    #[cold]
    pub(super) fn unfit(&self, told: impl FnOnce() -> Unfit) -> Misfit {
        Misfit((!self.quiet).then(told))
    }

    #[cold]
    pub(super) fn mismatch(&self, node: Node, needs: &str, value: Value<'_>) -> Misfit {
        self.unfit(|| {
            if let Shape::Null = node.shape {
                return Unfit::new(format!(
                    "a field of the bare type NULL takes no value, not even null, for it has no null branch: remove it, or make it a union [\"null\", ...]; got {} ({})",
                    value.kind(),
                    Shown(value)
                ));
            }
            if value.is_null() {
                let declared = node.declared;
                return Unfit::new(format!(
                    "it is null, and {declared} {needs}: there is no null branch (an optional field is [\"null\", ...])"
                ));
            }
            Unfit::mismatch(node.declared, needs, value)
        })
    }

    #[cold]
    pub(super) fn lone_surrogate(&self, what: &str) -> Misfit {
        self.unfit(|| {
            Unfit::new(format!(
                "{what} holds half of a surrogate pair, which is no text"
            ))
        })
    }

    pub(super) fn stand(&self) -> Stand {
        Stand {
            slots: self.desk.slots.len(),
            lacking: self.desk.lacking.len(),
        }
    }

    /// Forgets what was begun since.
    pub(super) fn go_back(&mut self, stand: &Stand) {
        self.desk.slots.truncate(stand.slots);
        self.desk.lacking.truncate(stand.lacking);
    }
}

fn unknown_members<'d>(record: &Record, object: Value<'d>) -> impl Iterator<Item = Text<'d>> {
    let names = object.members().map(|(name, _)| name);
    names.filter(|name| record.names.get(*name).is_none())
}
