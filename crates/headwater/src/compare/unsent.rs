//! What could not be published, by the letters that are open: it is not on its topic, and nobody has lost it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::band::ShortId;

use super::missing::Found;
use crate::dead_letters::{Stand, lacking};
use crate::pipeline::Standing;

/// The events of open letters, each with the topics that lack it; none: whichever it leads to.
#[derive(Debug, Default)]
pub struct Unsent {
    events: HashMap<ShortId, Vec<Option<Arc<str>>>>,
    doubt: Option<String>,
}

impl Unsent {
    pub fn of<'s>(open: impl Iterator<Item = &'s Stand>) -> Unsent {
        let mut unsent = Unsent::default();
        for stand in open {
            let topics = unsent.events.entry(ShortId::of(&stand.event_id));
            let topic = lacking(stand.topic.as_deref()).map(Arc::from);
            topics.or_default().push(topic);
        }
        unsent
    }

    /// The letters cannot be read: why.
    pub fn unknown(why: &str) -> Unsent {
        Unsent {
            doubt: Some(format!(
                "dead letters could not be looked at, so an event that became one is taken for missing: {why}"
            )),
            ..Unsent::default()
        }
    }

    /// Whether an open letter stands for the event on this topic; on any, if it is not said which.
    pub fn has(&self, id: ShortId, topic: Option<&str>) -> bool {
        let topics = self.events.get(&id);
        topics.into_iter().flatten().any(|lacks| match lacks {
            Some(lacks) => topic.is_none_or(|topic| **lacks == *topic),
            None => true,
        })
    }

    pub fn doubt(&self) -> Option<String> {
        self.doubt.clone()
    }
}

/// The same for rows of which no message can be made.
#[derive(Debug)]
pub struct Unmade {
    pub unsent: Arc<Unsent>,
    pub found: Arc<Mutex<Found>>,
}

impl Standing for Unmade {
    fn passes_over(&self, id: &str, topic: Option<&str>) -> bool {
        let stands = self.unsent.has(ShortId::of(id), topic);
        if stands {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.looked_at += 1;
            found.dead_lettered += 1;
        }
        stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_stands_for_its_own_topic_or_for_all_if_it_has_none() {
        let stand = |event_id: &str, topic: Option<&str>| Stand {
            event_id: event_id.into(),
            topic: topic.map(str::to_owned),
            ..Stand::default()
        };
        let open = [
            stand("a", Some("t")),
            stand("a", Some("u")),
            stand("b", None),
            stand("d", Some("no topic")),
        ];
        let unsent = Unsent::of(open.iter());
        let has = |id, topic| unsent.has(ShortId::of(id), topic);
        assert!(has("a", Some("t")) && has("a", Some("u")) && has("a", None));
        assert!(!has("a", Some("v")) && !has("c", None));
        assert!(has("b", Some("v")) && has("d", Some("v")));
    }
}
