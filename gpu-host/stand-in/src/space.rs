//! What cuDNN says of a stack before anything is computed: its weight space, work space and reserve.
#![expect(unsafe_code, reason = "what C calls has an unmangled name")]

use std::ffi::{c_int, c_uint, c_void};

use tidegate_gpu::layout::{Kind, Layout, LayoutError, Part, Region};
use tidegate_gpu::rnn::{Cell, Rnn};

use crate::cudnn::BAD_PARAM;
use crate::descriptors::{set_tensor, size};
use crate::machine::{Described, Tensor, machine};
use crate::{Code, Opaque, Out, asked, call, put, run};

/// `linLayerID` of a projection.
const PROJECTION: usize = 8;

/// Elements in front of, between and behind parts that lie apart.
const GAP: usize = 7;

/// Where a stack has its parameters: as described, or, where that is asked for, all of it the other way round with gaps, so that
/// biases come before matrices and a side's last gate before its first.
pub fn layout(rnn: &Rnn) -> Layout {
    let described = Layout::described(rnn);
    if !asked("TIDEGATE_STAND_IN_LAYOUT", "apart") {
        return described;
    }
    let mut parts: Vec<_> = described.regions().collect();
    let mut size = GAP;
    for (_, region) in parts.iter_mut().rev() {
        region.offset = size;
        size += region.rows * region.cols + GAP;
    }
    let report = |part| Ok::<_, LayoutError>(parts.iter().find(|(of, _)| *of == part).map(|(_, region)| *region));
    Layout::reported(rnn, size, report).expect("every part is there once, behind the one before")
}

/// Where each number of the CPU path's weight space is in this one.
pub fn places(layout: &Layout) -> Vec<usize> {
    let described = Layout::described(layout.rnn());
    let mut places = vec![0; described.params_size()];
    let each =
        described.regions().zip(layout.regions()).flat_map(|((_, to), (_, from))| to.places().zip(from.places()));
    each.for_each(|(to, from)| places[to] = from);
    places
}

/// A part's dimensions and strides, as `cudnnGetRNNWeightParams` gives them.
const fn tensor(region: Region) -> [[usize; 3]; 2] {
    let Region { rows, cols, row_stride, col_stride, .. } = region;
    [[1, rows, cols], [rows * row_stride, row_stride, col_stride]]
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnGetRNNWeightSpaceSize(handle: Opaque, rnn: Opaque, bytes: Out<'_, usize>) -> Code {
    call("cudnnGetRNNWeightSpaceSize", || {
        let machine = machine();
        machine.handle(handle)?;
        let described = machine.rnn(rnn)?;
        put(bytes, described.element.bytes() * layout(&described.rnn).params_size(), BAD_PARAM)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnGetRNNWeightParams(
    handle: Opaque,
    rnn: Opaque,
    pseudo_layer: i32,
    bytes: usize,
    weights: *const c_void,
    lin_layer_id: i32,
    matrix: Opaque,
    matrix_address: Out<'_, Opaque>,
    bias: Opaque,
    bias_address: Out<'_, Opaque>,
) -> Code {
    call("cudnnGetRNNWeightParams", || {
        let mut machine = machine();
        machine.handle(handle)?;
        let Described { rnn, element, .. } = machine.rnn(rnn)?;
        let layout = layout(&rnn);
        let (pseudo_layer, lin_layer_id) = (size(pseudo_layer)?, size(lin_layer_id)?);
        let cell = rnn.settings().cell;
        let known = lin_layer_id < 2 * cell.blocks() || (cell == Cell::Lstm && lin_layer_id == PROJECTION);
        let fits = bytes >= element.bytes() * layout.params_size() && !weights.is_null();
        if pseudo_layer >= rnn.pseudo_layers() || !known || !fits {
            return Err(BAD_PARAM);
        }
        for (kind, descriptor, address) in [(Kind::Matrix, matrix, matrix_address), (Kind::Bias, bias, bias_address)] {
            let part = Part { pseudo_layer, lin_layer_id, kind };
            let mut found = std::ptr::null_mut();
            if let Some((_, region)) = layout.regions().find(|(of, _)| *of == part) {
                let [dims, strides] = tensor(region).map(|sizes| sizes.map(|size| size as c_int).to_vec());
                set_tensor(&mut machine, descriptor, Tensor { element, dims, strides })?;
                found = weights.wrapping_byte_add(element.bytes() * region.offset).cast_mut();
            }
            put(address, found, BAD_PARAM)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnGetRNNTempSpaceSizes(
    handle: Opaque,
    rnn: Opaque,
    mode: c_uint,
    x: Opaque,
    work_bytes: Out<'_, usize>,
    reserve_bytes: Out<'_, usize>,
) -> Code {
    call("cudnnGetRNNTempSpaceSizes", || {
        let machine = machine();
        machine.handle(handle)?;
        let (described, x) = (machine.rnn(rnn)?, machine.data(x)?);
        run::check(&described, x)?;
        let [work, reserve] = run::spaces(&described.rnn, x);
        put(work_bytes, work, BAD_PARAM)?;
        put(reserve_bytes, if run::is_training(mode)? { reserve } else { 0 }, BAD_PARAM)
    })
}
