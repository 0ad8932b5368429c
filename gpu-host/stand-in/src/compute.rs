//! cuDNN's RNN calls, computed on the CPU. The gradient of the initial states is not computed: it is NaN. A gradient of
//! the final states is not supported unless it is zero.
#![expect(unsafe_code, reason = "exported functions have unmangled names")]

use std::ffi::{c_uint, c_void};

use tidegate_gpu::cpu::longest;

use crate::cudnn::{BAD_PARAM, NOT_SUPPORTED};
use crate::layout::places;
use crate::machine::machine;
use crate::run::{BACKWARD, CELL, FORWARD, HIDDEN, OUTPUTS, PARAMS, Reserve, Run, SHAPES, is_training, sum_of};
use crate::{Opaque, need};

export! {
    fn cudnnRNNForward(
        handle: Opaque, rnn: Opaque, mode: c_uint, lengths: *const i32,
        x_descriptor: Opaque, x: *const c_void, y_descriptor: Opaque, y: *mut c_void,
        hidden_descriptor: Opaque, hidden: *const c_void, hidden_end: *mut c_void,
        cell_descriptor: Opaque, cell: *const c_void, cell_end: *mut c_void,
        weight_bytes: usize, weights: *const c_void,
        work_bytes: usize, work: *mut c_void, reserve_bytes: usize, reserve: *mut c_void,
    ) {
        let training = is_training(mode)?;
        let mut machine = machine();
        let spaces = [(work_bytes, work), (reserve_bytes, reserve)];
        let mut run = Run::new(&mut machine, [handle, rnn, x_descriptor, y_descriptor], lengths, spaces)?;
        run.check_state(0, hidden_descriptor)?;
        run.check_state(1, cell_descriptor)?;
        let params = run.params(weight_bytes, weights)?;
        let x = run.batch(&run.x.clone(), x)?;
        let (hidden, cell) = (run.state(0, hidden)?, run.state(1, cell)?);
        let states = run.states(&hidden, &cell);
        let (mut outputs, _, ends) = run.stack.forward(&params, &run.given(x.clone()), Some(&states), None, None);
        outputs.data.iter_mut().for_each(|value| *value = run.element.rounded(*value));
        if training {
            let sums = [run.shapes(), sum_of(&params), sum_of(&hidden), sum_of(&cell), sum_of(&outputs.data)];
            run.keep(sums, &x)?;
        }
        for (part, to) in [hidden_end, cell_end].into_iter().enumerate() {
            let values: Vec<f32> = ends.0.iter().flat_map(|state| &state[part]).copied().collect();
            run.put_state(part, to, &values)?;
        }
        let fill = run.y.fill.unwrap_or(f32::NAN);
        run.put_batch(&run.y.clone(), y, outputs.data, fill)
    }

    fn cudnnRNNBackwardData_v8(
        handle: Opaque, rnn: Opaque, lengths: *const i32,
        y_descriptor: Opaque, y: *const c_void, to_y: *const c_void, x_descriptor: Opaque, to_x: *mut c_void,
        hidden_descriptor: Opaque, hidden: *const c_void, to_hidden_end: *const c_void, to_hidden: *mut c_void,
        cell_descriptor: Opaque, cell: *const c_void, to_cell_end: *const c_void, to_cell: *mut c_void,
        weight_bytes: usize, weights: *const c_void,
        work_bytes: usize, work: *mut c_void, reserve_bytes: usize, reserve: *mut c_void,
    ) {
        let mut machine = machine();
        let spaces = [(work_bytes, work), (reserve_bytes, reserve)];
        let mut run = Run::new(&mut machine, [handle, rnn, x_descriptor, y_descriptor], lengths, spaces)?;
        run.check_state(0, hidden_descriptor)?;
        run.check_state(1, cell_descriptor)?;
        let params = run.params(weight_bytes, weights)?;
        let (y, to_y) = (run.batch(&run.y.clone(), y)?, run.batch(&run.y.clone(), to_y)?);
        let (hidden, cell) = (run.state(0, hidden)?, run.state(1, cell)?);
        run.check_kept(FORWARD, &[(SHAPES, run.shapes()), (PARAMS, sum_of(&params)), (OUTPUTS, sum_of(&y))])?;
        run.check_kept(FORWARD, &[(HIDDEN, sum_of(&hidden)), (CELL, sum_of(&cell))])?;
        let to_ends = [run.state(0, to_hidden_end)?, run.state(1, to_cell_end)?].concat();
        need(to_ends.iter().all(|&value| value == 0.0), NOT_SUPPORTED)?;
        let x_len = longest(&run.x.lengths) * run.x.lengths.len() * run.x.features;
        let x = run.reserve()?.x[..x_len].to_vec();
        let states = run.states(&hidden, &cell);
        let (_, tape, _) = run.stack.forward(&params, &run.given(x), Some(&states), None, None);
        let mut to_params = vec![0.0; params.len()];
        let found = run.stack.backward(&params, &tape, &to_y, &mut to_params);
        let Reserve { header, gradient, .. } = run.reserve()?;
        header[1] = BACKWARD;
        gradient.copy_from_slice(&to_params);
        for (part, to) in [to_hidden, to_cell].into_iter().enumerate() {
            run.put_state(part, to, &vec![f32::NAN; run.state_len(part)])?;
        }
        // The values after the end of a sequence are documented only for outputs.
        run.put_batch(&run.x.clone(), to_x, found, f32::NAN)
    }

    fn cudnnRNNBackwardWeights_v8(
        handle: Opaque, rnn: Opaque, mode: c_uint, lengths: *const i32,
        x_descriptor: Opaque, x: *const c_void, hidden_descriptor: Opaque, hidden: *const c_void,
        y_descriptor: Opaque, y: *const c_void,
        weight_bytes: usize, to_weights: *mut c_void,
        work_bytes: usize, work: *mut c_void, reserve_bytes: usize, reserve: *mut c_void,
    ) {
        // `CUDNN_WGRAD_MODE_ADD` is the only mode.
        need(mode == 0, NOT_SUPPORTED)?;
        let mut machine = machine();
        let spaces = [(work_bytes, work), (reserve_bytes, reserve)];
        let mut run = Run::new(&mut machine, [handle, rnn, x_descriptor, y_descriptor], lengths, spaces)?;
        run.check_state(0, hidden_descriptor)?;
        let (x, y) = (run.batch(&run.x.clone(), x)?, run.batch(&run.y.clone(), y)?);
        let hidden = run.state(0, hidden)?;
        let sums = [(SHAPES, run.shapes()), (HIDDEN, sum_of(&hidden)), (OUTPUTS, sum_of(&y))];
        run.check_kept(BACKWARD, &sums)?;
        let Reserve { x: kept, gradient, .. } = run.reserve()?;
        let gradient = gradient.to_vec();
        let same = sum_of(&kept[..x.len()]) == sum_of(&x);
        need(same && weight_bytes >= run.element.bytes() * run.layout.params_size(), BAD_PARAM)?;
        let mut all = run.read(to_weights, run.layout.params_size())?;
        places(&run.layout).into_iter().zip(gradient).for_each(|(place, value)| all[place] += value);
        run.write(to_weights, &all)
    }
}
