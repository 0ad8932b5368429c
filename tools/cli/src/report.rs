//! The quantization report as one HTML page: the verdict, a table with a bar for each signal-to-noise ratio, the values of
//! each layer against its grid, and the memory of the image.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tidegate::Model;
use tidegate_model::quantize::{LEAST_SNR_DB, Report, Row};

use crate::grouped;

/// Signal-to-noise ratio of a full bar, in dB.
const FULL_BAR: f64 = 90.0;
/// Octaves of a histogram below and above the range of 16 bits.
const OCTAVES: std::ops::RangeInclusive<i32> = -19..=1;
/// Number of octaves from the range of 16 bits down to one step.
const BITS: i32 = 15;
/// Size of a histogram's bar in pixels.
const BAR: (i32, i32) = (7, 34);

const STYLE: &str = "
body { font: 15px/1.45 system-ui, sans-serif; color: #22262b; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
dt { float: left; clear: left; width: 7rem; color: #5f666e } dd { margin: 0 0 0 7rem }
pre { background: #f4f5f6; padding: .7rem; white-space: pre-wrap } .warning { border-left: 4px solid #d55e00 }
table { border-collapse: collapse; width: 100% } th { text-align: left; color: #5f666e; font-weight: normal }
td, th { padding: .2rem .6rem; border-bottom: 1px solid #e4e7ea } .number { text-align: right }
.track { background: #f0f2f4; width: 9rem } .track div { background: #0072b2; height: .9rem }
.poor div { background: #d55e00 } .map { display: flex; height: 2.2rem; margin: .3rem 0 }
.map div { overflow: hidden; white-space: nowrap; color: white; padding: .3rem; border-right: 1px solid white; box-sizing: border-box }
small { color: #5f666e }";

/// Okabe and Ito's colors for the color-blind, those on which white text can be read.
const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#882255", "#332288", "#5f666e"];

/// The page of a report. `image` is the packed image, `bytes` its size.
pub fn page(report: &Report<'_>, image: &Model<'_>, bytes: usize) -> String {
    let [model, packed, date] = report.heading;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Quantization of " (model) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Quantization of " (model) }
                dl {
                    dt { "image" } dd { (packed) }
                    dt { "date" } dd { (date) }
                    dt { "calibration" } dd { (report.source) ", " (report.comparison.steps) " steps" }
                }
                pre { (report.verdict()) }
                @if !report.warnings().is_empty() { pre.warning { "`pack` warns of this image; with --strict it fails." } }
                h2 { "Integers against f32" }
                table {
                    tr {
                        th { "kind" } th { "name" } th colspan="2" { "signal to noise" } th { "worst error" }
                        th { "range" } th { "rule" } th { "saturated" } th { "values against the grid" }
                    }
                    @for row in report.rows() { (table_row(report, &row)) }
                }
                p { small {
                    "Each bar of a histogram is an octave of magnitudes. Orange on the left: less than one step of 16 bits. "
                    "Orange on the right: beyond the range."
                } }
                h2 { "Memory" }
                (memory("Flash", &flash(image, bytes)))
                (memory("RAM", &[
                    ("states".to_owned(), 4 * image.state_words()),
                    ("scratch".to_owned(), 4 * image.scratch_words()),
                ]))
            }
        }
    };
    page.into_string()
}

fn table_row(report: &Report<'_>, row: &Row) -> Markup {
    let is_poor = row.snr_db.is_some_and(|ratio| ratio < LEAST_SNR_DB);
    html! {
        tr {
            td { (row.kind) } td { (row.name) } td.number { (row.ratio) }
            td {
                @if let Some(ratio) = row.snr_db {
                    div.track.poor[is_poor] { div style=(format!("width:{:.0}%", (ratio / FULL_BAR * 100.0).clamp(0.0, 100.0))) {} }
                }
            }
            td.number { (row.worst) } td.number { (row.range) } td { (row.rule) }
            td.number { (format!("{:.4} %", 100.0 * row.saturated)) }
            td { (histogram(report, row)) }
        }
    }
}

/// The magnitudes of a value by octaves, from one that is lost below a step to one beyond the range.
fn histogram(report: &Report<'_>, row: &Row) -> Markup {
    let octaves = report.seen.octaves(&row.name);
    let range = f64::from(report.ranges.of(&row.name));
    if octaves.is_empty() || !(range > 0.0) {
        return html! {};
    }
    // The end of the octave that holds the range.
    let end = range.log2().floor() as i32 + 1;
    let is_on_grid = |octave: i32| {
        let [from, to] = [octave - 1, octave].map(|octave| f64::from(end + octave).exp2());
        to > range / f64::from(1 << BITS) && from <= range
    };
    let count = |octave: i32| -> u64 {
        let at = end + octave;
        // The lowest and the highest bar also count everything beyond them.
        let within = octaves.iter().filter(|(exponent, _)| {
            let exponent = **exponent + 1;
            exponent == at || octave == *OCTAVES.start() && exponent < at || octave == *OCTAVES.end() && exponent > at
        });
        within.map(|(_, count)| count).sum()
    };
    let counts: Vec<(i32, u64)> = OCTAVES.map(|octave| (octave, count(octave))).collect();
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1) as f64;
    let (width, height) = BAR;
    html! {
        svg width=(width * counts.len() as i32) height=(height) role="img" aria-label=(format!("magnitudes of {}", row.name)) {
            @for (place, (octave, count)) in (0..).zip(&counts) {
                @let size = (*count as f64 / most).sqrt() * f64::from(height - 1) + 1.0;
                rect x=(place * width) y=(format!("{:.1}", f64::from(height) - size)) width=(width - 1)
                    height=(format!("{size:.1}"))
                    fill=(if is_on_grid(*octave) { COLORS[0] } else { COLORS[1] }) {
                    title { "2^" (end + octave - 1) " to 2^" (end + octave) ": " (count) }
                }
            }
        }
    }
}

/// The bytes of the layers, and of everything else in the image.
fn flash(image: &Model<'_>, bytes: usize) -> Vec<(String, usize)> {
    let names = image.node_names().map(str::to_owned).chain(std::iter::repeat(String::new()));
    let layer = |(node, name): (tidegate::internals::node::Node<'_>, String)| {
        let tensors = node.integer_spec().map_or(0, |spec| spec.tensors.len());
        (name, (0..tensors).map(|index| node.tensor_bytes_at(index).len()).sum())
    };
    let mut parts: Vec<(String, usize)> = image.nodes().zip(names).map(layer).filter(|(_, bytes)| *bytes > 0).collect();
    let layers: usize = parts.iter().map(|(_, bytes)| bytes).sum();
    parts.push(("everything else".to_owned(), bytes.saturating_sub(layers)));
    parts
}

/// A bar with a part for each use of a memory.
fn memory(name: &str, parts: &[(String, usize)]) -> Markup {
    let all: usize = parts.iter().map(|(_, bytes)| bytes).sum();
    html! {
        p { (name) ": " (grouped(all)) " bytes" }
        div.map {
            @for ((part, bytes), color) in parts.iter().zip(COLORS.iter().cycle()) {
                @let share = 100.0 * *bytes as f64 / all.max(1) as f64;
                div style=(format!("width:{share:.2}%;background:{color}")) title=(format!("{part}: {bytes} bytes")) {
                    (part) " " (grouped(*bytes))
                }
            }
        }
    }
}
