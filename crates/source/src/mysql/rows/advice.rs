//! What is said when the log cannot be read on.

use super::super::flavor::Flavor;
use super::super::position::Last;
use super::super::reader::Malformed;
use super::super::statement::Outbox;
use super::super::table::Unfit;
use crate::Error;

type Place<'a> = (&'a str, u64);

/// Only the transaction itself is passed over so.
const BEHIND: &str = "`headwater adopt --at POSITION` goes on behind this transaction: POSITION is the remembered GTIDs with this \
     transaction's (MariaDB: its GTID; without GTIDs FILE:OFFSET of its end), which `mysqlbinlog` shows. Without --at all that was \
     committed until now would be passed over";

/// Of a log that does not name them.
const ANEW: &str = "for rows that were written before, `headwater adopt --at POSITION` with the remembered position reads the \
     columns from the table as it is now, and passes over nothing";

pub(super) fn malformed(malformed: Malformed, (file, offset): Place<'_>) -> Error {
    Error::fatal(
        format!("the event at {file}:{offset} of the binlog cannot be read: {malformed}"),
        "nothing was passed over; compare with what `mysqlbinlog --verify-binlog-checksum` says about this place; if it can \
         read it, report this with the server's version",
    )
}

pub(super) fn unknown(kind: u8, (file, offset): Place<'_>) -> Error {
    Error::fatal(
        format!("the event at {file}:{offset} of the binlog is of the unknown type {kind}"),
        "nothing was passed over; it may change rows, so a version of Headwater that knows it is needed",
    )
}

pub(super) fn incident(what: &str, (file, offset): Place<'_>) -> Error {
    Error::fatal(
        format!("the server says at {file}:{offset} that its binlog is not complete: {what}"),
        format!(
            "events may be missing there: look for what was lost in the server's error log. Then {BEHIND}"
        ),
    )
}

pub(super) fn encrypted((file, offset): Place<'_>) -> Error {
    Error::fatal(
        format!("from {file}:{offset} on the binlog is encrypted"),
        "Headwater does not read encrypted binlogs of MariaDB: set encrypt_binlog = OFF and restart the server",
    )
}

pub(super) fn statement(outbox: Outbox<'_>, (file, offset): Place<'_>) -> Error {
    let Outbox { schema, table } = outbox;
    Error::fatal(
        format!(
            "the binlog has a statement that changes {schema}.{table} at {file}:{offset}, not the rows that it changed"
        ),
        format!(
            "SET GLOBAL binlog_format = ROW, and let no session set another; what this statement wrote cannot be read from the \
             log: publish it by hand if it was events. Then {BEHIND}"
        ),
    )
}

pub(super) fn redefined(outbox: Outbox<'_>, (file, offset): Place<'_>) -> Error {
    let Outbox { schema, table } = outbox;
    Error::fatal(
        format!(
            "the definition of {schema}.{table} was changed at {file}:{offset}, and the binlog does not name columns"
        ),
        format!(
            "SET GLOBAL binlog_row_metadata = FULL, so that later changes tell themselves; the columns are read anew by `headwater \
             adopt`, as they are then. {BEHIND}"
        ),
    )
}

pub(super) fn unfit(unfit: &Unfit, outbox: Outbox<'_>, (file, offset): Place<'_>) -> Error {
    let Outbox { schema, table } = outbox;
    match unfit {
        Unfit::Malformed(wrong) => malformed(*wrong, (file, offset)),
        Unfit::Nameless => Error::fatal(
            format!("the binlog does not name the columns of {schema}.{table} at {file}:{offset}"),
            format!("SET GLOBAL binlog_row_metadata = FULL; {ANEW}"),
        ),
        Unfit::Changed(how) => Error::fatal(
            format!(
                "{schema}.{table} is not the table that it was, at {file}:{offset} of the binlog: {how}"
            ),
            format!(
                "SET GLOBAL binlog_row_metadata = FULL, so that the log itself names the columns; {ANEW}"
            ),
        ),
        Unfit::Unknown(code) => Error::fatal(
            format!(
                "{schema}.{table} has a column of the unknown type {code}, at {file}:{offset} of the binlog"
            ),
            "no column behind it can be found: drop it, or give it another type",
        ),
    }
}

pub(super) fn taken_back(outbox: Outbox<'_>, (file, offset): Place<'_>) -> Error {
    let Outbox { schema, table } = outbox;
    Error::fatal(
        format!(
            "a large transaction with rows of {schema}.{table} was rolled back at {file}:{offset}, though its rows stand in \
             the binlog: they may have been published"
        ),
        format!(
            "this happens where a transaction also writes to tables that know no transactions (MyISAM), or to temporary ones (do \
             not mix them with the outbox), and where the server died while it wrote the transaction to its log: look at the \
             table whether the rows are there. {BEHIND}"
        ),
    )
}

pub(super) fn not_held(xid: &str, outbox: Outbox<'_>, (file, offset): Place<'_>) -> Error {
    let Outbox { schema, table } = outbox;
    Error::fatal(
        format!(
            "the XA transaction {xid} with rows of {schema}.{table} was prepared at {file}:{offset}, and the log did not say \
             where it began that it would be: its rows have been published before its end"
        ),
        "look at XA RECOVER whether it is committed; if it is rolled back, what was published of it never happened; go on \
         behind this place with `headwater adopt`, and report this with the server's version",
    )
}

pub(super) fn too_many_prepared(count: usize, (file, offset): Place<'_>) -> Error {
    Error::fatal(
        format!(
            "more than {count} XA transactions are prepared at {file}:{offset}, and none of them has ended there: Headwater \
             does not follow so many"
        ),
        "look at XA RECOVER, and commit or roll back what nobody else will end. The log before this place stays as it is, so \
         that a new start comes here again: once all have ended, `headwater adopt` goes on at the present end of the log; \
         events from the remembered position up to there are not published then: compare table and topics, and publish by \
         hand what is missing",
    )
}

pub(super) fn once_more(transaction: &str, (file, offset): Place<'_>) -> Error {
    Error::transient(format!(
        "the XA transaction {transaction} was committed at {file}:{offset}, and has more rows of the outbox than can be held \
         until then: the log is read again from before it"
    ))
}

pub(super) fn never_prepared(xid: &str, (file, offset): Place<'_>) -> Error {
    Error::fatal(
        format!(
            "XA COMMIT {xid} at {file}:{offset} ends a transaction that was prepared before this pipeline began"
        ),
        format!(
            "its rows stand in the log before the position, and were not published: compare with the table, publish what is \
             missing. Then {BEHIND}"
        ),
    )
}

pub(super) fn reset(expected: &Last, found: &Last, flavor: Flavor) -> Error {
    let told = |last: &Last| {
        let time = headwater_core::instant::Instant(last.committed);
        format!("{}, committed at {time}", last.name())
    };
    Error::lost(
        format!(
            "the last transaction before the position was {}; this server has {} in its place: its binlog was reset, or it \
             is another {flavor} server",
            told(expected),
            told(found)
        ),
        "what was written meanwhile is not known: `headwater recover` publishes what the table has and the topics do not; \
         `headwater adopt` begins anew at the end of the log, and passes over all that was committed until then",
    )
}
