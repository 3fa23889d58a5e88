//! What a look at something found, for `check`: plain data, which whoever prints it puts into form.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Ok,
    /// It works, but not as well as it could.
    Warning,
    /// A run would end because of it, or fail rows.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// A sentence about what is there.
    pub what: String,
    /// What mends it: the exact SQL, command or setting.
    pub mend: Option<String>,
}

impl Finding {
    pub fn ok(what: impl Into<String>) -> Finding {
        Finding {
            level: Level::Ok,
            what: what.into(),
            mend: None,
        }
    }

    pub fn warning(what: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding {
            level: Level::Warning,
            what: what.into(),
            mend: Some(mend.into()),
        }
    }

    pub fn problem(what: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding {
            level: Level::Problem,
            what: what.into(),
            mend: Some(mend.into()),
        }
    }
}
