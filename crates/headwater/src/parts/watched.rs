//! The files that a pipeline is made of, as they were at one moment: whoever holds waits until they are others.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::{Config, Encode};

/// Compared and no more: each file with its time and length, as far as it is there.
#[derive(Debug, PartialEq, Eq)]
pub struct Watched(Vec<(PathBuf, Option<(SystemTime, u64)>)>);

impl Watched {
    pub fn of(config: &Config) -> Watched {
        let mut files = vec![config.file().to_owned()];
        if let Encode::Avro(named) | Encode::Protobuf(named) = config.encode()
            && let Ok(schemas) = named.find()
        {
            files.extend(schemas.envelope);
            files.extend(schemas.files);
        }
        let with_state = files.into_iter().map(|file| {
            let state = state(&file);
            (file, state)
        });
        Watched(with_state.collect())
    }
}

fn state(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
