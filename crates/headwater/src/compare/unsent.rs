//! What could not be published, by the letters that are open: it is not on its topic, and nobody has lost it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::band::ShortId;

use super::missing::Found;
use crate::dead_letters::Stand;
use crate::pipeline::{OpenLetters, Unpublished};

/// The events of open letters.
#[derive(Debug, Default)]
pub struct Unsent {
    events: HashMap<ShortId, Vec<Of>>,
    doubt: Option<String>,
}

/// What a letter stands for. Of a route it is not what other routes made of the row: that may be missing all the same.
#[derive(Debug)]
enum Of {
    /// Whatever the row leads to.
    Row,
    Topic(Arc<str>),
    /// It named no topic.
    Route(usize),
}

impl Of {
    fn letter(stand: &Stand) -> Of {
        match (&stand.topic, stand.route) {
            (Some(topic), _) => Of::Topic(topic.as_str().into()),
            (None, Some(route)) => Of::Route(route),
            (None, None) => Of::Row,
        }
    }
}

impl Unsent {
    pub fn of<'s>(open: impl Iterator<Item = &'s Stand>) -> Unsent {
        let mut unsent = Unsent::default();
        for stand in open {
            let letters = unsent.events.entry(ShortId::of(&stand.event_id));
            letters.or_default().push(Of::letter(stand));
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

    /// Whether an open letter stands for the event's message to this topic; for what a route made of it, if that names none; for the row,
    /// if neither is said.
    pub fn has(&self, id: ShortId, route: Option<usize>, topic: Option<&str>) -> bool {
        let letters = self.events.get(&id);
        letters.into_iter().flatten().any(|of| match of {
            Of::Row => true,
            Of::Topic(lacks) => topic == Some(&**lacks),
            Of::Route(failed) => topic.is_none() && route == Some(*failed),
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

impl OpenLetters for Unmade {
    fn passes_over(&self, id: &str, row: &Unpublished) -> bool {
        let topic = row.topic.as_deref();
        let stands = self.unsent.has(ShortId::of(id), row.route, topic);
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
    fn a_letter_stands_for_its_own_topic_or_route_and_only_that_of_a_row_for_all() {
        let stand = |event_id: &str, route: Option<usize>, topic: Option<&str>| Stand {
            event_id: event_id.into(),
            route,
            topic: topic.map(str::to_owned),
            ..Stand::default()
        };
        let open = [
            stand("a", Some(1), Some("t")),
            stand("a", Some(2), Some("no topic")),
            stand("b", None, None),
            stand("c", Some(2), None),
        ];
        let unsent = Unsent::of(open.iter());
        let has = |id, route, topic| unsent.has(ShortId::of(id), route, topic);
        assert!(has("a", None, Some("t")) && has("a", Some(2), Some("no topic")));
        assert!(!has("a", None, Some("v")) && !has("a", None, None));
        assert!(has("b", None, None) && has("b", Some(1), None) && has("b", None, Some("v")));
        // What the first route made of it may be missing, whatever the second one made.
        assert!(has("c", Some(2), None) && !has("c", Some(1), None));
        assert!(!has("c", None, Some("t")) && !has("c", None, None));
        assert!(!has("d", Some(1), Some("t")));
    }
}
