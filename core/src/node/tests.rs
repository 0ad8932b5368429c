//! Compares the lengths of tensors, states and scratch, for sizes at the limits of an image, with the same lengths in 128
//! bits: each is exact, or `None` if it exceeds `usize`. On a 32-bit host many lengths exceed it.

extern crate std;

use std::vec::Vec;

use super::{Cells, Node, Unroll};
use crate::image::field::MAX_SIZE;
use crate::image::{GROUP, Layout, Numeric};
use crate::quant::RowBlock;
use crate::spec::{CellKind, Dim, Sizes, Storage, TensorSpec, is_wide};

const SIZES: [usize; 4] = [3, 1 << 10, MAX_SIZE as usize - 1, MAX_SIZE as usize];

fn exact(sizes: &Sizes<'_>, dim: &Dim) -> Option<u128> {
    let is_set = |option: u32| sizes.options >> option & 1 == 1;
    Some(match dim {
        Dim::Input => sizes.input as u128,
        Dim::Hidden => sizes.hidden as u128,
        Dim::Output => sizes.output as u128,
        Dim::Extent(index) => sizes.extents.get(*index).map_or(0, |bytes| u32::from_le_bytes(*bytes)).into(),
        Dim::Const(value) => *value as u128,
        Dim::Product(dims) => dims.iter().map(|dim| exact(sizes, dim)).product::<Option<u128>>()?,
        Dim::Sum(dims) => dims.iter().map(|dim| exact(sizes, dim)).sum::<Option<u128>>()?,
        Dim::Quotient([dividend, divisor]) => exact(sizes, dividend)?.checked_div(exact(sizes, divisor)?)?,
        Dim::When(option, dim) if is_set(*option) => exact(sizes, dim)?,
        Dim::Unless(option, dim) if !is_set(*option) => exact(sizes, dim)?,
        Dim::When(..) | Dim::Unless(..) => 0,
    })
}

/// Elements that several padded parts take.
fn exact_sum<'d>(node: &Node<'_>, dims: impl IntoIterator<Item = &'d Dim>) -> Option<u128> {
    dims.into_iter().map(|dim| Some(exact(&node.sizes(), dim)?.next_multiple_of(node.unit as u128))).sum()
}

fn exact_bytes(node: &Node<'_>, spec: &TensorSpec) -> Option<u128> {
    let block_of_rows = size_of::<RowBlock>() as u128;
    let rows = exact(&node.sizes(), &spec.rows)? * spec.gates.len().max(1) as u128;
    let (rows, blocks) = (rows.next_multiple_of(4), rows.div_ceil(4));
    let sets = if is_wide(node.options) { 2 } else { 1 };
    Some(match spec.storage {
        Storage::Weights(_) => {
            let Some(cols) = &spec.cols else { return Some(0) };
            let cols = exact(&node.sizes(), cols)?;
            let padded = cols.next_multiple_of(node.layout.columns(node.numeric) as u128);
            let block = match node.numeric {
                Numeric::F32 => 16 * padded,
                Numeric::F16 => 8 * padded,
                Numeric::I8x16 | Numeric::I8 => 4 * padded,
                Numeric::I4x16 => 2 * padded + 4 * cols.div_ceil(GROUP as u128),
            };
            blocks * sets * block
        }
        Storage::Rows { recurrent, .. } => blocks * block_of_rows * if recurrent.is_some() { sets } else { 1 },
        Storage::Requantized { .. } => blocks * block_of_rows,
        Storage::Factors { .. } | Storage::Shifts | Storage::Values | Storage::Index => 2 * rows,
        Storage::Taps => rows * exact(&node.sizes(), spec.cols.as_ref().unwrap_or(&Dim::Const(1)))?,
        Storage::Curve => return None,
        Storage::F32 | Storage::Terms(_) | Storage::Gains(_) => 4 * rows,
        Storage::Multipliers | Storage::Addends | Storage::Starts { .. } => 4 * rows,
    })
}

