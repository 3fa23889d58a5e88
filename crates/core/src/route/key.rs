//! A message's key: a template, or the row's id in one of the forms that Debezium gives it.

use bytes::Bytes;
use serde_json::Value as Json;

use crate::event::{Role, Roles};
use crate::failure::{Failure, Kind};
use crate::row::{Row, Table};
use crate::template::{NoColumn, Place, Template};

/// How Kafka Connect's converters write the one-field struct that Debezium makes of the primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdForm {
    /// `{"id":"..."}`: its JSON converter without schemas.
    Json,
    /// `{"schema":{...},"payload":{"id":"..."}}`: with them.
    JsonWithSchema {
        /// The column is a uuid for Debezium, which gives its field a name of its own.
        uuid: bool,
    },
    /// `Struct{id=...}`: its string converter.
    Struct,
}

#[derive(Debug, Clone)]
pub(super) enum Key {
    None,
    Template(Template),
    Id(IdForm, Place),
}

impl Key {
    pub(super) fn id(form: IdForm) -> Key {
        let id = Place::column(Role::Id.name());
        Key::Id(form, id)
    }

    pub(super) fn bind(&mut self, table: &Table, roles: &Roles) -> Result<(), NoColumn> {
        match self {
            Key::None => Ok(()),
            Key::Template(template) => template.bind(table, roles),
            Key::Id(_, id) => id.bind(table, roles),
        }
    }

    /// `buffer` is overwritten.
    pub(super) fn render(
        &self,
        row: &Row,
        topic: &str,
        buffer: &mut String,
    ) -> Result<Option<Bytes>, Failure> {
        match self {
            Key::None => return Ok(None),
            Key::Template(template) => template.render(row, buffer)?,
            Key::Id(form, id) => {
                buffer.clear();
                if !id.write(row, buffer)? {
                    let why = "id is null, and the key is made of it";
                    return Err(Failure::new(Kind::Unroutable, why));
                }
                return Ok(Some(form.write(buffer, topic).into()));
            }
        }
        Ok(Some(Bytes::copy_from_slice(buffer.as_bytes())))
    }
}

impl IdForm {
    /// The members stand in the order in which Kafka Connect's converter puts them.
    fn write(self, id: &str, topic: &str) -> String {
        let quoted = Json::from(id);
        match self {
            IdForm::Json => format!(r#"{{"id":{quoted}}}"#),
            IdForm::Struct => format!("Struct{{id={id}}}"),
            IdForm::JsonWithSchema { uuid } => {
                let name = Json::from(format!("{topic}.Key"));
                let uuid = if uuid {
                    r#","name":"io.debezium.data.Uuid","version":1"#
                } else {
                    ""
                };
                format!(
                    r#"{{"schema":{{"type":"struct","fields":[{{"type":"string","optional":false{uuid},"field":"id"}}],"optional":false,"name":{name}}},"payload":{{"id":{quoted}}}}}"#
                )
            }
        }
    }
}
