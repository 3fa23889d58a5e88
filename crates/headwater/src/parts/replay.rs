//! What makes messages of the rows of a replay: those of the pipeline, with a header, and to another topic if one is named.

use headwater_core::route::Route;

use super::{encoder, outbox, route};
use crate::config::{Config, ConfigError};
use crate::pipeline::Preparer;
use crate::replay::HEADER;

/// `topic` is a legal name, and so no template.
pub fn replayer(config: &Config, id: &str, topic: Option<&str>) -> Result<Preparer, ConfigError> {
    let routes = config.routes().iter().map(|it| {
        let route = match topic {
            Some(topic) => Route::parse(topic, it.key.value()).map_err(|bad| it.key.problem(bad)),
            None => route(it),
        };
        route.map(|route| route.with_header(HEADER, id))
    });
    let routes = routes.collect::<Result<Vec<Route>, ConfigError>>()?;
    Ok(Preparer::new(outbox(), encoder(config)?, routes))
}
