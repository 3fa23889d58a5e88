//! The last transaction before a position that the server told: by its commit time a server is known that was reset and has
//! since written more. A run remembers it of what it reads; a pipeline that has read nothing yet has to look.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::source::Item;
use tokio::time::timeout;

use super::super::Settings;
use super::super::gtid::{Gtid, Gtids, MariaDbGtid, MySqlGtid};
use super::super::position::{Identity, Last, Position};
use super::super::rows::Rows;
use super::super::session::Session;
use super::super::stream::{Ended, From, Stream};
use super::super::verdict;
use crate::Error;

const LIMIT: Duration = Duration::from_secs(10);

/// Read as a run would read it first, under another number than the pipeline's own, which may be somebody's. `None` where the log cannot
/// be asked for it by name, or does not answer soon: then nothing can be compared until a transaction was read.
pub(super) async fn of(
    position: &Position,
    identity: &Identity,
    settings: &Settings,
) -> Option<Last> {
    let (gtid, before) = newest(&position.gtids, &identity.server)?;
    let wanted = Position {
        last: Some(Last {
            gtid: Some(gtid),
            committed: 0,
            file: "".into(),
            offset: 0,
            before,
            server: None,
        }),
        ..position.clone()
    };
    let early = Position {
        gtids: wanted.early()?,
        last: None,
        ..position.clone()
    };
    let first = timeout(LIMIT, first_after(early, identity, settings)).await;
    let (first, wanted) = (first.ok()?.ok()?, wanted.last?);
    (first.gtid == wanted.gtid && first.before == wanted.before).then_some(first)
}

/// The newest that the server has written itself, or else that of another one; on MariaDB also the one before it.
fn newest(gtids: &Gtids, server: &str) -> Option<(Gtid, Option<Gtid>)> {
    match gtids {
        Gtids::MySql(set) if !set.has_tags() => {
            let sources = set.intervals();
            let own = sources.iter().find(|(sid, _)| sid.to_string() == server);
            let (sid, intervals) = own.or(sources.first())?;
            let (_, number) = *intervals.last()?;
            let sid = sid.clone();
            Some((Gtid::MySql(MySqlGtid { sid, number }), None))
        }
        Gtids::MariaDb(list) => {
            let (domain, _) = server.split_once('-')?;
            let own = list.of(domain.parse().ok()?);
            let gtid = own.or(list.iter().next())?;
            // If another server wrote the one before, ours says that it has none of that name.
            let sequence = gtid.sequence.checked_sub(1).filter(|it| *it > 0)?;
            let before = MariaDbGtid { sequence, ..gtid };
            Some((Gtid::MariaDb(gtid), Some(Gtid::MariaDb(before))))
        }
        _ => None,
    }
}

async fn first_after(
    early: Position,
    identity: &Identity,
    settings: &Settings,
) -> Result<Last, Error> {
    let from = match &early.gtids {
        Gtids::MariaDb(list) => From::AfterList(list.to_string()),
        Gtids::MySql(set) => From::After(set.clone()),
        Gtids::None => From::At(early.file.to_string(), early.offset),
    };
    let session = Session::open(settings).await?;
    let mut stream = Stream::begin(session.guest(), &from).await?;
    let (schema, table) = (&settings.schema, &settings.table);
    let layout = identity.layout.clone();
    let mut rows = Rows::new(identity.flavor, schema, table, early, layout, false)
        .on(&identity.server, &Arc::default());
    loop {
        let event = stream.next().await.map_err(|ended| match ended {
            Ended::Broken(error) => error,
            Ended::Refused(refusal) => verdict::of(&refusal, settings),
        })?;
        rows.take(event)?;
        while let Some(item) = rows.item()? {
            if let Item::Mark(Position {
                last: Some(last), ..
            }) = item
            {
                return Ok(last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const OTHER: &str = "0e11fa47-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn the_newest_transaction_is_the_servers_own_if_it_has_one() {
        let set = |text: &str| Gtids::MySql(text.parse().expect("a set"));
        let list = |text: &str| Gtids::MariaDb(text.parse().expect("a list"));
        let own = format!("{OTHER}:1-9,{UUID}:1-5:7-8");
        for (gtids, server, wanted) in [
            (set(&own), UUID, Some((format!("{UUID}:8"), None))),
            (
                set(&format!("{OTHER}:1-9")),
                UUID,
                Some((format!("{OTHER}:9"), None)),
            ),
            (set(""), UUID, None),
            (set(&format!("{UUID}:1-5:blue:1-2")), UUID, None),
            (
                list("0-2-9,1-1-5"),
                "1-1",
                Some(("1-1-5".into(), Some("1-1-4".to_owned()))),
            ),
            (
                list("0-2-9"),
                "1-1",
                Some(("0-2-9".into(), Some("0-2-8".to_owned()))),
            ),
            (list("0-1-1"), "0-1", None),
            (list(""), "0-1", None),
            (Gtids::None, UUID, None),
        ] {
            let found = newest(&gtids, server);
            let told =
                found.map(|(gtid, before)| (gtid.to_string(), before.map(|it| it.to_string())));
            assert_eq!(told, wanted, "{gtids}");
        }
    }
}
