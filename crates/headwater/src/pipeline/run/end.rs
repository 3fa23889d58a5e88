//! The end of a run: what was read is settled and remembered before the log is opened again, or the program ends.

use std::fmt;

use headwater_core::positions::Positions;
use headwater_core::sink::Sink;
use headwater_core::source::Source;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::{info, warn};

use super::{Run, UNANSWERED};
use crate::clock;
use crate::pipeline::ended::{Ended, broken};
use crate::pipeline::figures::Doing;
use crate::pipeline::stop::Stop;

impl<P, K, R> Run<'_, P, K, R>
where
    P: Clone + fmt::Display + PartialEq + Serialize + DeserializeOwned,
    K: Sink,
    R: Positions,
{
    /// Waits, without a source, until everything that was read is settled and remembered.
    pub async fn drain(&mut self, stop: &mut Stop) -> Result<(), Ended> {
        self.shown.doing(Doing::Draining);
        if !self.is_settled() {
            info!("waiting for the acks of what was read");
        }
        while !self.is_settled() {
            self.settle(stop).await?;
        }
        Ok(())
    }

    /// The same with a log that is in order: it is told, so that the next start does not read again what was delivered. A
    /// broker that does not answer must not hold the log's server: then it is given up.
    pub async fn finish<S: Source<Position = P>>(
        &mut self,
        mut source: S,
        stop: &mut Stop,
    ) -> Result<(), Ended> {
        let settled = timeout(UNANSWERED, async {
            while !self.is_settled() {
                if let Some(position) = self.settle(stop).await? {
                    self.confirm(&mut source, position).await?;
                }
            }
            Ok(())
        });
        match settled.await {
            Ok(Ok(())) => {
                source.close().await;
                Ok(())
            }
            Err(_) | Ok(Err(Ended::Source(_))) => {
                drop(source);
                self.drain(stop).await
            }
            Ok(Err(worse)) => Err(worse),
        }
    }

    /// All rows of a snapshot are published: the log is next, from where the record stands.
    pub async fn complete(&mut self) -> Result<(), Ended> {
        let snapshot = self.record.snapshot.take();
        self.record.written_at = clock::now().to_string();
        self.positions.write(&self.record).map_err(broken)?;
        self.positions.written().await.map_err(broken)?;
        self.shown.complete(snapshot.as_ref(), self.tally.again);
        Ok(())
    }

    pub(super) fn tell_what_comes_again(&self) {
        let again = self.beyond();
        if again > 0 {
            warn!(
                again,
                "the log cannot be resumed behind all that was read: these messages will come again"
            );
        }
    }

    pub(super) fn overdue(&self) -> Ended {
        Ended::Overdue {
            again: self.tally.events - self.memory.remembered_events(),
        }
    }

    /// One step towards everything being settled and remembered; the position that was, if one was.
    async fn settle(&mut self, stop: &mut Stop) -> Result<Option<P>, Ended> {
        self.hurry();
        tokio::select! {
            report = self.sink.next_report() => self.reported(report).map(|()| None),
            written = self.positions.written(), if self.memory.is_writing() => self.written(written),
            now = self.ticks.next() => {
                self.show(now);
                self.remember(now).map(|()| None)
            }
            () = stop.overdue() => Err(self.overdue()),
        }
    }
}
