//! A position that a person names: `headwater adopt --at`.

use super::super::facts::Facts;
use super::super::gtid::Gtids;
use super::super::position::{Identity, Position};
use super::super::session::Session;
use super::super::{Flavor, Settings, literal, resume};
use super::{fit, identity, last, parsed};
use crate::Error;

/// What was written: GTIDs, a place in a file, or both, as positions are shown.
#[derive(Debug, PartialEq)]
struct Named {
    gtids: Option<Gtids>,
    place: Option<(String, u64)>,
}

/// The position, if the server can serve it, and which log that is. Whoever asks holds the lock.
pub async fn named(settings: &Settings, at: &str) -> Result<(Position, Identity), Error> {
    let mut session = Session::open(settings).await?;
    let facts = Facts::read(&mut session).await?;
    let settings = &session.settings().clone();
    fit(&facts, settings)?;
    let named = read(at, settings.flavor).ok_or_else(|| unreadable(at, settings.flavor))?;
    let mut position = match (named.gtids, named.place) {
        (None, Some((file, offset))) if settings.flavor == Flavor::MariaDb => {
            let ask = format!("SELECT BINLOG_GTID_POS({}, {offset})", literal(&file));
            let answer = session.rows(&ask).await?;
            if answer.first().is_none() {
                let what = format!("{file}:{offset} is no place in the server's log");
                return Err(Error::fatal(what, form(settings.flavor)));
            }
            let list = parsed(&answer)?;
            Position::new(Gtids::MariaDb(list), &file, offset)
        }
        (gtids, place) => whole(gtids, place, &facts)?,
    };
    let identity = identity(&facts);
    resume::start(&identity, &position, &facts, settings)?;
    session.close().await;
    position.last = last::of(&position, &identity, settings).await;
    Ok((position, identity))
}

/// `GTIDS`, `FILE:OFFSET` or `GTIDS (FILE:OFFSET)`.
fn read(at: &str, flavor: Flavor) -> Option<Named> {
    let gtids = |text: &str| match flavor {
        Flavor::MySql => text.parse().ok().map(Gtids::MySql),
        Flavor::MariaDb => text.parse().ok().map(Gtids::MariaDb),
    };
    let place = |text: &str| {
        let (file, offset) = text.rsplit_once(':')?;
        Some((file.to_owned(), offset.parse().ok()?))
    };
    let at = at.trim();
    if at.is_empty() {
        return None;
    }
    if let Some((before, within)) = at.strip_suffix(')').and_then(|at| at.split_once(" (")) {
        return Some(Named {
            gtids: Some(gtids(before)?),
            place: Some(place(within)?),
        });
    }
    let gtids = gtids(at);
    let place = if gtids.is_none() {
        Some(place(at)?)
    } else {
        None
    };
    Some(Named { gtids, place })
}

/// What counts on this server. A place alone would do where it names transactions, but could never be followed to another one.
fn whole(
    gtids: Option<Gtids>,
    place: Option<(String, u64)>,
    facts: &Facts,
) -> Result<Position, Error> {
    let names = facts.server.names_transactions();
    let tagged = matches!(&gtids, Some(Gtids::MySql(set)) if set.has_tags());
    let wrong = match (&gtids, &place) {
        (None, _) if names => "this server names its transactions, and the position has no GTIDs",
        (Some(_), None) if !names => "gtid_mode is not ON, and the position is no file and offset",
        (Some(_), None) if tagged => {
            "GTIDs with tags cannot be asked for, and the position has no file and offset"
        }
        _ => {
            // Without a file it can only be resumed by its GTIDs.
            let (file, offset) = place.unwrap_or_default();
            let gtids = gtids.filter(|_| names).unwrap_or_default();
            return Ok(Position::new(gtids, &file, offset));
        }
    };
    Err(Error::fatal(wrong, form(facts.server.flavor)))
}

fn unreadable(at: &str, flavor: Flavor) -> Error {
    Error::fatal(format!("\"{at}\" is no position"), form(flavor))
}

fn form(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::MySql => {
            "write the set of all transactions up to there, as in --at 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-57; where gtid_mode is \
             not ON, --at binlog.000007:1234; with tags both, as in --at 'SET (binlog.000007:1234)'"
        }
        Flavor::MariaDb => {
            "write the last GTID of each domain, as in --at 0-1-57, or the end of a transaction, as in --at binlog.000007:1234"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::sound;
    use super::*;

    const SET: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-57";

    fn told(at: &str, flavor: Flavor) -> Option<(String, String)> {
        let Named { gtids, place } = read(at, flavor)?;
        let place = place.map(|(file, offset)| format!("{file} {offset}"));
        let gtids = gtids.unwrap_or_default().to_string();
        Some((gtids, place.unwrap_or_default()))
    }

    #[test]
    fn a_position_is_read_as_it_is_shown() {
        use Flavor::{MariaDb, MySql};
        let both = format!("{SET} (binlog.000007:1234)");
        for (at, flavor, gtids, place) in [
            (SET, MySql, SET, ""),
            ("binlog.000007:1234", MySql, "", "binlog.000007 1234"),
            (both.as_str(), MySql, SET, "binlog.000007 1234"),
            ("0-1-57,3-1-2", MariaDb, "0-1-57,3-1-2", ""),
            ("my-log.000007:1234", MariaDb, "", "my-log.000007 1234"),
            ("0-1-57 (b.1:4)", MariaDb, "0-1-57", "b.1 4"),
        ] {
            assert_eq!(told(at, flavor), Some((gtids.into(), place.into())), "{at}");
        }
        for at in ["", "now", "binlog.000007", "binlog.000007:x", "x (b.1:4)"] {
            assert_eq!(told(at, MySql), None, "{at}");
            assert_eq!(told(at, MariaDb), None, "{at}");
        }
    }

    #[test]
    fn a_position_must_be_one_that_counts_on_the_server() {
        let take = |at: &str, mode: &str| {
            let mut facts = sound(Flavor::MySql);
            facts.server.set("gtid_mode", mode);
            let Named { gtids, place } = read(at, Flavor::MySql).expect("a position");
            whole(gtids, place, &facts).map(|position| position.to_string())
        };
        assert_eq!(take(SET, "ON"), Ok(SET.into()));
        assert_eq!(take("b.1:4", "OFF"), Ok("b.1:4".into()));
        let both = format!("{SET} (b.1:4)");
        assert_eq!(take(&both, "ON"), Ok(both.clone()));
        assert_eq!(take(&both, "OFF"), Ok("b.1:4".into()));
        let tagged = format!("{SET}:blue:1-2");
        assert!(take(&format!("{tagged} (b.1:4)"), "ON").is_ok());
        for (at, mode, says) in [
            (tagged.as_str(), "ON", "tags"),
            ("b.1:4", "ON", "has no GTIDs"),
            (SET, "OFF", "gtid_mode is not ON"),
        ] {
            let error = take(at, mode).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
