//! Represents elements of a state as earlier elements of a layer's output: rows of a window over that layer.

use super::graph::{Session, Stop};
use super::made::{Made, MadeOf};
use super::past::{Key, Past};
use super::value::Element;
use crate::canonical::MAX_SIZE;
use crate::format::refuse::fail_if;

impl Session<'_> {
    /// The element of a layer's window that holds an element of an input; `None` if the input is not a delay.
    pub(super) fn delayed(&mut self, input: u32, index: u32) -> Result<Option<Element>, Stop> {
        let name = &self.setup.inputs[input as usize].name;
        let Some(past) = self.setup.delays.get(name).and_then(|of| of.elements.get(index as usize)) else {
            return Ok(None);
        };
        match *past {
            Past::Zero => Ok(Some(Element::Number(0.0))),
            Past::Carried => Err("it reads the state of an operator before its step".into()),
            Past::Of { key, at, steps } => {
                // A layer that has not been computed yet depends on this element.
                let made = *self.by_key.get(&key).ok_or(Stop::Port(input as usize))?;
                let len = self.made[made as usize].len();
                let (window, depth) = self.window_over(key, Made(made))?;
                Ok(Some(Element::Of(window.0, ((depth - steps as usize) * len) as u32 + at)))
            }
        }
    }

    /// The window over a layer's output, and the number of steps that it holds in addition to the current one.
    fn window_over(&mut self, key: Key, made: Made) -> Result<(Made, usize), Stop> {
        if let Some(&known) = self.windows.get(&key) {
            return Ok(known);
        }
        let depth = self.depths.get(&key).copied().unwrap_or(0);
        let len = self.made[made.0 as usize].len();
        let rows = depth + 1;
        let fits = rows.checked_mul(len).is_some_and(|all| all <= MAX_SIZE);
        fail_if(!fits, format_args!("it reads {len} features up to {depth} steps ago, more than {MAX_SIZE} together"))?;
        let source = self.source(made)?.flat();
        let fresh = std::mem::replace(&mut self.network.fresh, false);
        let source = self.network.frames(&source, rows, 1, depth);
        self.network.fresh = fresh;
        let window = MadeOf { time: None, rows, width: len, backward: false, source: Some(source), pending: None };
        let window = self.push(window)?;
        self.windows.insert(key, (window, depth));
        Ok((window, depth))
    }
}
