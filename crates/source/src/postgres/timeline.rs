//! Whether a position lies on the way that led to the server's present timeline.
//!
//! A promotion or a restore ends one timeline at some place and begins another there. What a log held after that place
//! on the old timeline is not in the new one: a position past the fork means other rows there, or none.

use super::position::Lsn;

/// The ancestors of a timeline and where each ended, from its history file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct History(Vec<(u32, Lsn)>);

/// What became of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It went on as another one here.
    Ended(Lsn),
    /// The present timeline does not come from it.
    NoAncestor,
}

impl History {
    /// Lines of `timeline <tab> position <tab> reason`; `#` begins a comment.
    pub(super) fn parse(file: &str) -> History {
        let ended = |line: &str| -> Option<(u32, Lsn)> {
            let mut words = line.split_whitespace();
            let timeline = words.next()?.parse().ok()?;
            Some((timeline, words.next()?.parse().ok()?))
        };
        History(file.lines().filter_map(ended).collect())
    }

    pub(super) fn fate(&self, timeline: u32) -> Fate {
        self.0
            .iter()
            .find(|(ancestor, _)| *ancestor == timeline)
            .map_or(Fate::NoAncestor, |(_, end)| Fate::Ended(*end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_file_tells_where_each_ancestor_ended() {
        let history = History::parse(
            "1\t0/3000148\tno recovery target specified\n\n# a comment\n2\t16/B374D848\tbefore 2026-01-01\n",
        );
        assert_eq!(history.fate(1), Fate::Ended(Lsn(0x300_0148)));
        assert_eq!(history.fate(2), Fate::Ended(Lsn(0x16_B374_D848)));
        assert_eq!(history.fate(3), Fate::NoAncestor);
        assert_eq!(History::parse("").fate(1), Fate::NoAncestor);
    }
}
