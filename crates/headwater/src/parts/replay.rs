//! What makes messages of the rows of a replay: those of the pipeline, with a header, and to another topic if one is named.

use headwater_core::route::{Route, Unrouted};
use headwater_core::template::Template;

use super::{encoder, filter, outbox, routes};
use crate::config::{Config, ConfigError};
use crate::pipeline::Preparer;
use crate::replay::HEADER;

/// `topic` is a legal name, and so no template.
pub fn replayer(config: &Config, id: &str, topic: Option<&str>) -> Result<Preparer, ConfigError> {
    let topic = topic.map(Template::literal);
    let routes = routes(config)?.into_iter().map(|route| {
        let route = route.with_header(HEADER, Template::literal(id));
        match &topic {
            Some(topic) => route.to(topic.clone()),
            None => route,
        }
    });
    let routes: Vec<Route> = routes.collect();
    let preparer = Preparer::new(outbox(), encoder(config)?, routes);
    Ok(preparer.choosing(filter(config)?, config.unrouted()))
}

/// The same for one route alone, by its number, which is counted from 1. What it does not take is skipped.
pub fn replayer_of(config: &Config, id: &str, number: usize) -> Result<Preparer, ConfigError> {
    let routes = routes(config)?.into_iter();
    let route = routes.skip(number.saturating_sub(1)).take(1);
    let route = route.map(|route| route.with_header(HEADER, Template::literal(id)));
    let preparer = Preparer::new(outbox(), encoder(config)?, route.collect());
    Ok(preparer.choosing(filter(config)?, Unrouted::Skip))
}
