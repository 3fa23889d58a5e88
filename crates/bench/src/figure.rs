//! Figures of several rounds as one: the middle one, and how far they lie apart.

use std::fmt;

/// What was measured in each round.
#[derive(Debug, Clone, Default)]
pub struct Figure(Vec<f64>);

impl Figure {
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    pub fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        if self.0.len().is_multiple_of(2) {
            f64::midpoint(self.0[middle - 1], self.0[middle])
        } else {
            self.0[middle]
        }
    }

    /// With so many digits behind the point, and from where to where it went.
    pub fn shown(&self, digits: usize) -> Shown<'_> {
        Shown {
            figure: self,
            digits,
        }
    }
}

pub struct Shown<'a> {
    figure: &'a Figure,
    digits: usize,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits;
        let (Some(least), Some(most)) = (self.figure.0.first(), self.figure.0.last()) else {
            return write!(f, "-");
        };
        let middle = self.figure.median();
        write!(f, "{middle:.digits$} ({least:.digits$}-{most:.digits$})")
    }
}
