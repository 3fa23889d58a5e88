//! Where in the log an event stands.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use super::super::decode::Header;

#[derive(Debug, Clone)]
pub(super) struct Place {
    pub file: Arc<str>,
    /// Of the event that was taken last.
    pub start: u64,
    /// Behind it.
    pub end: u64,
}

impl Place {
    /// Headers have the lower half of an offset only, or nothing: an event inside a transaction may not know it.
    pub(super) fn pass(&mut self, header: &Header) {
        const HALF: u64 = 1 << 32;
        if header.is_artificial() || header.end == 0 && header.is_format() {
            return; // it stands in no file
        }
        let size = u64::from(header.size);
        if header.end == 0 {
            self.start = self.end;
            self.end = self.end.saturating_add(size);
            return;
        }
        let lower = u64::from(header.end);
        let mut end = (self.end & !(HALF - 1)) | lower;
        if end.saturating_add(HALF / 2) < self.end {
            end = end.saturating_add(HALF);
        }
        self.start = end.saturating_sub(size);
        self.end = end;
    }
}
