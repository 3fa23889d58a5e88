//! Prepared XA transactions at a pipeline's beginning: their rows stand in the log before any position that is taken while they are
//! open, and their end, which makes events of them, comes after it.

use std::collections::BTreeSet;

use tokio::time::{Instant, sleep};

use super::super::answer::{Cells, text};
use super::super::decode;
use super::super::session::Session;
use super::super::verdict::{self, Refusal};
use super::{ASK_EVERY, LIMIT};
use crate::Error;

/// Their names, as the log writes them.
pub(super) type Open = BTreeSet<String>;

pub(super) const NOT_SEEN: &str = "prepared XA transactions could not be looked for (XA RECOVER wants the right \
     XA_RECOVER_ADMIN): if there are any with rows of the outbox, commit or roll them back, and begin again";

/// Those that are open now; `None` if our user may not ask.
pub(super) async fn open(session: &mut Session) -> Result<Option<Open>, Error> {
    match session.ask("XA RECOVER").await? {
        Ok(answer) => Ok(Some(answer.rows.iter().map(named).collect())),
        Err(Refusal {
            code: 1227 | 1401 | 1045,
            ..
        }) => Ok(None),
        Err(refusal) => Err(verdict::of(&refusal, session.settings())),
    }
}

/// Waits until each of these has ended, however many others have been prepared since.
pub(super) async fn ended(session: &mut Session, those: &Open) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let now = open(session).await?.unwrap_or_default();
        let left: Vec<&str> = now.intersection(those).map(String::as_str).collect();
        let Some(one) = left.first() else {
            return Ok(());
        };
        if begun.elapsed() > LIMIT {
            return Err(Error::fatal(
                format!(
                    "{} prepared XA transactions are still open ({one}): their rows are in the log before any position that could \
                     be taken now",
                    left.len()
                ),
                "end them, or try again later: XA RECOVER; lists them, XA COMMIT or XA ROLLBACK ends each",
            ));
        }
        sleep(ASK_EVERY).await;
    }
}

/// Format, the lengths of its two parts, and the parts in one. What cannot be read is still a name.
fn named(row: &Cells) -> String {
    let read = || {
        let length = |place| text(row, place)?.parse::<usize>().ok();
        let (global, branch) = row.get(3)?.as_ref()?.split_at_checked(length(1)?)?;
        let format = text(row, 0)?.parse::<i32>().ok()?.cast_unsigned();
        (branch.len() == length(2)?).then(|| decode::xid(global, branch, format))
    };
    read().unwrap_or_else(|| format!("{row:?}"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_prepared_transaction_is_named_as_in_the_log() {
        let row = |cells: [&'static str; 4]| -> Cells {
            cells
                .map(|it| Some(Bytes::from_static(it.as_bytes())))
                .to_vec()
        };
        assert_eq!(named(&row(["7", "1", "2", "abK"])), "X'61',X'624b',7");
        assert_eq!(named(&row(["1", "3", "0", "abc"])), "X'616263',X'',1");
        // Never the same as another one, though it cannot be read.
        let odd = named(&row(["1", "9", "0", "abc"]));
        assert_ne!(odd, named(&row(["1", "9", "0", "abd"])));
    }
}
