//! Dimensions: numbers, or symbols for what a graph leaves open and what is computed of it.

use super::symbol::{Arena, At, BATCH, DERIVED, Dim, Id, is_symbol};

/// Largest number that is not a symbol; the smallest is its negative.
const MAX_DIM: Dim = 1 << 48;
const TOO_LARGE: &str = "its value is too large";

/// A number that is no symbol.
pub(super) fn known(dim: Dim) -> Result<Dim, String> {
    if (-MAX_DIM..=MAX_DIM).contains(&dim) { Ok(dim) } else { Err(TOO_LARGE.into()) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Derived {
    Product(Vec<Dim>),
    Less(Dim, i64),
}

impl Arena {
    fn derive(&mut self, derived: Derived) -> Result<Dim, String> {
        let k = match self.derived.iter().position(|known| *known == derived) {
            Some(k) => k,
            // A graph that derives many has no pattern that is known; few keep the search short.
            None if self.derived.len() == 1024 => return Err("its shapes are too intricate".into()),
            None => {
                self.derived.push(derived);
                self.derived.len() - 1
            }
        };
        Ok(DERIVED + k as Dim)
    }

    /// Number and symbols of a product.
    pub(super) fn factors(&self, dims: &[Dim]) -> Result<(i64, Vec<Dim>), String> {
        let (mut count, mut symbols) = (1_i64, Vec::new());
        for &dim in dims {
            if !is_symbol(dim) {
                count = count.checked_mul(dim).ok_or("its shape is too large")?;
                continue;
            }
            match usize::try_from(dim.wrapping_sub(DERIVED)).ok().and_then(|k| self.derived.get(k)) {
                Some(Derived::Product(factors)) => {
                    for &factor in factors {
                        match is_symbol(factor) {
                            true => symbols.push(factor),
                            false => count = count.checked_mul(factor).ok_or("its shape is too large")?,
                        }
                    }
                }
                _ => symbols.push(dim),
            }
        }
        symbols.sort_unstable();
        if symbols.len() > 8 { Err("its shapes are too intricate".into()) } else { Ok((count, symbols)) }
    }

    /// The product of dimensions.
    pub fn product(&mut self, dims: &[Dim]) -> Result<Dim, String> {
        let (count, mut symbols) = self.factors(dims)?;
        match (&*symbols, count) {
            ([], _) => known(count),
            (&[symbol], 1) => Ok(symbol),
            _ => {
                if count != 1 {
                    symbols.push(count);
                }
                self.derive(Derived::Product(symbols))
            }
        }
    }

    /// A dimension less a number.
    pub fn less(&mut self, dim: Dim, by: i64) -> Result<Dim, String> {
        match is_symbol(dim) {
            true if by == 0 => Ok(dim),
            true => self.derive(Derived::Less(dim, by)),
            false => dim.checked_sub(by).ok_or_else(|| TOO_LARGE.into()).and_then(known),
        }
    }

    /// Which step of so many.
    pub fn at(&mut self, index: Dim, steps: Dim) -> Result<At, String> {
        if index == -1 || index == self.less(steps, 1)? {
            return Ok(At::Last);
        }
        match usize::try_from(index) {
            Ok(step) if is_symbol(steps) || (step as Dim) < steps => Ok(At::Step(step)),
            _ => Err("it takes a step that the sequence does not have".into()),
        }
    }

    /// Leading dimensions that both may have; a batch fits any.
    pub(super) fn leading(&self, a: Id, b: Id) -> Result<Vec<Dim>, String> {
        let lead = |id: Id| {
            let shape = self.shape(id);
            shape.get(..shape.len().saturating_sub(1)).unwrap_or_default()
        };
        let (a, b) = (lead(a), lead(b));
        if a.len() != b.len() {
            return Err(format!("its operands have {} and {} dimensions", a.len() + 1, b.len() + 1));
        }
        let both = a.iter().zip(b).map(|(&a, &b)| match (a, b) {
            (a, b) if a == b => Ok(a),
            (BATCH, _) | (_, BATCH) => Ok(BATCH),
            _ => Err("its operands differ in shape".to_owned()),
        });
        both.collect()
    }
}
