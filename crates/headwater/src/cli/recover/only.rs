//! A destination that takes only what is missing there.

use std::sync::{Arc, Mutex};

use headwater_core::instant::Instant;
use headwater_core::route::Topics;
use headwater_core::trouble::Trouble;
use headwater_sink::Error;

use crate::compare::{Count, Encoders, Found, Missing, Published, Unsent, beginning};
use crate::parts::{AnyPositions, AnySink, Outlet};
use crate::pipeline::{Destination, Unfit};

pub struct Only {
    pub outlet: Outlet,
    pub routes: Vec<Topics>,
    pub encoders: Encoders,
    pub since: Option<Instant>,
    pub timeless: bool,
    pub unfit: Unfit,
    pub unsent: Arc<Unsent>,
    pub found: Arc<Mutex<Found>>,
    pub count: Count,
}

impl Only {
    async fn missing(&self, sink: AnySink) -> Result<Missing<AnySink, Published>, Error> {
        let (Some(back), Some(encoder)) =
            (self.outlet.back(&self.routes).await?, (self.encoders)())
        else {
            return Err(Error::fatal(
                "the topics or the schemas cannot be read any more",
                "headwater check says what is wrong with them",
            ));
        };
        let encoders = Arc::clone(&self.encoders);
        let topics = Published::open(back, encoders, Arc::clone(&self.count)).await?;
        let topics = topics.timeless(self.timeless);
        let apart = (self.unfit.clone(), Arc::clone(&self.unsent));
        let found = Arc::clone(&self.found);
        let from = beginning(self.since);
        Ok(Missing::new(sink, topics, encoder, from, apart, found))
    }
}

impl Destination for Only {
    type Sink = Missing<AnySink, Published>;
    type Positions = AnyPositions;

    async fn open(&mut self) -> Result<(Self::Sink, AnyPositions), Box<dyn Trouble>> {
        let (sink, positions) = self.outlet.open().await?;
        let sink = self.missing(sink).await;
        Ok((
            sink.map_err(|error| -> Box<dyn Trouble> { Box::new(error) })?,
            positions,
        ))
    }
}
