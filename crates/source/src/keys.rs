//! Which keys a table has, and what it costs to read it in the order of its dates without: for `check`.

use headwater_core::event::Role;
use headwater_core::finding::Finding;

/// A server sorts less than this in a moment, and nobody has to hear of it.
const LARGE: u64 = 64 * MIB;
const MIB: u64 = 1 << 20;

/// What `check` has to know of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    /// About how much it holds.
    pub bytes: u64,
    /// Of whatever columns.
    pub primary: bool,
    /// No two rows can have both a date and an id in common.
    pub unique: bool,
    /// An index has the rows in the order in which they are read.
    pub ordered: bool,
}

/// The statements that add what is missing.
pub(crate) struct Mend {
    /// None where the server cannot have such a key.
    pub unique: Option<String>,
    pub ordered: String,
}

/// The columns by which rows are ordered, in SQL.
pub(crate) fn order() -> String {
    format!("{}, {}", Role::EventDate.name(), Role::Id.name())
}

impl Keys {
    /// What ALTER TABLE adds to make ids unique.
    pub(crate) fn kind_to_add(self) -> &'static str {
        if self.primary {
            "UNIQUE"
        } else {
            "PRIMARY KEY"
        }
    }

    /// `table` as it stands in a sentence.
    pub(crate) fn findings(self, table: &str, mend: Mend) -> Vec<Finding> {
        let mut findings = Vec::new();
        let order = order();
        let (mib, readers) = (self.bytes / MIB, "a snapshot, recover, audit or replay");
        findings.push(if self.ordered {
            Finding::ok(format!(
                "table {table} has an index on ({order}), by which {readers} finds its rows in their order"
            ))
        } else if self.bytes < LARGE {
            Finding::ok(format!(
                "table {table} has no index on ({order}): {readers} has the server sort it, which is cheap as long as it is small ({mib} MiB)"
            ))
        } else {
            Finding::warning(
                format!(
                    "table {table} has no index on ({order}): for each reading, {readers} has the server sort all of its {mib} MiB, on \
                     disk, before the first row comes"
                ),
                mend.ordered,
            )
        });
        if let Some(unique) = mend.unique.filter(|_| !self.unique) {
            findings.push(Finding::warning(
                format!(
                    "table {table} has no unique key of its ids, nor of its dates and ids: an id can be there twice, and of rows with the same \
                     date and id some can be passed over when a snapshot goes on after an interruption"
                ),
                unique,
            ));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::finding::Level;

    use super::*;

    const SOUND: Keys = Keys {
        bytes: 1 << 30,
        primary: true,
        unique: true,
        ordered: true,
    };

    fn found(keys: Keys) -> Vec<(Level, Option<String>)> {
        let mend = Mend {
            unique: Some("ADD PRIMARY KEY".into()),
            ordered: "CREATE INDEX".into(),
        };
        let findings = keys.findings("eventlog.events", mend).into_iter();
        findings.map(|it| (it.level, it.mend)).collect()
    }

    #[test]
    fn what_lacks_is_told_with_what_adds_it() {
        assert_eq!(found(SOUND), [(Level::Ok, None)]);
        let unsorted = Keys {
            ordered: false,
            ..SOUND
        };
        assert_eq!(
            found(unsorted),
            [(Level::Warning, Some("CREATE INDEX".into()))]
        );
        let neither = Keys {
            unique: false,
            ..unsorted
        };
        assert_eq!(
            found(neither),
            [
                (Level::Warning, Some("CREATE INDEX".into())),
                (Level::Warning, Some("ADD PRIMARY KEY".into()))
            ]
        );
    }

    #[test]
    fn sorting_a_small_table_is_worth_no_warning() {
        let small = Keys {
            bytes: LARGE - 1,
            ordered: false,
            ..SOUND
        };
        assert_eq!(found(small), [(Level::Ok, None)]);
    }

    #[test]
    fn a_key_that_the_server_cannot_have_is_not_asked_for() {
        let keys = Keys {
            unique: false,
            ..SOUND
        };
        let mend = Mend {
            unique: None,
            ordered: String::new(),
        };
        assert_eq!(keys.findings("t", mend).len(), 1);
    }
}
