//! What our user may do on the server, and whether our number is free there.

use super::super::super::answer::text;
use super::super::super::facts::Facts;
use super::super::super::session::{Session, application};
use super::super::super::stream::register_as;
use super::super::super::verdict::Refusal;
use super::super::super::{Flavor, Settings, ident, rights};
use super::super::needs_a_lock;
use super::Findings;
use crate::Error;

impl Findings {
    /// Trying is better than reading grants: roles and managed services have rules of their own.
    pub(super) async fn rights(&mut self, session: &mut Session, settings: &Settings) {
        let user = &settings.user;
        let [log, _] = &rights::of_a_user(settings);
        // Under another number than our own: that may be at work.
        let guest = settings.server_id ^ 0x8000_0000;
        match register_as(session, guest, "headwater check").await {
            Ok(()) => self.ok(format!("user {user} may replicate")),
            Err(Error::Fatal { what, .. }) => {
                self.problem(format!("user {user} may not replicate: {what}"), log);
            }
            Err(error) => self.error(error),
        }
    }

    /// Without GTIDs a snapshot begins with a lock. Only the right is tried, on a table that is not there: nobody waits for it.
    pub(super) async fn locking(
        &mut self,
        session: &mut Session,
        facts: &Facts,
        settings: &Settings,
    ) -> Result<(), Error> {
        if !needs_a_lock(session, facts).await? {
            return Ok(());
        }
        let schema = ident(&settings.schema);
        let ask = format!("LOCK TABLES {schema}.{} READ", ident("headwater: no table"));
        if let Err(Refusal { code: 1044, .. }) = session.ask(&ask).await? {
            self.warning(
                format!(
                    "user {} may not lock tables: without GTIDs a snapshot (source.snapshot = \"initial\" or \"only\") cannot begin",
                    settings.user
                ),
                rights::to_lock(settings),
            );
        }
        Ok(())
    }

    /// Somebody else with our number would be thrown out by us, and we by them.
    pub(super) async fn number(
        &mut self,
        session: &mut Session,
        settings: &Settings,
    ) -> Result<(), Error> {
        let statements = match settings.flavor {
            Flavor::MySql => ["SHOW REPLICAS", "SHOW SLAVE HOSTS"],
            Flavor::MariaDb => ["SHOW SLAVE HOSTS", "SHOW REPLICA HOSTS"],
        };
        for ask in statements {
            let Ok(answer) = session.ask(ask).await? else {
                continue;
            };
            let ours = settings.server_id.to_string();
            let same = answer
                .rows
                .iter()
                .find(|row| text(row, 0).as_ref() == Some(&ours));
            let host = same.and_then(|row| text(row, 1));
            if same.is_some() && host.as_deref() != Some(application(settings).as_str()) {
                self.problem(
                    format!(
                        "a replica ({}) is connected with our server_id {ours}: the server throws one of the two out",
                        host.unwrap_or_default()
                    ),
                    "give this pipeline a number of its own in source.server_id",
                );
            }
            break;
        }
        Ok(())
    }
}
