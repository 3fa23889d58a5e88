//! The table's indexes: whether its rows can be read in the order of their dates without sorting, and whether an id is there once.

use headwater_core::event::Role;

use super::answer::Answer;
use super::session::Session;
use super::{Flavor, Settings, ident, literal};
use crate::Error;
use crate::keys::Keys;

/// As much of an index as matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Index {
    name: String,
    unique: bool,
    /// The optimizer may use it.
    visible: bool,
    columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    descending: bool,
    /// Only the beginning of each value is in it.
    cut: bool,
}

const PRIMARY: &str = "PRIMARY";

/// For `check`.
pub(super) async fn keys(session: &mut Session) -> Result<Keys, Error> {
    let indexes = read(session).await?;
    if session.flavor() == Flavor::MySql {
        // Else what is told may be a day old.
        let afresh = "SET SESSION information_schema_stats_expiry = 0";
        session.run(afresh).await?;
    }
    let Settings { schema, table, .. } = session.settings();
    let ask = format!(
        "SELECT data_length FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
        literal(schema),
        literal(table)
    );
    let bytes = session.rows(&ask).await?.first();
    Ok(Keys {
        bytes: bytes.and_then(|it| it.parse().ok()).unwrap_or(0),
        primary: indexes.iter().any(|index| index.name == PRIMARY),
        unique: is_unique(&indexes),
        ordered: in_order(&indexes).is_some(),
    })
}

async fn read(session: &mut Session) -> Result<Vec<Index>, Error> {
    let Settings { schema, table, .. } = session.settings();
    let ask = format!("SHOW INDEX FROM {}.{}", ident(schema), ident(table));
    Ok(gathered(&session.rows(&ask).await?))
}

/// There is a row for each column of each index, in their order.
fn gathered(answer: &Answer) -> Vec<Index> {
    let mut indexes: Vec<Index> = Vec::new();
    for row in &answer.rows {
        let cell = |column| answer.text(row, column);
        let name = cell("key_name").unwrap_or_default();
        let column = Column {
            // A part that is an expression has none.
            name: cell("column_name").unwrap_or_default(),
            descending: cell("collation").as_deref() == Some("D"),
            cut: cell("sub_part").is_some(),
        };
        match indexes.last_mut().filter(|last| last.name == name) {
            Some(index) => index.columns.push(column),
            None => indexes.push(Index {
                name,
                unique: cell("non_unique").as_deref() == Some("0"),
                // MySQL says visible, MariaDB ignored.
                visible: cell("visible").as_deref() != Some("NO")
                    && cell("ignored").as_deref() != Some("YES"),
                columns: vec![column],
            }),
        }
    }
    indexes
}

/// `InnoDB` has the primary key behind the columns of every other index.
fn in_order(indexes: &[Index]) -> Option<&str> {
    let primary = indexes.iter().find(|index| index.name == PRIMARY);
    let behind = primary.map_or(&[][..], |primary| &primary.columns);
    let in_order = indexes.iter().find(|index| {
        let mut columns = index.columns.iter().chain(behind);
        let (Some(first), Some(second)) = (columns.next(), columns.next()) else {
            return false;
        };
        index.visible
            && first.name == Role::EventDate.name()
            && second.name == Role::Id.name()
            && first.descending == second.descending
            && !first.cut
            && !second.cut
    });
    in_order.map(|index| index.name.as_str())
}

/// No two rows can have both a date and an id in common.
fn is_unique(indexes: &[Index]) -> bool {
    let is_whole = |index: &Index| index.unique && !index.columns.iter().any(|it| it.cut);
    let of_the_id = |index: &Index| {
        let has = |role: Role| index.columns.iter().any(|it| it.name == role.name());
        match index.columns.len() {
            1 => has(Role::Id),
            2 => has(Role::Id) && has(Role::EventDate),
            _ => false,
        }
    };
    indexes.iter().any(|it| is_whole(it) && of_the_id(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(name: &str, unique: bool, columns: &[&str]) -> Index {
        let column = |name: &&str| Column {
            name: name.trim_end_matches(" DESC").to_owned(),
            descending: name.ends_with(" DESC"),
            cut: false,
        };
        Index {
            name: name.into(),
            unique,
            visible: true,
            columns: columns.iter().map(column).collect(),
        }
    }

    fn primary(columns: &[&str]) -> Index {
        index(PRIMARY, true, columns)
    }

    fn found(indexes: &[Index]) -> Option<&str> {
        in_order(indexes)
    }

    #[test]
    fn an_index_that_leads_with_date_and_id_gives_the_order() {
        let id = primary(&["id"]);
        let action = index("a", false, &["action_id"]);
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[id.clone(), action.clone()]), None);
        let whole = index("b", false, &["event_date", "id", "delivered"]);
        assert_eq!(found(&[id.clone(), action, whole]), Some("b"));
        let backward = index("b", false, &["event_date DESC", "id DESC"]);
        assert_eq!(found(&[backward]), Some("b"));
        assert_eq!(found(&[primary(&["event_date", "id"])]), Some(PRIMARY));
    }

    #[test]
    fn the_primary_key_stands_behind_an_index_on_the_date() {
        let date = index("b", false, &["event_date"]);
        assert_eq!(found(&[primary(&["id"]), date.clone()]), Some("b"));
        assert_eq!(found(&[primary(&["action_id", "id"]), date.clone()]), None);
        assert_eq!(found(&[date]), None);
    }

    #[test]
    fn what_cannot_give_the_order_is_not_taken_for_it() {
        let mixed = index("b", false, &["event_date", "id DESC"]);
        assert_eq!(found(&[mixed]), None);
        let mut hidden = index("b", false, &["event_date", "id"]);
        hidden.visible = false;
        assert_eq!(found(&[hidden]), None);
        let mut cut = index("b", false, &["event_date", "id"]);
        cut.columns[1].cut = true;
        assert_eq!(found(&[cut]), None);
    }

    #[test]
    fn an_id_is_there_once_by_a_key_of_its_own_or_with_the_date() {
        assert!(is_unique(&[primary(&["id"])]));
        assert!(is_unique(&[primary(&["id", "event_date"])]));
        assert!(is_unique(&[index("u", true, &["event_date", "id"])]));
        assert!(!is_unique(&[primary(&["seq"])]));
        assert!(!is_unique(&[primary(&["id", "namespace"])]));
        assert!(!is_unique(&[index("u", false, &["id"])]));
    }
}
