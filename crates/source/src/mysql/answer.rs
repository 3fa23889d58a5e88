//! What a server answers to a statement: columns and rows, read from its packets. Pure.

use bytes::Bytes;

use super::packet::Reader;

/// What a column of an answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub name: String,
    /// 63: bytes.
    pub charset: u16,
    pub kind: u8,
}

impl Column {
    pub(super) fn read(packet: &[u8]) -> Option<Column> {
        let mut reader = Reader(packet);
        // Catalog, schema, table and its own name.
        for _ in 0..4 {
            reader.text()?;
        }
        let name = String::from_utf8_lossy(reader.text()?).into_owned();
        reader.text()?;
        reader.counted()?;
        let charset = u16::try_from(reader.number(2)?).ok()?;
        reader.number(4)?;
        let kind = u8::try_from(reader.number(1)?).ok()?;
        Some(Column {
            name,
            charset,
            kind,
        })
    }
}

/// One row of an answer, as text; `None` is NULL.
pub(super) type Cells = Vec<Option<Bytes>>;

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub columns: Vec<Column>,
    pub rows: Vec<Cells>,
}

impl Answer {
    /// A cell of a row, by the column's name in lower case.
    pub(super) fn text(&self, row: &Cells, column: &str) -> Option<String> {
        let place = self
            .columns
            .iter()
            .position(|it| it.name.eq_ignore_ascii_case(column))?;
        text(row, place)
    }

    /// The first cell of the first row.
    pub(super) fn first(&self) -> Option<String> {
        text(self.rows.first()?, 0)
    }
}

/// A cell as text.
pub(super) fn text(row: &Cells, place: usize) -> Option<String> {
    let cell = row.get(place)?.as_ref()?;
    Some(String::from_utf8_lossy(cell).into_owned())
}

/// A row of so many columns.
pub(super) fn cells(packet: &Bytes, columns: usize) -> Option<Cells> {
    let mut reader = Reader(packet);
    let mut cells = Vec::with_capacity(columns);
    for _ in 0..columns {
        if reader.0.first() == Some(&0xFB) {
            reader.number(1)?;
            cells.push(None);
        } else {
            cells.push(Some(packet.slice_ref(reader.text()?)));
        }
    }
    Some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_and_never_past_its_end() {
        let packet = Bytes::from_static(b"\x01a\xFB\x00\x02bc");
        let row = cells(&packet, 4).expect("a row");
        assert_eq!(text(&row, 0).as_deref(), Some("a"));
        assert_eq!(text(&row, 1), None);
        assert_eq!(text(&row, 2).as_deref(), Some(""));
        assert_eq!(text(&row, 3).as_deref(), Some("bc"));
        for some in 0..packet.len() {
            assert_eq!(cells(&packet.slice(..some), 4), None);
        }
    }
}
