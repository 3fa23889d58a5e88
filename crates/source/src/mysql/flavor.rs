//! Which of the two kinds of server a log comes from: they share the binlog's frame, and little of what is in it.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    MySql,
    MariaDb,
}

impl Flavor {
    pub fn name(self) -> &'static str {
        match self {
            Flavor::MySql => "MySQL",
            Flavor::MariaDb => "MariaDB",
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
