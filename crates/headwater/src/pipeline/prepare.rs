//! What becomes of one row: filter, classify, address, encode. Pure.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::dead_letter::event_id;
use headwater_core::disposition::{Disposition, Skip, classify, is_sentinel, skipped};
use headwater_core::event::{Event, MissingColumns, Outbox, Roles};
use headwater_core::failure::{Failure, Kind};
use headwater_core::filter::{Filter, Rule};
use headwater_core::message::{Address, Id, Message};
use headwater_core::route::{Route, Unrouted};
use headwater_core::row::{Row, Table};
use headwater_core::template::NoColumn;
use headwater_encode::Encoder;

use super::letters::Unpublished;
use super::unfit::Unfit;

/// What was decided about a row.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// Its messages have been handed over; the event's date.
    Publish {
        event_date: i64,
    },
    Skip(Skip),
    /// Skipped too, by a rule of the user's.
    Filtered(Rule),
    Fail {
        /// The row's id, as its dead letters have it.
        id: String,
        failure: Failure,
    },
}

/// What one route makes of an event.
#[derive(Debug)]
pub enum Piece {
    /// The route's number, counted from 1.
    Message(usize, Message),
    /// The row's id, as its dead letters have it.
    Failed(String, Unpublished),
}

impl Piece {
    /// The event's id.
    pub fn id(&self) -> &str {
        match self {
            Piece::Message(_, message) => &message.id,
            Piece::Failed(id, _) => id,
        }
    }

    pub fn into_message(self) -> Option<Message> {
        match self {
            Piece::Message(_, message) => Some(message),
            Piece::Failed(..) => None,
        }
    }
}

/// A table that rows cannot be prepared of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    Outbox(MissingColumns),
    Route(NoColumn),
}

impl From<MissingColumns> for Misfit {
    fn from(missing: MissingColumns) -> Misfit {
        Misfit::Outbox(missing)
    }
}

impl From<NoColumn> for Misfit {
    fn from(missing: NoColumn) -> Misfit {
        Misfit::Route(missing)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::Outbox(missing) => missing.fmt(f),
            Misfit::Route(missing) => write!(f, "a route or filter cannot be followed: {missing}"),
        }
    }
}

#[derive(Debug)]
pub struct Preparer {
    outbox: Outbox,
    encoder: Encoder,
    filter: Filter,
    routes: Vec<Route>,
    unrouted: Unrouted,
    /// The roles in the table's present definition, resolved once for each.
    bound: Option<(Arc<Table>, Roles)>,
    /// Of the row that is being prepared, with their routes' numbers; kept for their room.
    addresses: Vec<(usize, Address)>,
    pieces: Vec<Piece>,
    /// Where events go that cannot be encoded, if they are to be compared all the same.
    unfit: Option<Unfit>,
}

impl Preparer {
    pub fn new(outbox: Outbox, encoder: Encoder, routes: Vec<Route>) -> Preparer {
        Preparer {
            outbox,
            encoder,
            filter: Filter::default(),
            routes,
            unrouted: Unrouted::Fail,
            bound: None,
            addresses: Vec::new(),
            pieces: Vec::new(),
            unfit: None,
        }
    }

    /// Events that cannot be encoded go there, each with messages that have an address and no value.
    #[must_use]
    pub fn comparing(mut self, unfit: &Unfit) -> Preparer {
        self.unfit = Some(unfit.clone());
        self
    }

    /// What else decides whether a row is published.
    #[must_use]
    pub fn choosing(mut self, filter: Filter, unrouted: Unrouted) -> Preparer {
        self.filter = filter;
        self.unrouted = unrouted;
        self
    }

    /// Decides about a row; the messages of an event go to `into`, all of them or none.
    pub fn prepare(
        &mut self,
        row: &Row,
        into: &mut impl Extend<Message>,
    ) -> Result<Outcome, Misfit> {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let outcome = self.prepare_each(row, &mut pieces)?;
        let failed = pieces.iter().find_map(|piece| match piece {
            Piece::Failed(id, row) => Some((id.clone(), row.failure.clone())),
            Piece::Message(..) => None,
        });
        if failed.is_none() {
            into.extend(pieces.drain(..).filter_map(Piece::into_message));
        }
        self.pieces = pieces;
        Ok(match failed {
            Some((id, failure)) => Outcome::Fail { id, failure },
            None => outcome,
        })
    }

