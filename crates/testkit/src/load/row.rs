//! One outbox row as the writers make it, whatever database it goes to.

use serde_json::json;
use uuid::Uuid;

use super::Committed;

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub id: Uuid,
    /// None: a sentinel, which says that an action happened and had no event.
    pub event: Option<(String, i64)>,
    pub payload: Option<String>,
}

impl Row {
    pub(super) fn event(id: Uuid, key: &str, seq: i64, padding: usize) -> Self {
        let payload = json!({
            "modelId": key, "modelName": "Wallet", "key": key, "seq": seq, "padding": "x".repeat(padding),
        });
        Self {
            id,
            event: Some((key.to_owned(), seq)),
            payload: Some(payload.to_string()),
        }
    }

    pub(super) fn sentinel(id: Uuid) -> Self {
        Self {
            id,
            event: None,
            payload: None,
        }
    }

    pub(super) fn committed(&self) -> Option<Committed> {
        let (key, seq) = self.event.clone()?;
        Some(Committed {
            id: self.id,
            key,
            seq,
        })
    }

    pub(super) fn key(&self) -> Option<&str> {
        self.event.as_ref().map(|(key, _)| key.as_str())
    }
}

/// The outbox's columns in the order of their values.
pub(super) const COLUMNS: &str = "id, namespace, action_id, action_name, action_params, started_date, completion_date, \
    model_id, model_type, event_type, payload, event_date, delivered";
