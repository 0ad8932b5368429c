//! cuDNN's queries about a stack: sizes and layout of the weight space, sizes of the work space and the reserve.
#![expect(unsafe_code, reason = "exported functions have unmangled names")]

use std::ffi::{c_int, c_uint, c_void};

use tidegate_gpu::layout::{Kind, Part, Region};
use tidegate_gpu::rnn::Cell;

use crate::cudnn::BAD_PARAM;
use crate::descriptors::{set_tensor, size};
use crate::layout::layout;
use crate::machine::{Described, Tensor, machine};
use crate::{Opaque, Out, need, put, run};

/// `linLayerID` of a projection.
const PROJECTION: usize = 8;

export! {
    fn cudnnGetRNNWeightSpaceSize(handle: Opaque, rnn: Opaque, bytes: Out<'_, usize>) {
        let machine = machine();
        machine.handle(handle)?;
        let described = machine.rnn(rnn)?;
        put(bytes, described.element.bytes() * layout(&described.rnn).params_size(), BAD_PARAM)
    }

    fn cudnnGetRNNWeightParams(
        handle: Opaque, rnn: Opaque, pseudo_layer: i32, bytes: usize, weights: *const c_void, lin_layer_id: i32,
        matrix: Opaque, matrix_address: Out<'_, Opaque>, bias: Opaque, bias_address: Out<'_, Opaque>,
    ) {
        let mut machine = machine();
        machine.handle(handle)?;
        let Described { rnn, element, .. } = machine.rnn(rnn)?;
        let layout = layout(&rnn);
        let (pseudo_layer, lin_layer_id) = (size(pseudo_layer)?, size(lin_layer_id)?);
        let cell = rnn.settings().cell;
        let known = lin_layer_id < 2 * cell.blocks() || (cell == Cell::Lstm && lin_layer_id == PROJECTION);
        let fits = bytes >= element.bytes() * layout.params_size() && !weights.is_null();
        need(pseudo_layer < rnn.pseudo_layers() && known && fits, BAD_PARAM)?;
        for (kind, descriptor, address) in [(Kind::Matrix, matrix, matrix_address), (Kind::Bias, bias, bias_address)] {
            let part = Part { pseudo_layer, lin_layer_id, kind };
            let mut found = std::ptr::null_mut();
            if let Some((_, region)) = layout.regions().find(|(of, _)| *of == part) {
                let Region { rows, cols, row_stride, col_stride, .. } = region;
                let sizes = [[1, rows, cols], [rows * row_stride, row_stride, col_stride]];
                let [dims, strides] = sizes.map(|sizes| sizes.map(|size| size as c_int).to_vec());
                set_tensor(&mut machine, descriptor, Tensor { element, dims, strides })?;
                found = weights.wrapping_byte_add(element.bytes() * region.offset).cast_mut();
            }
            put(address, found, BAD_PARAM)?;
        }
        Ok(())
    }

    fn cudnnGetRNNTempSpaceSizes(
        handle: Opaque, rnn: Opaque, mode: c_uint, x: Opaque, work_bytes: Out<'_, usize>, reserve_bytes: Out<'_, usize>,
    ) {
        let machine = machine();
        machine.handle(handle)?;
        let (described, x) = (machine.rnn(rnn)?, machine.data(x)?);
        run::check(&described, x)?;
        let [work, reserve] = run::spaces(&described.rnn, x);
        put(work_bytes, work, BAD_PARAM)?;
        put(reserve_bytes, if run::is_training(mode)? { reserve } else { 0 }, BAD_PARAM)
    }
}
