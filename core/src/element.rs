//! The number type of slots and states, f32 or i16, and small arithmetic functions that several modules share.

/// The values of one node, as they are stored in the arena.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'s> {
    /// The values in a float numeric.
    F32(&'s [f32]),
    /// The values in an integer numeric: the real values divided by the scale of the node.
    I16(&'s [i16]),
}

/// An observer of the values of nodes: `observe(node, values)`.
pub(crate) type Observe<'s> = &'s mut dyn FnMut(usize, Values<'_>);

/// An observer that ignores all values.
pub(crate) fn unseen(_: usize, _: Values<'_>) {}

/// An element of a slot or a state: f32 or, in the integer numerics, i16.
pub(crate) trait Element: bytemuck::Pod + PartialEq {
    /// The values passed to an observer.
    fn values(values: &[Self]) -> Values<'_>;

    /// The count that is stored as this element.
    fn to_count(self) -> usize;

    /// A count as an element. f32 holds counts below 2^24, i16 below 2^15.
    fn from_count(count: usize) -> Self;
}

impl Element for f32 {
    fn values(values: &[Self]) -> Values<'_> {
        Values::F32(values)
    }

    fn to_count(self) -> usize {
        self as usize
    }

    fn from_count(count: usize) -> Self {
        count as f32
    }
}

impl Element for i16 {
    fn values(values: &[Self]) -> Values<'_> {
        Values::I16(values)
    }

    fn to_count(self) -> usize {
        self.max(0).unsigned_abs().into()
    }

    fn from_count(count: usize) -> Self {
        count as i16
    }
}

/// Zeroes the padding of a slot. Makes no call for up to three elements, the padding of most slots.
#[inline(always)]
pub(crate) fn fill_up<E: Element>(padding: &mut [E]) {
    if padding.is_empty() {
        return;
    }
    if padding.len() > 3 {
        return padding.fill(E::zeroed());
    }
    // Stores with a condition take less time than a jump by the length.
    for index in 0..3 {
        if let Some(element) = padding.get_mut(index) {
            *element = E::zeroed();
        }
    }
}

/// The sums of two blocks of four rows.
pub(crate) fn sum([a, b, c, d]: [f32; 4], [e, f, g, h]: [f32; 4]) -> [f32; 4] {
    [a + e, b + f, c + g, d + h]
}

/// The greater of two numbers; NaN if one of them is NaN, unlike `f32::max`.
pub(crate) fn greater(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}
