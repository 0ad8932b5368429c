//! Dimensions: numbers, or symbols for unknown dimensions and for values computed from them.

use super::symbol::{Arena, At, BATCH, DERIVED, Derived, Dim, Id, fail_if, intern, is_symbol};

/// Largest dimension that is not a symbol. The smallest is its negative.
const MAX_DIM: Dim = 1 << 48;
const TOO_LARGE: &str = "its value is too large";

/// Checks that a number is small enough not to be a symbol.
pub(super) fn known(dim: Dim) -> Result<Dim, String> {
    if (-MAX_DIM..=MAX_DIM).contains(&dim) { Ok(dim) } else { Err(TOO_LARGE.into()) }
}

impl Arena {
    fn derive(&mut self, derived: Derived) -> Result<Dim, String> {
        // A graph that derives more symbols has no known pattern. The limit keeps the linear search short.
        let k = intern(&mut self.derived, derived, 1024).ok_or("its shapes are too intricate")?;
        Ok(DERIVED + k as Dim)
    }

    /// Splits a product into its known factor and its symbols.
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

    pub fn less(&mut self, dim: Dim, by: i64) -> Result<Dim, String> {
        match is_symbol(dim) {
            true if by == 0 => Ok(dim),
            true => self.derive(Derived::Less(dim, by)),
            false => dim.checked_sub(by).ok_or_else(|| TOO_LARGE.into()).and_then(known),
        }
    }

    /// The step with index `index` in a sequence of `steps` steps.
    pub fn at(&mut self, index: Dim, steps: Dim) -> Result<At, String> {
        if index == -1 || index == self.less(steps, 1)? {
            return Ok(At::Last);
        }
        match usize::try_from(index) {
            Ok(step) if is_symbol(steps) || (step as Dim) < steps => Ok(At::Step(step)),
            _ => Err("it takes a step that the sequence does not have".into()),
        }
    }

    /// The common leading dimensions (all but the last) of two expressions. An unknown batch size matches any number.
    pub(super) fn leading(&self, a: Id, b: Id) -> Result<Vec<Dim>, String> {
        let lead = |id: Id| {
            let shape = self.shape(id);
            shape.get(..shape.len().saturating_sub(1)).unwrap_or_default()
        };
        let (a, b) = (lead(a), lead(b));
        fail_if(a.len() != b.len(), format_args!("its operands have {} and {} dimensions", a.len() + 1, b.len() + 1))?;
        let both = a.iter().zip(b).map(|(&a, &b)| match (a, b) {
            (a, b) if a == b => Ok(a),
            (BATCH, _) | (_, BATCH) => Ok(BATCH),
            _ => Err("its operands differ in shape".to_owned()),
        });
        both.collect()
    }
}
