//! What the server's error codes ask for: one table from SQLSTATE to another try, or a person and what to do.

use std::error::Error as _;
use std::io;

use super::{Settings, rights, wire};
use crate::{Error, tls};

pub(super) fn of_sql(error: &tokio_postgres::Error, settings: &Settings) -> Error {
    if let Some(db) = error.as_db_error() {
        return of_code(db.code().code(), db.message(), settings);
    }
    let broken = error.source().and_then(|cause| cause.downcast_ref());
    if let Some(error) = broken.and_then(|broken| of_wire(broken, settings)) {
        return error;
    }
    let cause = error.source().map(ToString::to_string);
    if cause.as_deref() == Some("password missing") {
        return Error::fatal(
            format!("the server asks for the password of role {}", settings.user),
            PASSWORD,
        );
    }
    let why = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    Error::transient(format!("{error}{why}"))
}

/// What only the connection itself can know: it may tell after the handshake that it is refused.
fn of_wire(error: &io::Error, settings: &Settings) -> Option<Error> {
    if let Some(cause) = crate::wire::tls_error(error) {
        let server = settings.servers.first()?;
        return Some(tls::verdict(cause, server, wire::WORDS));
    }
    let wire::ClearText = error.get_ref()?.downcast_ref()?;
    Some(Error::fatal(
        format!(
            "the server asks for the password of role {} in clear text, and the connection is not encrypted",
            settings.user
        ),
        "encrypt it with source.tls.mode, or use scram-sha-256 instead of password in pg_hba.conf",
    ))
}

/// The replication client gives the code only inside the text: `... (SQLSTATE 42704)`.
pub(super) fn of_text(text: &str, settings: &Settings) -> Error {
    let found = text
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once(" (SQLSTATE "));
    match found {
        Some((message, code)) => of_code(code, message, settings),
        None => Error::transient(text),
    }
}

pub(super) fn of_authentication(text: &str, settings: &Settings) -> Error {
    Error::fatal(
        format!(
            "the server and Headwater do not agree how role {} proves itself: {text}",
            settings.user
        ),
        "use scram-sha-256 in pg_hba.conf, and set the role's password again so that it is stored that way",
    )
}

pub(super) const PASSWORD: &str = "give the right one in source.password_file, source.password_command or \
     HEADWATER__SOURCE__PASSWORD";

fn of_code(code: &str, message: &str, settings: &Settings) -> Error {
    match advice(code, settings) {
        // Slot or publication are gone, or log that the slot still needed.
        Some(advice) if matches!(code, "42704" | "58P01") => Error::lost(message, advice),
        Some(advice) => Error::fatal(message, advice),
        None => Error::transient(message),
    }
}

/// `None`: trying again may help.
fn advice(code: &str, settings: &Settings) -> Option<String> {
    let Settings {
        user,
        database,
        schema,
        table,
        publication,
        slot,
        ..
    } = settings;
    Some(match code {
        "28P01" => format!("the server refused the password of role {user}: {PASSWORD}"),
        "28000" => format!(
            "role {user} must exist and be let in: CREATE ROLE or ALTER ROLE \"{user}\" LOGIN REPLICATION; and a line in pg_hba.conf such as \
             `host {database} {user} <Headwater's address>/32 scram-sha-256`, then SELECT pg_reload_conf(); if it says \
             \"no encryption\", the server wants TLS (source.tls.mode), and if it asks for a certificate, \
             source.tls.cert and source.tls.key"
        ),
        "3D000" => format!(
            "database {database} is not on this server: name the right database or server in source.url"
        ),
        "42501" => format!(
            "give role {user} what it needs: ALTER ROLE \"{user}\" REPLICATION; {}",
            rights::of_a_role(settings).join(" ")
        ),
        "42704" => format!(
            "slot {slot} and publication {publication} must both exist, and the publication must be the older one \
             (a publication made after the slot is not seen by it): `headwater init` makes what is missing; \
             if the slot was lost, events since the last position may be missing, and `headwater recover` publishes them \
             from the table"
        ),
        "42P01" => format!(
            "table {schema}.{table} is not in database {database}: create it, or name the right one in source.table"
        ),
        "55000" => "`headwater check` says what is missing: wal_level must be logical, and the slot must be valid"
            .to_owned(),
        "53400" => "raise max_replication_slots (ALTER SYSTEM SET max_replication_slots = 20; then restart the server), \
                    or drop a slot that nobody uses: SELECT slot_name FROM pg_replication_slots WHERE NOT active; \
                    SELECT pg_drop_replication_slot('...');"
            .to_owned(),
        "58P01" => format!(
            "the server has removed log that slot {slot} still needed, so events are missing from the stream: `headwater \
             recover` makes the slot anew and publishes them from the table"
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::setup::tests::settings;
    use super::*;

    #[test]
    fn a_person_is_asked_for_what_only_a_person_can_mend() {
        for (code, says) in [
            ("28P01", "password of role cdc"),
            ("28000", "pg_hba.conf"),
            ("3D000", "database shop"),
            ("42501", "ALTER ROLE \"cdc\" REPLICATION"),
            ("42704", "headwater init"),
            ("42P01", "table eventlog.events"),
            ("55000", "headwater check"),
            ("53400", "max_replication_slots"),
            ("58P01", "headwater recover"),
        ] {
            let error = of_text(&format!("what (it) said (SQLSTATE {code})"), &settings());
            let (Error::Fatal { what, advice } | Error::Lost { what, advice }) = error else {
                panic!("{code} is not fatal");
            };
            assert_eq!(what, "what (it) said");
            assert!(advice.contains(says), "{advice}");
        }
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        let codes = [
            "53300", "55006", "57P01", "57P02", "57P03", "57P05", "08006", "08001", "57014",
            "XX000", "40001",
        ];
        for code in codes {
            let error = of_text(&format!("said (SQLSTATE {code})"), &settings());
            assert_eq!(error, Error::transient("said"), "{code}");
        }
        let error = of_text("unknown server error", &settings());
        assert_eq!(error, Error::transient("unknown server error"));
    }
}
