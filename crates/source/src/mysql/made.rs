//! Events made by hand, for tests and benchmarks: MySQL's, without checksums.

use bytes::Bytes;

pub(super) fn event(kind: u8, end: u32, flags: u16, body: &[u8]) -> Bytes {
    let size = u32::try_from(19 + body.len()).unwrap_or(u32::MAX);
    let mut event = Vec::with_capacity(19 + body.len());
    event.extend(1_700_000_000_u32.to_le_bytes());
    event.push(kind);
    event.extend(1_u32.to_le_bytes());
    event.extend(size.to_le_bytes());
    event.extend(end.to_le_bytes());
    event.extend(flags.to_le_bytes());
    event.extend(body);
    event.into()
}

pub(super) fn format() -> Bytes {
    let mut body = vec![4, 0];
    body.extend([0; 54]);
    body.push(19);
    let mut lengths = [0; 42];
    lengths[18] = 8;
    lengths[29..32].fill(10);
    body.extend(lengths);
    body.extend([0; 5]);
    event(15, 0, 0, &body)
}

pub(super) fn rotate(end: u32, file: &str, offset: u64) -> Bytes {
    let body = [&offset.to_le_bytes()[..], file.as_bytes()].concat();
    event(4, end, 0, &body)
}

/// The source's uuid is all sevens.
pub(super) fn gtid(end: u32, number: u64, committed: u64) -> Bytes {
    let mut body = vec![0];
    body.extend([7; 16]);
    body.extend(number.to_le_bytes());
    body.push(2);
    body.extend([0; 16]);
    body.extend(&committed.to_le_bytes()[..7]);
    event(33, end, 0, &body)
}

/// MariaDB's. Its time is the header's, in seconds.
#[cfg(test)]
pub(super) fn mariadb_gtid(end: u32, gtid: &str, flags: u8, time: u32) -> Bytes {
    let gtid: super::MariaDbGtid = gtid.parse().expect("a GTID");
    let mut body = gtid.sequence.to_le_bytes().to_vec();
    body.extend(gtid.domain.to_le_bytes());
    body.push(flags);
    body.extend([0; 6]);
    let mut event = event(162, end, 0, &body).to_vec();
    event[..4].copy_from_slice(&time.to_le_bytes());
    event[5..9].copy_from_slice(&gtid.server.to_le_bytes());
    event.into()
}

pub(super) fn query(end: u32, schema: &str, text: &str) -> Bytes {
    let mut body = vec![0; 8];
    body.push(u8::try_from(schema.len()).unwrap_or(u8::MAX));
    body.extend([0; 4]);
    body.extend(schema.as_bytes());
    body.push(0);
    body.extend(text.as_bytes());
    event(2, end, 0, &body)
}

/// With its columns as the map has them behind the names.
pub(super) fn table(id: u8, schema: &str, name: &str, columns: &[u8]) -> Bytes {
    let mut body = vec![id, 0, 0, 0, 0, 0, 1, 0];
    for text in [schema, name] {
        body.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        body.extend(text.as_bytes());
        body.push(0);
    }
    body.extend(columns);
    event(19, 0, 0, &body)
}

/// One column, a VARCHAR(255) of utf8mb4 (or what `named` says) called `id`.
pub(super) fn columns(named: bool) -> Vec<u8> {
    let mut columns = vec![1, 15, 2, 255, 0, 1];
    columns.extend([2, 1, 45]);
    if named {
        columns.extend([4, 3, 2, b'i', b'd']);
    }
    columns
}

/// Rows of such a table.
pub(super) fn rows(kind: u8, id: u8, texts: &[&str]) -> Bytes {
    let mut body = vec![id, 0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 1];
    if kind == 31 {
        body.push(1);
    }
    for text in texts {
        for _ in 0..if kind == 31 { 2 } else { 1 } {
            body.push(0);
            body.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            body.extend(text.as_bytes());
        }
    }
    event(kind, 0, 0, &body)
}

pub(super) fn xid(end: u32) -> Bytes {
    event(16, end, 0, &[0; 8])
}

pub(super) fn xa_prepare(end: u32, name: &str, one_phase: bool) -> Bytes {
    let mut body = vec![u8::from(one_phase)];
    body.extend(1_u32.to_le_bytes());
    body.extend(u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes());
    body.extend(0_u32.to_le_bytes());
    body.extend(name.as_bytes());
    event(38, end, 0, &body)
}
