//! What only the catalog can tell about a relation in the stream: whether it is the outbox's, and what its types are.
//!
//! The catalog speaks of today, the stream of the past. So a relation that is no partition of the outbox today still
//! counts as one if the publication holds nothing but the outbox: what else could have come through it?

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use super::Settings;
use super::facts::Facts;
use super::rows::{Answer, Question};
use super::session::{Session, cell};
use super::value::Kind;
use crate::Error;

/// An answer under way.
pub(super) type Looking = Pin<Box<dyn Future<Output = Result<(Question, Answer), Error>> + Send>>;

#[derive(Clone)]
pub(super) struct Catalog {
    pub session: Arc<Session>,
    pub settings: Settings,
    /// Nothing but the outbox is in the publication.
    only_outbox: bool,
}

impl Catalog {
    pub(super) fn new(session: Session, settings: &Settings, facts: &Facts) -> Catalog {
        let publication = facts.publication.as_ref();
        Catalog {
            session: Arc::new(session),
            settings: settings.clone(),
            only_outbox: publication.is_some_and(|publication| publication.only_table),
        }
    }

    /// Begins to look. The future keeps what it has done so far wherever it is kept.
    pub(super) fn look(&self, question: Question) -> Looking {
        let catalog = self.clone();
        Box::pin(async move {
            let is_outbox =
                catalog.only_outbox || catalog.is_partition(question.relation.id).await?;
            let kinds = if is_outbox || catalog.is_named_so(&question) {
                catalog.kinds(&question.types).await?
            } else {
                HashMap::new()
            };
            Ok((question, Answer { is_outbox, kinds }))
        })
    }

    fn is_named_so(&self, question: &Question) -> bool {
        let Question { relation, .. } = question;
        relation.schema == self.settings.schema && relation.name == self.settings.table
    }

    async fn is_partition(&self, relation: u32) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (
                     SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                            CROSS JOIN LATERAL pg_partition_tree(c.oid) t
                      WHERE n.nspname = $1::text AND c.relname = $2::text AND $3::oid IN (c.oid, t.relid::oid))";
        let Settings { schema, table, .. } = &self.settings;
        let row = self.session.row(sql, &[schema, table, &relation]).await?;
        row.map_or(Ok(false), |row| cell(&row, 0))
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
