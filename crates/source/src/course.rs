//! How a snapshot hands over its rows, whatever database they come from: each with a mark of its own, and at last the end.

use headwater_core::positions::Snapshot;
use headwater_core::row::Row;
use headwater_core::source::Item;
use headwater_core::window::Key;

/// How far a snapshot has come.
pub struct Course {
    at: Snapshot,
    /// What was handed over last has not been marked yet.
    unmarked: bool,
}

impl Course {
    /// Where it stands is the first thing that it says: the place in the log that belongs to it is then remembered, and confirmed.
    pub fn begin(at: Snapshot) -> Course {
        Course { at, unmarked: true }
    }

    pub fn mark(&mut self) -> Option<Item<Snapshot>> {
        std::mem::take(&mut self.unmarked).then(|| Item::Mark(self.at.clone()))
    }

    /// What the view has next becomes what is handed over next.
    pub fn item(&mut self, next: Option<(Row, Key)>) -> Item<Snapshot> {
        let Some((row, key)) = next else {
            return Item::End;
        };
        self.at.rows += 1;
        self.at.after = Some(key);
        self.unmarked = true;
        Item::Row(row)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headwater_core::row::{Change, Table};

    use super::*;

    #[test]
    fn each_row_is_followed_by_where_it_stands() {
        let mut course = Course::begin(Snapshot::default());
        assert!(matches!(course.mark(), Some(Item::Mark(at)) if at == Snapshot::default()));
        assert!(course.mark().is_none());
        let key = Key {
            event_date: Some("d".into()),
            id: Some("i".into()),
        };
        let row = Row {
            table: Arc::new(Table {
                schema: "eventlog".into(),
                name: "events".into(),
                columns: Vec::new(),
            }),
            change: Change::Read,
            cells: Vec::new(),
        };
        assert!(matches!(
            course.item(Some((row, key.clone()))),
            Item::Row(_)
        ));
        let Some(Item::Mark(at)) = course.mark() else {
            panic!("no mark")
        };
        assert_eq!((at.rows, at.after), (1, Some(key)));
        assert!(matches!(course.item(None), Item::End));
        assert!(course.mark().is_none());
    }
}
