//! A producer whose reports are served, by a thread of our own.
//!
//! rdkafka's `ThreadedProducer` asks in steps of 100 ms and spins through the last millisecond of each, for librdkafka counts in whole
//! ones: 0.7 % of a core while nothing happens.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rdkafka::producer::{BaseProducer, Producer as _, PurgeConfig};

use super::contact::Ear;

pub(super) type Producer = BaseProducer<Ear>;

/// Nothing but a report ends a step early, the wish to stop does not.
const BUSY: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_secs(1);

/// What ending may take at most: librdkafka joins its threads then, and one of them may be stuck in a name lookup.
const ENDS_WITHIN: Duration = Duration::from_millis(1500);

pub(super) struct Polling {
    /// There until it is dropped.
    producer: Option<Arc<Producer>>,
    enough: Arc<AtomicBool>,
    /// Only to be shared between threads: it is asked by the one that drops it.
    ended: Mutex<Receiver<()>>,
}

impl Polling {
    pub(super) fn begin(producer: Producer) -> std::io::Result<Polling> {
        let producer = Arc::new(producer);
        let enough = Arc::new(AtomicBool::new(false));
        let (end, ended) = channel();
        let (served, told) = (Arc::clone(&producer), Arc::clone(&enough));
        thread::Builder::new()
            .name("kafka poll".into())
            .spawn(move || {
                while !told.load(Ordering::Relaxed) {
                    let idle = served.in_flight_count() == 0;
                    served.poll(if idle { IDLE } else { BUSY });
                }
                // The last share of it: here librdkafka's threads are joined.
                drop(served);
                let _ = end.send(());
            })?;
        Ok(Polling {
            producer: Some(producer),
            enough,
            ended: Mutex::new(ended),
        })
    }
}

impl Deref for Polling {
    type Target = Producer;

    fn deref(&self) -> &Producer {
        match &self.producer {
            Some(producer) => producer,
            None => unreachable!("only a dropped one has no producer"),
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        let in_flight = self.in_flight_count() > 0;
        self.enough.store(true, Ordering::Relaxed);
        if in_flight {
            self.purge(PurgeConfig::default().queue().inflight().non_blocking());
        }
        drop(self.producer.take());
        // With nothing in flight nothing can come of the old connection, and nobody has to wait until it is gone.
        if in_flight {
            let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(ENDS_WITHIN);
        }
    }
}
