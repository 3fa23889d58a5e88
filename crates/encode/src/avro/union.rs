//! Unions of several branches: each is tried, and of those that fit the one that explains the value best is written.

use super::plan::{Node, Plan, Shape, Union};
use super::put;
use super::value::{Fit, Misfit, Writer};
use crate::document::Value;
use crate::notice::Notices;
use crate::unfit::{self, Unfit, cut};

/// Every payload may cost this much.
const WORK: usize = 1_000_000;
/// Branches that a failure tells about, and how much of each.
const BRANCHES: usize = 12;
const CHARACTERS: usize = 400;

/// How many values may be looked at: unions in unions try their branches again for each branch around them, without end in
/// sight when the types refer to each other.
pub fn work_for(plan: &Plan, payload: Value<'_>) -> usize {
    let values = payload.raw().len();
    WORK.saturating_add(values.saturating_mul(4 * (1 + plan.widest)))
}

/// How well a branch explains a value: members with a place in it, then fields without a member, the fewer the better.
type Rank = (usize, std::cmp::Reverse<usize>);

impl<'d> Writer<'_, 'd> {
    /// Fails when all the work is done that one payload may cost.
    #[inline]
    pub(super) fn look_at(&mut self, values: usize) -> Fit {
        match self.work_left.checked_sub(values + 1) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err(self.exhausted()),
        }
    }

    #[cold]
    fn exhausted(&mut self) -> Misfit {
        self.work_left = 0;
        Misfit(Some(Unfit::new(
            "unions inside unions would have to be tried too often; make their branches distinguishable",
        )))
    }

    pub(super) fn union(&mut self, id: u32, value: Value<'d>) -> Fit {
        let plan = self.plan;
        let union = &plan.unions[id as usize];
        if value.is_null() {
            return self.null(union);
        }
        let was_quiet = std::mem::replace(&mut self.quiet, true);
        let best = self.best(union, value);
        self.quiet = was_quiet;
        match best? {
            Some((branch, is_tied)) => {
                if is_tied {
                    let path = || unfit::path(self.root, value);
                    self.notices.tie(union.place, branch.declared, path);
                }
                Ok(())
            }
            None if was_quiet => Err(Misfit(None)),
            None => Err(self.no_branch(union, value)),
        }
    }

    fn null(&mut self, union: &Union) -> Fit {
        let Some(index) = union.null else {
            return Err(self.unfit(|| {
                Unfit::new(format!(
                    "it is null, and there is no null branch in the union {}",
                    union.told
                ))
            }));
        };
        put::long(self.out, i64::from(index));
        Ok(())
    }

    /// Writes the branch that fits best; whether another fits as well. Fails only when there is too much work.
    fn best(&mut self, union: &Union, value: Value<'d>) -> Result<Option<(Node, bool)>, Misfit> {
        let start = self.out.len();
        let first = self.desk.lacking.len();
        let mut best: Option<(Node, Rank)> = None;
        let mut is_tied = false;
        for (index, node) in &union.branches {
            let from = self.out.len();
            let lacking = self.desk.lacking.len();
            let fit = self.branch(union, (*index, *node), value);
            if self.work_left == 0 {
                return Err(self.exhausted());
            }
            if fit.is_err() {
                self.out.truncate(from);
                continue;
            }
            let rank = self.rank(*node);
            match best.as_ref().map(|(_, before)| rank.cmp(before)) {
                None => best = Some((*node, rank)),
                Some(std::cmp::Ordering::Greater) => {
                    self.out.drain(start..from);
                    // What the branch before it lacks goes behind, and away.
                    self.desk.lacking[first..].rotate_left(lacking - first);
                    let kept = self.desk.lacking.len() - (lacking - first);
                    self.tell_lacking(kept, Notices::tried);
                    best = Some((*node, rank));
                    is_tied = false;
                }
                Some(ordering) => {
                    self.out.truncate(from);
                    self.tell_lacking(lacking, Notices::tried);
                    is_tied |= ordering.is_eq();
                }
            }
        }
        Ok(best.map(|(node, _)| (node, is_tied)))
    }

    fn branch(&mut self, union: &Union, (index, node): (u32, Node), value: Value<'d>) -> Fit {
        self.look_at(0)?;
        // The reference finds the branch by the kind of value that it made: for a uuid, text.
        if let (Shape::UuidFixed, Some(text)) = (node.shape, union.text) {
            let uuid = self.uuid(node, value)?;
            put::long(self.out, i64::from(text));
            put::bytes(self.out, &uuid);
            return Ok(());
        }
        put::long(self.out, i64::from(index));
        let stand = self.stand();
        let fit = self.value(node, value);
        if fit.is_err() {
            self.go_back(&stand);
        }
        fit
    }

    fn rank(&self, node: Node) -> Rank {
        match node.shape {
            Shape::Record(_) | Shape::Map(_) => (self.accounted, std::cmp::Reverse(self.unfilled)),
            _ => (0, std::cmp::Reverse(0)),
        }
    }

    /// The path to a value, or only its beginning where finding it would cost more than what is left: unions in unions ask
    /// for it again and again.
    fn paid_path(&mut self, value: Value<'d>) -> String {
        let cost = value.place();
        if cost > self.work_left / 2 {
            return self.root.to_owned();
        }
        self.work_left -= cost;
        unfit::path(self.root, value)
    }

    /// Tries all once more, for their words.
    #[cold]
    fn no_branch(&mut self, union: &Union, value: Value<'d>) -> Misfit {
        let path = self.paid_path(value);
        let start = self.out.len();
        let mut reasons = Vec::new();
        for (index, node) in union.branches.iter().take(BRANCHES) {
            let fit = self.branch(union, (*index, *node), value);
            self.out.truncate(start);
            if self.work_left == 0 {
                return self.exhausted();
            }
            if let Err(Misfit(Some(unfit))) = fit {
                let reason = unfit.told(&path);
                reasons.push(format!("{}: {}", node.declared, cut(&reason, CHARACTERS)));
            }
        }
        Misfit::from(Unfit::new(format!(
            "it matches no branch of {}. Tried: {}",
            cut(&union.told, CHARACTERS),
            reasons.join(" | ")
        )))
    }
}
