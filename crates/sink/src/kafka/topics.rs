//! What is known of the topics that messages go to, and the questions about them that are under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::failure::Kind;
use headwater_core::message::{Id, Message};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::client::Client;
use super::doubt::{Rules, why_refused};
use super::topic;
use crate::Error;

/// A topic's rules are asked for again while messages go to it.
const AGAIN_AFTER: Duration = Duration::from_mins(5);
/// Only by rules as young as this a message is refused without sending it: they may have been changed for its sake.
const FRESH: Duration = Duration::from_secs(5);

pub(super) struct Topics {
    client: Client,
    known: HashMap<Arc<str>, Topic>,
    asked: JoinSet<Found>,
    again: Interval,
    /// The message for whose partition its topic was looked up once more, and that topic.
    looked_again: Option<(Arc<str>, Id)>,
}

/// Whether a topic can be written to.
#[derive(Debug)]
pub(super) enum Topic {
    Known(Known),
    LookingUp,
    /// No topic can have this name.
    Illegal,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    rules: Rules,
    at: Instant,
    /// Since the rules were asked for.
    used: bool,
    /// Nothing could be written to it before: one message goes alone.
    on_trial: bool,
}

impl Known {
    pub(super) fn new(rules: Rules) -> Known {
        Known {
            rules,
            at: Instant::now(),
            used: false,
            on_trial: false,
        }
    }
}

/// How a message may go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    Together,
    Alone,
    /// Not before a question about its topic is answered.
    Later,
    Never(Kind, String),
}

/// What a topic turned out to be, when it was looked up.
pub(super) enum Sight {
    Open(Topic),
    Closed(Error),
}

/// What a question came back with.
pub(super) enum Found {
    Topic(Arc<str>, Result<Topic, Error>),
    /// Nothing can be written to it, and why.
    Closed(Arc<str>, Error),
    /// For a batch that was refused.
    Rules(Arc<str>, Result<Rules, Error>),
    Again(Vec<(Arc<str>, Rules)>),
}

impl Topics {
    pub(super) fn new(client: Client) -> Topics {
        let mut again = interval(AGAIN_AFTER);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        again.reset();
        Topics {
            client,
            known: HashMap::new(),
            asked: JoinSet::new(),
            again,
            looked_again: None,
        }
    }

    pub(super) fn way(&mut self, message: &Message, batch_limit: usize) -> Way {
        let topic = &message.address.topic;
        match self.known.get_mut(topic) {
            Some(Topic::Known(known)) => {
                known.used = true;
                if !known.rules.have(message.address.partition) {
                    return self.out_of_range(message);
                }
                if !known.on_trial && !known.rules.may_refuse(message, batch_limit) {
                    return Way::Together;
                }
                let known = *known;
                self.carefully(message, known)
            }
            Some(Topic::LookingUp) => Way::Later,
            Some(Topic::Illegal) => Way::Never(
                Kind::Unroutable,
                format!("no topic can be named \"{topic}\""),
            ),
            None => self.look_up(topic),
        }
    }

    /// Partitions may have been added since the topic was looked up.
    fn out_of_range(&mut self, message: &Message) -> Way {
        let this = (Arc::clone(&message.address.topic), message.id.clone());
        if self.looked_again.as_ref() != Some(&this) {
            self.looked_again = Some(this);
            return self.look_up(&message.address.topic);
        }
        let partition = message.address.partition.unwrap_or_default();
        let why = format!("the topic has no partition {partition}");
        Way::Never(Kind::Unroutable, why)
    }

    /// What is too large may still fit when it is compressed, and what is not known to be too large only the broker can judge.
    fn carefully(&mut self, message: &Message, known: Known) -> Way {
        if self.client.settings.compression != "none" {
            return Way::Alone;
        }
        match why_refused(message, Kind::TooLarge, known.rules) {
            None => Way::Alone,
            Some(why) if known.at.elapsed() < FRESH => Way::Never(Kind::TooLarge, why),
            Some(_) => self.look_up(&message.address.topic),
        }
    }

    fn look_up(&mut self, topic: &Arc<str>) -> Way {
        if let Some(why) = self.client.settings.passing.denied(topic) {
            return Way::Never(Kind::Refused, why.to_string());
        }
        self.known.insert(Arc::clone(topic), Topic::LookingUp);
        let (client, topic) = (self.client.clone(), Arc::clone(topic));
        self.asked.spawn(async move {
            match topic::find(client, Arc::clone(&topic)).await {
                Ok(Sight::Open(found)) => Found::Topic(topic, Ok(found)),
                Ok(Sight::Closed(why)) => Found::Closed(topic, why),
                Err(error) => Found::Topic(topic, Err(error)),
            }
        });
        Way::Later
    }

    /// The next message to it looks it up anew.
    pub(super) fn forget(&mut self, topic: &str) {
        self.known.remove(topic);
    }

    /// A message alone has been delivered to it.
    pub(super) fn prove(&mut self, topic: &str) {
        if let Some(Topic::Known(known)) = self.known.get_mut(topic)
            && std::mem::take(&mut known.on_trial)
        {
            self.client.settings.passing.allow(topic);
        }
    }

    /// As they were when the topic was looked up.
    pub(super) fn rules(&self, topic: &str) -> Rules {
        match self.known.get(topic) {
            Some(Topic::Known(known)) => known.rules,
            _ => Rules::default(),
        }
    }

    /// As they are now.
    pub(super) fn ask_rules(&mut self, topic: &Arc<str>) {
        let (client, topic) = (self.client.clone(), Arc::clone(topic));
        self.asked.spawn(async move {
            let rules = topic::rules(&client, &topic).await;
            Found::Rules(topic, rules)
        });
    }

    pub(super) fn found(&mut self, topic: Arc<str>, mut found: Topic) {
        if let Topic::Known(known) = &mut found {
            known.on_trial = self.client.settings.passing.was_denied(&topic);
        }
        self.known.insert(topic, found);
    }

    pub(super) fn found_again(&mut self, all: Vec<(Arc<str>, Rules)>) {
        for (topic, rules) in all {
            if let Some(Topic::Known(known)) = self.known.get_mut(&topic) {
                (known.rules, known.at) = (known.rules.with_settings_of(rules), Instant::now());
            }
        }
    }

    /// The next answer. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Found, JoinError> {
        loop {
            tokio::select! {
                biased;
                Some(found) = self.asked.join_next() => return found,
                _ = self.again.tick() => self.ask_again(),
            }
        }
    }

    /// One topic after the other: there may be thousands.
    fn ask_again(&mut self) {
        let used = self.known.iter_mut().filter_map(|(topic, state)| {
            let Topic::Known(known) = state else {
                return None;
            };
            std::mem::take(&mut known.used).then(|| Arc::clone(topic))
        });
        let used: Vec<Arc<str>> = used.collect();
        if used.is_empty() {
            return;
        }
        let client = self.client.clone();
        self.asked.spawn(async move {
            let mut all = Vec::new();
            for topic in used {
                // What cannot be asked now is asked again the next time.
                if let Ok(rules) = topic::rules(&client, &topic).await {
                    all.push((topic, rules));
                }
            }
            Found::Again(all)
        });
    }
}
