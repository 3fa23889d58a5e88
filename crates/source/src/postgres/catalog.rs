//! What only the catalog can tell about a relation in the stream: whether it is the outbox's, and what its types are.
//!
//! The catalog speaks of today, the stream of the past: a relation that is no partition of the outbox today may have been
//! one when the row was written. It counts as one if it has an outbox's columns, and either the publication holds nothing
//! but the outbox, or the relation is gone and the outbox is partitioned. If it is still there and the outbox is partitioned, only a
//! person can tell.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use headwater_core::event::Role;
use tokio_postgres::types::ToSql;

use super::Settings;
use super::decode::Relation;
use super::facts::Facts;
use super::rows::{Answer, Belongs, Question};
use super::session::{Session, cell};
use super::value::Kind;
use crate::Error;

/// An answer under way.
pub(super) type Looking = Pin<Box<dyn Future<Output = Result<(Question, Answer), Error>> + Send>>;

#[derive(Clone)]
pub(super) struct Catalog {
    pub session: Arc<Session>,
    pub settings: Settings,
    version: i32,
    /// The oid of the outbox: it stays, whatever the table is called later.
    outbox: u32,
}

impl Catalog {
    pub(super) fn new(session: Session, settings: &Settings, facts: &Facts) -> Catalog {
        Catalog {
            session: Arc::new(session),
            settings: settings.clone(),
            version: facts.server.version,
            outbox: facts.table.as_ref().map_or(0, |table| table.oid),
        }
    }

    /// Begins to look. The future keeps what it has done so far wherever it is kept.
    pub(super) fn look(&self, question: Question) -> Looking {
        let catalog = self.clone();
        Box::pin(async move {
            let belongs = if question.is_named_so {
                Belongs::Outbox
            } else {
                catalog.belongs(&question.relation).await?
            };
            let kinds = if belongs == Belongs::Outbox {
                catalog.kinds(&question.types).await?
            } else {
                HashMap::new()
            };
            Ok((question, Answer { belongs, kinds }))
        })
    }

    /// The outbox itself, a partition of it, or what must have been one.
    async fn belongs(&self, relation: &Relation) -> Result<Belongs, Error> {
        // Whole schemas can be published since version 15.
        let schemas = if self.version >= 150_000 {
            "EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid)"
        } else {
            "false"
        };
        let sql = format!(
            "SELECT $2::oid = $3::oid
                    OR EXISTS (SELECT FROM pg_partition_tree($2::oid::regclass) t WHERE t.relid::oid = $3::oid),
                    EXISTS (SELECT FROM pg_publication p
                             WHERE p.pubname = $1::text AND NOT p.puballtables AND NOT {schemas} AND NOT EXISTS (
                                   SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid <> $2::oid)),
                    EXISTS (SELECT FROM pg_class WHERE oid = $2::oid AND relkind = 'p'),
                    EXISTS (SELECT FROM pg_publication WHERE pubname = $1::text AND pubviaroot),
                    EXISTS (SELECT FROM pg_class WHERE oid = $3::oid)"
        );
        let named = [
            &self.settings.publication as &(dyn ToSql + Sync),
            &self.outbox,
            &relation.id,
        ];
        let Some(row) = self.session.row(&sql, &named).await? else {
            return Ok(Belongs::Doubtful);
        };
        let today = Today {
            is_outbox: cell(&row, 0)?,
            nothing_else_is_published: cell(&row, 1)?,
            outbox_is_partitioned: cell(&row, 2)?,
            via_root: cell(&row, 3)?,
            exists: cell(&row, 4)?,
        };
        Ok(today.judge(looks_like_one(relation)))
    }

    /// The outbox's columns as they are today.
    pub(super) async fn columns(&self) -> Result<Vec<(String, Kind)>, Error> {
        let sql = "SELECT a.attname::text, a.atttypid
                     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                     JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = $1::text AND c.relname = $2::text AND a.attnum > 0 AND NOT a.attisdropped
                    ORDER BY a.attnum";
        let Settings { schema, table, .. } = &self.settings;
        let mut columns: Vec<(String, u32)> = Vec::new();
        for row in self.session.rows(sql, &[schema, table]).await? {
            columns.push((cell(&row, 0)?, cell(&row, 1)?));
        }
        let oids: Vec<u32> = columns.iter().map(|(_, oid)| *oid).collect();
        let kinds = self.kinds(&oids).await?;
        let kind = |oid| kinds.get(&oid).cloned().unwrap_or(Kind::Text);
        let columns = columns.into_iter();
        Ok(columns.map(|(name, oid)| (name, kind(oid))).collect())
    }