/// Compares a length. If the exact one is 0, an intermediate product may have exceeded `usize`.
fn holds(found: Option<usize>, exact: Option<u128>) -> bool {
    match (found, exact) {
        (Some(found), Some(exact)) => found as u128 == exact,
        (None, Some(exact)) => exact == 0 || exact > usize::MAX as u128,
        (None, None) => true,
        (Some(_), None) => false,
    }
}

fn check(node: &Node<'_>, exceeding: &mut u64) {
    let specs = node.specs();
    for spec in specs.tensors().iter().filter(|spec| !matches!(spec.storage, Storage::Curve)) {
        let found = node.spec_bytes(spec);
        assert!(holds(found, exact_bytes(node, spec)), "{} {found:?} {:?}", spec.name, node.sizes());
        *exceeding += u64::from(found.is_none());
    }
    let found = node.needed_state_elements();
    let exact = exact_sum(node, node.cell.states.iter().map(|state| &state.len));
    assert!(holds(found, exact), "state {found:?} {:?}", node.sizes());
    let found = node.needed_work_elements(specs);
    let exact = exact_sum(node, specs.work()).map(|work| work + node.gathered_elements() as u128);
    assert!(holds(found, exact), "work {found:?} {:?}", node.sizes());
    // An index that no tensor has, such as that of a failed search by name, must not overflow.
    assert!(node.tensor(usize::MAX).is_empty() && node.elements(usize::MAX).is_empty());
    // The upper bounds saturate instead of overflowing.
    assert!(node.work(specs) >= node.work_of_row(specs).moves);
}

#[test]
fn every_length_at_a_border_is_exact_or_exceeds_usize() {
    let (mut count, mut exceeding) = (0_u64, 0);
    for (kind, numeric, layout) in all() {
        let spec = kind.spec();
        let bits = (0..spec.options.len()).map(|bit| 1_u32 << bit);
        let all = bits.clone().sum();
        for options in bits.chain([0, all]) {
            let Some(cell) = Cells::NONE.with(kind, options, numeric, layout).get(kind) else { continue };
            for extents in extents(spec.extents.len()) {
                for (input, hidden, output) in sizes() {
                    let node = Node {
                        kind,
                        options,
                        input_size: input,
                        hidden_size: hidden,
                        output_size: output,
                        unroll: Unroll::decode(if input == 3 { MAX_SIZE } else { 0 }, 0),
                        cell,
                        output_slot: 0,
                        state_elements: 0,
                        work_elements: 0,
                        extents: &extents,
                        activations: &[],
                        params: &[],
                        slots: &[],
                        tensors: &[],
                        numeric,
                        layout,
                        unit: numeric.unit(layout),
                        weights: &[],
                    };
                    check(&node, &mut exceeding);
                    count += 1;
                }
            }
        }
    }
    std::println!("{count} nodes, {exceeding} tensors exceed usize");
    assert!(exceeding > 0);
}

fn all() -> impl Iterator<Item = (CellKind, Numeric, Layout)> {
    let forms = Numeric::ALL.into_iter().flat_map(|numeric| Layout::ALL.map(|layout| (numeric, layout)));
    let forms = forms.filter(|(numeric, layout)| layout.is_of(*numeric));
    CellKind::ALL
        .iter()
        .copied()
        .flat_map(move |kind| forms.clone().map(move |(numeric, layout)| (kind, numeric, layout)))
}

fn sizes() -> impl Iterator<Item = (usize, usize, usize)> {
    let pairs = SIZES.into_iter().flat_map(|input| SIZES.map(|hidden| (input, hidden)));
    pairs.flat_map(|(input, hidden)| SIZES.map(|output| (input, hidden, output)))
}

/// Sets of equal extents, and sets in which one extent is the greatest.
fn extents(count: usize) -> Vec<Vec<[u8; 4]>> {
    let equal = [5, MAX_SIZE].map(|extent| std::vec![extent.to_le_bytes(); count]);
    let one = (0..count).map(|index| {
        let mut extents = std::vec![1_u32.to_le_bytes(); count];
        extents[index] = MAX_SIZE.to_le_bytes();
        extents
    });
    equal.into_iter().take(if count > 0 { 2 } else { 1 }).chain(one).collect()
}
