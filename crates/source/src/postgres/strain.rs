//! How hard a slot presses on the server's disk, and what to do about it. Pure: `check` and whoever watches a run say the same.

use super::Settings;
use super::facts::{Server, SlotFacts};

const MIB: i64 = 1 << 20;

/// Each is worse than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strain {
    None,
    /// More is kept than the server would keep for itself, without any limit.
    Unlimited,
    /// Half of what the server keeps at most is used up.
    Half,
    /// What is still needed may be gone at the next checkpoint.
    Unreserved,
}

impl Strain {
    pub(super) fn of(slot: &SlotFacts, server: &Server) -> Strain {
        let limit = server.max_slot_wal_keep_mb.saturating_mul(MIB);
        let is_limited = server.max_slot_wal_keep_mb >= 0;
        let retained = slot.retained_bytes.unwrap_or_default();
        let is_short = slot
            .safe_bytes
            .is_some_and(|safe| safe.saturating_mul(2) < limit);
        match slot.wal_status.as_deref() {
            Some("unreserved") => Strain::Unreserved,
            _ if is_limited && (retained.saturating_mul(2) > limit || is_short) => Strain::Half,
            Some("extended") if !is_limited => Strain::Unlimited,
            _ => Strain::None,
        }
    }

    /// What is to be said of it, and what mends it.
    pub(super) fn told(
        self,
        slot: &SlotFacts,
        server: &Server,
        settings: &Settings,
    ) -> Option<(String, String)> {
        let name = &settings.slot;
        let mib = slot.retained_bytes.unwrap_or_default() / MIB;
        let keep = server.max_slot_wal_keep_mb;
        let raise = |mib: i64| {
            format!("ALTER SYSTEM SET max_slot_wal_keep_size = '{mib}MB'; SELECT pg_reload_conf();")
        };
        Some(match self {
            Strain::None => return None,
            Strain::Unlimited => (
                format!(
                    "slot {name} makes the server keep {mib} MiB of log, more than max_wal_size, and nothing limits it: a full disk stops \
                     the server"
                ),
                format!(
                    "let Headwater catch up, and watch the disk; a limit gives up the slot, and events, instead of the server: {}",
                    raise(mib.saturating_mul(4))
                ),
            ),
            Strain::Half => (
                format!(
                    "slot {name} holds back {mib} MiB of log, and is invalidated at {keep} MiB"
                ),
                format!(
                    "let Headwater catch up, or allow more: {}",
                    raise(keep.max(mib).saturating_mul(2))
                ),
            ),
            Strain::Unreserved => (
                format!("the server is about to remove log that slot {name} still needs"),
                format!(
                    "let Headwater catch up now, and allow more: {}",
                    raise(keep.max(mib).saturating_mul(2))
                ),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::tests::settings;
    use super::*;

    fn strain(status: &str, retained_mib: i64, safe_mib: Option<i64>, keep_mb: i64) -> Strain {
        let slot = SlotFacts {
            wal_status: Some(status.into()),
            retained_bytes: Some(retained_mib * MIB),
            safe_bytes: safe_mib.map(|it| it * MIB),
            ..SlotFacts::default()
        };
        let server = Server {
            max_slot_wal_keep_mb: keep_mb,
            ..Server::default()
        };
        let strain = Strain::of(&slot, &server);
        let told = strain.told(&slot, &server, &settings());
        assert_eq!(told.is_some(), strain > Strain::None);
        strain
    }

    #[test]
    fn a_slot_that_is_followed_presses_on_nothing() {
        assert_eq!(strain("reserved", 5000, None, -1), Strain::None);
        assert_eq!(strain("reserved", 400, Some(600), 1000), Strain::None);
        assert_eq!(strain("extended", 4000, Some(6000), 10_000), Strain::None);
    }

    #[test]
    fn what_the_server_keeps_beyond_its_own_need_is_told_with_its_limit_or_that_there_is_none() {
        assert_eq!(strain("extended", 4000, None, -1), Strain::Unlimited);
        assert_eq!(strain("reserved", 600, None, 1000), Strain::Half);
        assert_eq!(strain("extended", 400, Some(499), 1000), Strain::Half);
        assert_eq!(
            strain("unreserved", 900, Some(-3), 1000),
            Strain::Unreserved
        );
    }
}