    /// The same route by route: an event that cannot be published through one may be through another.
    pub fn prepare_each(&mut self, row: &Row, into: &mut Vec<Piece>) -> Result<Outcome, Misfit> {
        if let Some(skip) = skipped(row.change) {
            return Ok(Outcome::Skip(skip));
        }
        self.bind(&row.table)?;
        let Some((_, roles)) = &self.bound else {
            unreachable!("bound a line ago")
        };
        // Before anything that may fail: a rule can be the way past a row that cannot be published.
        if !self.filter.is_empty() && !is_sentinel(row, roles) {
            match self.filter.rule(row) {
                Ok(None) => {}
                Ok(Some(rule)) => return Ok(Outcome::Filtered(rule)),
                Err(failure) => return Ok(failed(row, roles, failure)),
            }
        }
        let event = match classify(row, roles) {
            Disposition::Skip(skip) => return Ok(Outcome::Skip(skip)),
            Disposition::Fail(failure) => return Ok(failed(row, roles, failure)),
            Disposition::Keep(event) => event,
        };
        self.addresses.clear();
        for (index, route) in self.routes.iter_mut().enumerate() {
            match route.address(row) {
                Ok(address) => self.addresses.extend(address.map(|it| (index + 1, it))),
                Err(failure) => {
                    let address = route.beginnings(row);
                    into.push(unpublished(&event, index + 1, address, failure));
                }
            }
        }
        if self.addresses.is_empty() && into.is_empty() {
            return Ok(match self.unrouted {
                Unrouted::Skip => Outcome::Skip(Skip::Unrouted),
                Unrouted::Fail => failed(row, roles, unrouted(&event)),
            });
        }
        if !self.addresses.is_empty() {
            encode(
                (&mut self.encoder, self.unfit.as_ref()),
                &event,
                &mut self.addresses,
                into,
            );
        }
        Ok(Outcome::Publish {
            event_date: event.event_date,
        })
    }

    /// Of the row that was prepared last.
    pub fn roles(&self) -> Option<&Roles> {
        self.bound.as_ref().map(|(_, roles)| roles)
    }

    /// The topics that a row leads to, as far as it can be published; it is not encoded.
    pub fn topics(&mut self, row: &Row) -> Result<Vec<Arc<str>>, Misfit> {
        if skipped(row.change).is_some() {
            return Ok(Vec::new());
        }
        self.bind(&row.table)?;
        let Some((_, roles)) = &self.bound else {
            unreachable!("bound a line ago")
        };
        if is_sentinel(row, roles) || !matches!(self.filter.rule(row), Ok(None)) {
            return Ok(Vec::new());
        }
        let taking = self.routes.iter_mut().filter_map(|route| {
            let takes = route.takes(row).ok()?;
            takes.then(|| route.topic(row).ok()).flatten()
        });
        Ok(taking.collect())
    }

    /// The rules of the user's filter.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.filter.rules()
    }

    /// What was noticed about payloads since it was last asked; each thing once. Without a notice nothing is allocated.
    pub fn notices(&mut self) -> Vec<String> {
        self.encoder.notices()
    }

    /// How many members of payloads have been dropped because their schema does not have them.
    pub fn unknown_members(&self) -> u64 {
        self.encoder.unknown_members()
    }

    /// The row's id, as a message or a failure of it tells it; of a table that is bound already.
    pub fn id_of(&self, row: &Row) -> Option<String> {
        let (_, roles) = self.bound.as_ref()?;
        Some(event_id(row, roles))
    }

    fn bind(&mut self, table: &Arc<Table>) -> Result<(), Misfit> {
        if matches!(&self.bound, Some((bound, _)) if Arc::ptr_eq(bound, table)) {
            return Ok(());
        }
        self.bound = None;
        let roles = self.outbox.bind(table)?;
        self.filter.bind(table, &roles)?;
        for route in &mut self.routes {
            route.bind(table, &roles)?;
        }
        self.bound = Some((Arc::clone(table), roles));
        Ok(())
    }
}

/// The value is encoded once and shared.
fn encode(
    (encoder, unfit): (&mut Encoder, Option<&Unfit>),
    event: &Event<'_>,
    addresses: &mut Vec<(usize, Address)>,
    into: &mut Vec<Piece>,
) {
    let value = match (encoder.encode(event), unfit) {
        (Err(failure), Some(unfit)) => {
            unfit.put(&event.id, event.event_date, (failure, addresses.len()));
            Ok(Bytes::new())
        }
        (value, _) => value.map(Bytes::copy_from_slice),
    };
    let content = encoder.content();
    into.extend(addresses.drain(..).map(|(number, address)| match &value {
        Ok(value) => {
            let message = Message {
                id: Id::from(&*event.id),
                address,
                content,
                value: value.clone(),
            };
            Piece::Message(number, message)
        }
        Err(failure) => {
            let Address { topic, key, .. } = address;
            unpublished(event, number, (Some(topic), key), failure.clone())
        }
    }));
}

fn unpublished(
    event: &Event<'_>,
    number: usize,
    (topic, key): (Option<Arc<str>>, Option<Bytes>),
    failure: Failure,
) -> Piece {
    let row = Unpublished {
        route: Some(number),
        topic,
        key,
        failure,
        out_of_order: false,
    };
    Piece::Failed(event.id.to_string(), row)
}

fn failed(row: &Row, roles: &Roles, failure: Failure) -> Outcome {
    Outcome::Fail {
        id: event_id(row, roles),
        failure,
    }
}

fn unrouted(event: &Event<'_>) -> Failure {
    let why = format!(
        "no route takes an event of type {} in {}",
        &*event.event_type, &*event.namespace
    );
    Failure::new(Kind::Unroutable, why)
}
