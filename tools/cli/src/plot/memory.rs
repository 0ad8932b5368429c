//! The memory of a model on a device: bars for flash and RAM, divided among their contents.

use std::path::Path;

use plotters::style::text_anchor::HPos;
use tidegate_model::data::DataError;

use super::canvas::{DrawError, INK, LEFT, Legend, Look, PALETTE, QUIET, RIGHT, save, svg};
use crate::grouped;

/// A part of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The contents.
    pub name: &'static str,
    /// Its size.
    pub bytes: usize,
    /// Whether it is in RAM; the others are in flash.
    pub in_ram: bool,
}

const BAR: f32 = 44.0;
const GAP: f32 = 58.0;

/// Draws flash and RAM as SVG, each to a scale of its own. The file appears only when it is complete.
///
/// # Errors
/// If the file cannot be written.
pub fn memory_map(path: &Path, title: &str, parts: &[Part]) -> Result<(), DataError> {
    save(path, draw(title, parts))
}

fn draw(title: &str, parts: &[Part]) -> Result<String, DrawError> {
    let parts: Vec<_> = parts.iter().filter(|part| part.bytes > 0).zip(PALETTE.into_iter().cycle()).collect();
    let text = |part: &Part| format!("{}: {} bytes", part.name, grouped(part.bytes));
    let legend = Legend::new(parts.iter().map(|(part, color)| (text(part), *color)));
    let top = legend.bottom + 46.0;
    svg(top + 2.0 * (BAR + GAP), title, |canvas| {
        canvas.legend(&legend)?;
        for (row, (name, in_ram)) in (0_u8..).zip([("flash", false), ("RAM", true)]) {
            let own = || parts.iter().filter(|(part, _)| part.in_ram == in_ram);
            let total: usize = own().map(|(part, _)| part.bytes).sum();
            let top = top + f32::from(row) * (BAR + GAP);
            canvas.text(name, (LEFT - 10.0, top + BAR / 2.0), &QUIET, Look::anchored(HPos::Right))?;
            let mut from = LEFT;
            for (part, color) in own() {
                let to = from + part.bytes as f32 / total.max(1) as f32 * (RIGHT - LEFT);
                canvas.area(&[(from, top), (to, top), (to, top + BAR), (from, top + BAR)], *color)?;
                from = to;
            }
            let all = format!("{} bytes", grouped(total));
            canvas.text(&all, (LEFT, top + BAR + 16.0), &INK, Look::default())?;
        }
        Ok(())
    })
}
