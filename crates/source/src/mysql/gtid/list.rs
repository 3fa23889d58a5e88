//! MariaDB's: the last transaction of each domain.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::NotAGtid;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MariaDbGtid {
    pub domain: u32,
    pub server: u32,
    pub sequence: u64,
}

impl fmt::Display for MariaDbGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

impl FromStr for MariaDbGtid {
    type Err = NotAGtid;

    fn from_str(text: &str) -> Result<MariaDbGtid, NotAGtid> {
        let parts = || {
            let mut parts = text.trim().split('-');
            let gtid = MariaDbGtid {
                domain: parts.next()?.parse().ok()?,
                server: parts.next()?.parse().ok()?,
                sequence: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(gtid)
        };
        parts().ok_or_else(|| NotAGtid(text.to_owned()))
    }
}

/// As in `@@gtid_binlog_pos`: one of each domain, by domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidList(Vec<MariaDbGtid>);

impl GtidList {
    /// What a domain's log says later stands for all before it, also where its numbers go back (outside of strict mode
    /// they may).
    pub fn add(&mut self, gtid: MariaDbGtid) {
        match self.place(gtid.domain) {
            Ok(index) => {
                if let Some(place) = self.0.get_mut(index) {
                    *place = gtid;
                }
            }
            Err(index) => self.0.insert(index, gtid),
        }
    }

    pub fn remove(&mut self, domain: u32) {
        self.0.retain(|gtid| gtid.domain != domain);
    }

    pub fn of(&self, domain: u32) -> Option<MariaDbGtid> {
        self.place(domain)
            .ok()
            .and_then(|index| self.0.get(index))
            .copied()
    }

    pub fn contains(&self, gtid: MariaDbGtid) -> bool {
        self.of(gtid.domain)
            .is_some_and(|last| last.sequence >= gtid.sequence)
    }

    pub fn iter(&self) -> impl Iterator<Item = MariaDbGtid> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, domain: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&domain, |gtid| gtid.domain)
    }

    fn is_within(&self, other: &GtidList) -> bool {
        self.iter().all(|gtid| {
            other
                .of(gtid.domain)
                .is_some_and(|last| last == gtid || last.sequence > gtid.sequence)
        })
    }
}

impl PartialOrd for GtidList {
    fn partial_cmp(&self, other: &GtidList) -> Option<Ordering> {
        super::set::by_inclusion(self.is_within(other), other.is_within(self))
    }
}

impl fmt::Display for GtidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, gtid) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{gtid}")?;
        }
        Ok(())
    }
}

impl FromStr for GtidList {
    type Err = NotAGtid;

    fn from_str(text: &str) -> Result<GtidList, NotAGtid> {
        let mut list = GtidList::default();
        for part in text.split(',').map(str::trim) {
            if !part.is_empty() {
                list.add(part.parse()?);
            }
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> GtidList {
        text.parse().expect("a list")
    }

    #[test]
    fn a_list_is_told_by_domain_and_comes_back() {
        for text in ["", "0-1-5", "0-1-5,2-3-18446744073709551615"] {
            assert_eq!(list(text).to_string(), text);
        }
        assert_eq!(list(" 2-3-4 ,\n0-1-5").to_string(), "0-1-5,2-3-4");
    }

    #[test]
    fn what_is_no_gtid_is_refused() {
        for text in [
            "0-1",
            "0-1-5-6",
            "a-1-5",
            "0-1-",
            "-0-1-5",
            "4294967296-1-1",
        ] {
            assert!(text.parse::<GtidList>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_later_transaction_takes_its_domains_place() {
        let mut before = list("0-1-5,1-1-9");
        before.add("0-2-6".parse().expect("a gtid"));
        before.add("7-1-1".parse().expect("a gtid"));
        assert_eq!(before.to_string(), "0-2-6,1-1-9,7-1-1");
        before.add("1-1-3".parse().expect("a gtid"));
        assert_eq!(before.of(1).map(|gtid| gtid.sequence), Some(3));
    }

    #[test]
    fn lists_are_ordered_by_what_they_include() {
        for (one, two, order) in [
            ("0-1-5", "0-1-5", Some(Ordering::Equal)),
            ("0-1-5", "0-2-6", Some(Ordering::Less)),
            ("0-1-5,1-1-1", "0-1-5", Some(Ordering::Greater)),
            ("", "0-1-5", Some(Ordering::Less)),
            ("0-1-5,1-1-1", "0-1-6", None),
            ("0-1-5", "0-2-5", None),
        ] {
            assert_eq!(list(one).partial_cmp(&list(two)), order, "{one} {two}");
        }
    }
}
