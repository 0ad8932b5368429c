//! The checks of the section `self_test`.

use super::field::self_test as field;
use super::not_zero;
use super::read::u32_at;

/// Checks lengths and inputs of a self-test for a model with one input and one output, whose sizes are given. The error is
/// an offset.
pub(crate) const fn check(payload: &[u8], integer: bool, [input, output]: [usize; 2]) -> Result<(), usize> {
    let (Some(steps), Some(outputs)) = (u32_at(payload, field::STEPS), u32_at(payload, field::OUTPUTS)) else {
        return Err(0);
    };
    if steps == 0 || steps > field::MAX_STEPS {
        return Err(field::STEPS.start);
    }
    if outputs == 0 || outputs > steps {
        return Err(field::OUTPUTS.start);
    }
    let Some((_, values)) = payload.split_at_checked(field::LEN) else { return Err(0) };
    if let Some(offset) = not_zero(payload, field::RESERVED.start, field::RESERVED.end) {
        return Err(offset);
    }
    let bytes = if integer { 2 } else { 4 };
    // Port sizes have at most 32 bits, and step counts 17, so the product fits 64 bits.
    let input_bytes = bytes * steps as u64 * input as u64;
    if input_bytes + bytes * outputs as u64 * output as u64 != values.len() as u64 {
        return Err(payload.len());
    }
    let Some((inputs, _)) = values.split_at_checked(input_bytes as usize) else { return Err(payload.len()) };
    match if integer { least(inputs) } else { not_finite(inputs) } {
        Some(offset) => Err(field::LEN + offset),
        None => Ok(()),
    }
}

/// Offset of the first -32768, which is not a valid input.
const fn least(inputs: &[u8]) -> Option<usize> {
    let mut left = inputs.as_chunks::<2>().0;
    while let [element, others @ ..] = left {
        if i16::from_le_bytes(*element) == i16::MIN {
            return Some(inputs.len() - 2 * left.len());
        }
        left = others;
    }
    None
}

/// Offset of the first value that is not finite.
const fn not_finite(inputs: &[u8]) -> Option<usize> {
    let mut left = inputs.as_chunks::<4>().0;
    while let [element, others @ ..] = left {
        if !f32::from_le_bytes(*element).is_finite() {
            return Some(inputs.len() - 4 * left.len());
        }
        left = others;
    }
    None
}
