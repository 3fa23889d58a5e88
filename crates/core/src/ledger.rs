//! Which position may be confirmed: the last mark before which every admitted message has been settled.
//!
//! In: `admit`, `mark` and `settle`, in the order in which they happen. Out: a position, at most once, when it is due.
//! Rule: positions are never compared; only the order of admission counts.

use std::collections::VecDeque;

/// The right to declare one message done. Neither `Clone` nor `Copy`: a message settles at most once. A dropped ticket
/// settles nothing, so nothing after it is ever confirmed.
#[derive(Debug)]
#[must_use = "a dropped ticket is never settled, and nothing after it is ever confirmed"]
pub struct Ticket {
    run: u64,
    number: u64,
    bytes: usize,
}

impl Ticket {
    /// Which message of its run this is, for whoever wants to tell tickets apart.
    pub fn number(&self) -> u64 {
        self.number
    }
}

#[derive(Debug)]
pub struct Ledger<P> {
    run: u64,
    /// Every message with a smaller number has been settled.
    oldest: u64,
    /// Whether message `oldest + index` has been settled. The first one, if any, has not.
    settled: VecDeque<bool>,
    /// How many in `settled` are not, and their bytes.
    outstanding: usize,
    outstanding_bytes: usize,
    /// Marks that are not due yet: the number of the first message after the mark, and its position.
    marks: VecDeque<(u64, P)>,
}

impl<P> Ledger<P> {
    /// A ledger for one run; tickets of other runs settle nothing in it.
    pub fn new(run: u64) -> Ledger<P> {
        Ledger {
            run,
            oldest: 0,
            settled: VecDeque::new(),
            outstanding: 0,
            outstanding_bytes: 0,
            marks: VecDeque::new(),
        }
    }

    /// The next message that must be delivered, and how many bytes it holds until it is.
    pub fn admit(&mut self, bytes: usize) -> Ticket {
        let number = self.next();
        self.settled.push_back(false);
        self.outstanding += 1;
        self.outstanding_bytes += bytes;
        Ticket {
            run: self.run,
            number,
            bytes,
        }
    }

    /// The log reached `position`; it comes back if it may be confirmed at once.
    pub fn mark(&mut self, position: P) -> Option<P> {
        if self.settled.is_empty() {
            return Some(position);
        }
        let next = self.next();
        match self.marks.back_mut() {
            // Nothing was admitted in between: the later mark says all that the earlier one did.
            Some((after, last)) if *after == next => *last = position,
            _ => self.marks.push_back((next, position)),
        }
        None
    }

