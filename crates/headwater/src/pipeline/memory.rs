//! When a position that is due is remembered: often under load, seldom when idle, at once when somebody waits for it.

use std::time::Duration;

use tokio::time::Instant;

/// Under load a record is written at most this often.
const BUSY: Duration = Duration::from_millis(200);
/// While no event passes, and only the log's end moves.
const IDLE: Duration = Duration::from_secs(10);

/// A position before which everything is settled.
#[derive(Debug, Clone)]
pub struct Due<P> {
    pub position: P,
    /// How many events had passed when the log reached it.
    pub events: u64,
    /// The date of the last of them.
    pub event_time: Option<i64>,
}

#[derive(Debug)]
pub struct Memory<P> {
    due: Option<Due<P>>,
    writing: Option<P>,
    remembered_events: u64,
    written_events: u64,
    written_at: Option<Instant>,
    hurry: bool,
}

impl<P: Clone> Memory<P> {
    /// Begins with what was remembered before: the number of events up to there.
    pub fn new(events: u64) -> Memory<P> {
        Memory {
            due: None,
            writing: None,
            remembered_events: events,
            written_events: events,
            written_at: None,
            hurry: false,
        }
    }

    pub fn due(&mut self, due: Due<P>) {
        self.due = Some(due);
    }

    /// Somebody waits: the next position that is due is written without delay.
    pub fn hurry(&mut self) {
        self.hurry = true;
    }

    /// The position to write now, if it is time for one and none is under way.
    pub fn begin(&mut self, now: Instant) -> Option<Due<P>> {
        if self.writing.is_some() || self.due.is_none() {
            return None;
        }
        let pause = match (self.hurry, self.is_urgent()) {
            (true, _) => Duration::ZERO,
            (false, true) => BUSY,
            (false, false) => IDLE,
        };
        if self.written_at.is_some_and(|at| now < at + pause) {
            return None;
        }
        let due = self.due.take()?;
        self.writing = Some(due.position.clone());
        self.written_events = due.events;
        self.written_at = Some(now);
        self.hurry = false;
        Some(due)
    }

    /// A position is due that somebody waits for, before which events passed, or that is the first.
    pub fn is_urgent(&self) -> bool {
        let first = self.written_at.is_none();
        let due = self.due.as_ref();
        due.is_some_and(|due| self.hurry || first || due.events > self.written_events)
    }

    /// The record under way is safe: the position that may now be confirmed.
    pub fn written(&mut self) -> Option<P> {
        self.remembered_events = self.written_events;
        self.writing.take()
    }

    /// How many events lie before the last position that was remembered.
    pub fn remembered_events(&self) -> u64 {
        self.remembered_events
    }

    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Nothing is due and nothing is under way.
    pub fn is_clear(&self) -> bool {
        self.due.is_none() && self.writing.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(position: u32, events: u64) -> Due<u32> {
        Due {
            position,
            events,
            event_time: None,
        }
    }

    fn begun(memory: &mut Memory<u32>, now: Instant) -> Option<u32> {
        memory.begin(now).map(|due| due.position)
    }

    #[tokio::test]
    async fn under_load_a_record_is_written_at_most_every_200_ms() {
        let (mut memory, start) = (Memory::new(0), Instant::now());
        memory.due(due(1, 1));
        assert_eq!(begun(&mut memory, start), Some(1));
        assert_eq!(memory.written(), Some(1));
        memory.due(due(2, 2));
        memory.due(due(3, 3));
        assert_eq!(begun(&mut memory, start + BUSY / 2), None);
        assert_eq!(begun(&mut memory, start + BUSY), Some(3));
    }

    #[tokio::test]
    async fn idle_a_record_is_written_at_most_every_10_s() {
        let (mut memory, start) = (Memory::new(0), Instant::now());
        memory.due(due(1, 0));
        assert_eq!(begun(&mut memory, start), Some(1));
        memory.written();
        memory.due(due(2, 0));
        assert_eq!(begun(&mut memory, start + IDLE / 2), None);
        assert_eq!(begun(&mut memory, start + IDLE), Some(2));
    }

    #[tokio::test]
    async fn one_record_at_a_time() {
        let (mut memory, start) = (Memory::new(0), Instant::now());
        memory.due(due(1, 1));
        assert_eq!(begun(&mut memory, start), Some(1));
        memory.due(due(2, 2));
        assert_eq!(begun(&mut memory, start + IDLE), None);
        assert_eq!(memory.written(), Some(1));
        assert_eq!(begun(&mut memory, start + IDLE), Some(2));
    }

    #[tokio::test]
    async fn a_hurry_does_not_wait() {
        let (mut memory, start) = (Memory::new(0), Instant::now());
        memory.due(due(1, 0));
        assert_eq!(begun(&mut memory, start), Some(1));
        memory.written();
        memory.hurry();
        memory.due(due(2, 0));
        assert_eq!(begun(&mut memory, start), Some(2));
    }
}