    /// How each type is read; those that are gone are left out.
    async fn kinds(&self, oids: &[u32]) -> Result<HashMap<u32, Kind>, Error> {
        let sql = "WITH RECURSIVE found(asked, oid, name, kind, base) AS (
                     SELECT oid, oid, typname::text, typtype::text, typbasetype FROM pg_type WHERE oid = ANY($1::oid[])
                     UNION ALL
                     SELECT f.asked, t.oid, t.typname::text, t.typtype::text, t.typbasetype
                       FROM found f JOIN pg_type t ON t.oid = f.base WHERE f.kind = 'd')
                   SELECT asked, oid, name, kind FROM found WHERE kind <> 'd'";
        let oids = oids.to_vec();
        let mut kinds = HashMap::new();
        for row in self.session.rows(sql, &[&oids]).await? {
            let kind = kind_of(cell(&row, 1)?, cell(&row, 2)?, cell(&row, 3)?);
            kinds.insert(cell(&row, 0)?, kind);
        }
        Ok(kinds)
    }
}

/// What the catalog of today says about a relation in the stream.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "answers of the catalog, each yes or no"
)]
struct Today {
    is_outbox: bool,
    nothing_else_is_published: bool,
    outbox_is_partitioned: bool,
    via_root: bool,
    exists: bool,
}

impl Today {
    fn judge(self, looks_like_one: bool) -> Belongs {
        if self.is_outbox {
            return Belongs::Outbox;
        }
        if !looks_like_one {
            return Belongs::Foreign;
        }
        if self.nothing_else_is_published {
            return Belongs::Outbox;
        }
        match (self.outbox_is_partitioned, self.exists) {
            (true, false) => Belongs::Outbox,
            // Detached since, or always another outbox beside ours.
            (true, true) if !self.via_root => Belongs::Doubtful,
            _ => Belongs::Foreign,
        }
    }
}

pub(super) fn doubtful(table: &str, settings: &Settings) -> Error {
    let (outbox, publication) = (settings.qualified(), &settings.publication);
    Error::fatal(
        format!(
            "a row was inserted into {table}, which looks like an outbox and is no partition of {outbox} today: if it was \
             detached since, the row is an event"
        ),
        format!(
            "if it was a partition: ALTER TABLE {outbox} ATTACH PARTITION {table} ...; and detach it when Headwater has read \
             on. If it never was one: ALTER PUBLICATION \"{publication}\" SET (publish_via_partition_root = true); then \
             partitions come under the outbox's name, and others are not taken for them"
        ),
    )
}

fn looks_like_one(relation: &Relation) -> bool {
    let has = |role: Role| {
        relation
            .columns
            .iter()
            .any(|column| column.name == role.name())
    };
    Role::ALL.into_iter().all(has)
}

/// Of a type that is no domain.
fn kind_of(oid: u32, name: String, kind: &str) -> Kind {
    if let Some(builtin) = Kind::builtin(oid) {
        return builtin;
    }
    // An enum's label and citext travel as plain text, in binary form too.
    if kind == "e" || name == "citext" {
        Kind::Text
    } else {
        Kind::Other(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_a_partition_is_never_taken_for_foreign() {
        let detached = Today {
            is_outbox: false,
            nothing_else_is_published: false,
            outbox_is_partitioned: true,
            via_root: false,
            exists: true,
        };
        assert_eq!(detached.judge(true), Belongs::Doubtful);
        assert_eq!(detached.judge(false), Belongs::Foreign);
        let under_the_root = Today {
            via_root: true,
            ..detached
        };
        assert_eq!(under_the_root.judge(true), Belongs::Foreign);
        let dropped = Today {
            exists: false,
            ..detached
        };
        assert_eq!(dropped.judge(true), Belongs::Outbox);
        let alone = Today {
            nothing_else_is_published: true,
            ..detached
        };
        assert_eq!(alone.judge(true), Belongs::Outbox);
        let partition = Today {
            is_outbox: true,
            ..detached
        };
        assert_eq!(partition.judge(false), Belongs::Outbox);
    }

    #[test]
    fn beside_an_outbox_without_partitions_others_may_stand() {
        let neighbour = Today {
            is_outbox: false,
            nothing_else_is_published: false,
            outbox_is_partitioned: false,
            via_root: false,
            exists: true,
        };
        assert_eq!(neighbour.judge(true), Belongs::Foreign);
    }
}