    /// The message of this ticket was delivered, or its dead letter was. The last position that this makes due comes back.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the ticket is used up: it must not be there for a second time"
    )]
    pub fn settle(&mut self, ticket: Ticket) -> Option<P> {
        if ticket.run != self.run {
            return None;
        }
        let index = usize::try_from(ticket.number - self.oldest).ok()?;
        *self.settled.get_mut(index)? = true;
        self.outstanding -= 1;
        self.outstanding_bytes -= ticket.bytes;
        while self.settled.front() == Some(&true) {
            self.settled.pop_front();
            self.oldest += 1;
        }
        let due = self
            .marks
            .partition_point(|(after, _)| *after <= self.oldest);
        self.marks.drain(..due).next_back().map(|(_, p)| p)
    }

    /// How many messages have been admitted and not settled.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The bytes of those messages.
    pub fn outstanding_bytes(&self) -> usize {
        self.outstanding_bytes
    }

    /// How many messages there are from the oldest unsettled one on, settled or not: what the ledger has to remember.
    pub fn span(&self) -> usize {
        self.settled.len()
    }

    /// The number of the oldest message that is not settled, or of the next one.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    fn next(&self) -> u64 {
        self.oldest + self.settled.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Step {
        Admit,
        Mark,
        /// Settle the open ticket of this rank (0 = the oldest that is still held).
        Settle(usize),
        /// Drop the open ticket of this rank.
        Drop(usize),
    }

    /// The rule, said as slowly and plainly as possible: everything that ever happened is kept, and each question is
    /// answered by looking at all of it again.
    #[derive(Default)]
    struct Honest {
        history: Vec<Entry>,
        settled: BTreeSet<usize>,
        admitted: usize,
        told: Option<usize>,
    }

    enum Entry {
        Message(usize),
        Mark(usize),
    }

    impl Honest {
        fn admit(&mut self) -> usize {
            self.history.push(Entry::Message(self.admitted));
            self.admitted += 1;
            self.admitted - 1
        }

        fn mark(&mut self, position: usize) -> Option<usize> {
            self.history.push(Entry::Mark(position));
            self.due()
        }

        fn settle(&mut self, message: usize) -> Option<usize> {
            self.settled.insert(message);
            self.due()
        }

        /// The last mark with nothing unsettled anywhere before it, unless it has been told already.
        fn due(&mut self) -> Option<usize> {
            let mut due = None;
            for entry in &self.history {
                match entry {
                    Entry::Message(message) if !self.settled.contains(message) => break,
                    Entry::Message(_) => {}
                    Entry::Mark(position) => due = Some(*position),
                }
            }
            if due == self.told {
                return None;
            }
            self.told = due;
            due
        }

        fn outstanding(&self) -> usize {
            self.admitted - self.settled.len()
        }
    }

    /// Plays one history on both and compares every answer.
    fn play(steps: &[Step]) {
        let mut ledger = Ledger::new(1);
        let mut honest = Honest::default();
        let mut open: Vec<(Ticket, usize)> = Vec::new();
        for (position, step) in steps.iter().enumerate() {
            match *step {
                Step::Admit => open.push((ledger.admit(1), honest.admit())),
                Step::Mark => assert_eq!(ledger.mark(position), honest.mark(position), "{steps:?}"),
                Step::Settle(rank) => {
                    let (ticket, message) = open.remove(rank);
                    assert_eq!(ledger.settle(ticket), honest.settle(message), "{steps:?}");
                }
                Step::Drop(rank) => drop(open.remove(rank)),
            }
            assert_eq!(ledger.outstanding(), honest.outstanding(), "{steps:?}");
            assert_eq!(
                ledger.outstanding_bytes(),
                honest.outstanding(),
                "{steps:?}"
            );
        }
    }

    /// Every history of `left` more steps, given how many tickets are held.
    fn every_history(steps: &mut Vec<Step>, held: usize, left: usize, count: &mut usize) {
        if left == 0 {
            *count += 1;
            play(steps);
            return;
        }
        let mut go = |step: Step, held: usize| {
            steps.push(step);
            every_history(steps, held, left - 1, count);
            steps.pop();
        };
        go(Step::Admit, held + 1);
        go(Step::Mark, held);
        for rank in 0..held {
            go(Step::Settle(rank), held - 1);
            go(Step::Drop(rank), held - 1);
        }
    }

    #[test]
    fn every_history_of_ten_steps_is_answered_as_the_slow_rule_says() {
        let mut count = 0;
        every_history(&mut Vec::new(), 0, 10, &mut count);
        assert!(count > 100_000, "only {count} histories");
    }

    proptest! {
        #[test]
        fn long_random_histories_are_answered_as_the_slow_rule_says(
            choices in prop::collection::vec((0u8..10, any::<prop::sample::Index>()), 1..400)
        ) {
            let mut held = 0;
            let mut steps = Vec::new();
            for (choice, index) in choices {
                match choice {
                    0..=3 => { held += 1; steps.push(Step::Admit); }
                    4..=5 => steps.push(Step::Mark),
                    _ if held == 0 => {}
                    9 => { steps.push(Step::Drop(index.index(held))); held -= 1; }
                    _ => { steps.push(Step::Settle(index.index(held))); held -= 1; }
                }
            }
            play(&steps);
        }
    }

    #[test]
    fn a_ticket_of_another_run_settles_nothing() {
        let mut earlier: Ledger<&str> = Ledger::new(1);
        let late = earlier.admit(1);
        let mut ledger = Ledger::new(2);
        let ticket = ledger.admit(1);
        assert_eq!(ledger.mark("here"), None);
        assert_eq!(ledger.settle(late), None);
        assert_eq!(ledger.outstanding(), 1);
        assert_eq!(ledger.settle(ticket), Some("here"));
    }

    #[test]
    fn marks_with_nothing_admitted_between_them_take_no_room() {
        let mut ledger = Ledger::new(1);
        let ticket = ledger.admit(1);
        for position in 0..1_000 {
            assert_eq!(ledger.mark(position), None);
        }
        assert_eq!(ledger.marks.len(), 1);
        assert_eq!(ledger.settle(ticket), Some(999));
    }

    #[test]
    fn what_is_settled_behind_an_unsettled_one_is_counted_in_the_span() {
        let mut ledger: Ledger<u8> = Ledger::new(1);
        let stuck = ledger.admit(1);
        for _ in 0..10 {
            let ticket = ledger.admit(1);
            assert_eq!(ledger.settle(ticket), None);
        }
        assert_eq!((ledger.outstanding(), ledger.span()), (1, 11));
        assert_eq!(ledger.settle(stuck), None);
        assert_eq!((ledger.outstanding(), ledger.span()), (0, 0));
    }
}
