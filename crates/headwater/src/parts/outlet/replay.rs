//! Where the messages and the record of a replay go: beside those of its pipeline.

use headwater_core::failure;
use headwater_core::positions::Record;
use headwater_sink::Error;
use headwater_sink::kafka::Passing;

use super::{AnyPositions, Kind, Outlet};
use crate::config::PositionStore;

/// Stands between a pipeline's name and the id of one of its replays.
const BETWEEN: &str = ".replay.";

impl Outlet {
    /// With a producer of its own, and a record of its own.
    #[must_use]
    pub fn for_replay(mut self, id: &str) -> Outlet {
        let own = format!("{BETWEEN}{id}");
        self.name.push_str(&own);
        if let Kind::Kafka(settings, _) = &mut self.sink {
            settings.client_id.push_str("-replay");
        }
        if let PositionStore::File(file) = &mut self.positions {
            file.as_mut_os_string().push(own);
        }
        self
    }

    /// A sink that goes on behind a message that was refused, whatever for. No run comes after it that could find out which member of a batch
    /// is to blame, so each message goes alone.
    #[must_use]
    pub fn behind_refusals(mut self) -> Outlet {
        if let Kind::Kafka(settings, _) = &mut self.sink {
            settings.passing = Passing::of(&failure::Kind::ALL).one_by_one();
        }
        self
    }

    /// The name that its record is under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The replays of a pipeline that are remembered, by their ids.
    pub async fn replays(&self) -> Result<Vec<(String, Record)>, Error> {
        let records = match &self.positions {
            PositionStore::File(file) => headwater_sink::file::beside_it(file, &self.name, BETWEEN),
            PositionStore::Topic { .. } => match self.connect().await? {
                (_sink, AnyPositions::Topic(topic)) => topic.beginning(BETWEEN).await?,
                (_, AnyPositions::File(_)) => Vec::new(),
            },
        };
        let beginning = format!("{}{BETWEEN}", self.name);
        let id = |record: &Record| Some(record.name.strip_prefix(&beginning)?.to_owned());
        let with_id = |record: Record| Some((id(&record)?, record));
        Ok(records.into_iter().filter_map(with_id).collect())
    }
}
