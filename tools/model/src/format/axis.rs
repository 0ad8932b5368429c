//! The axes of an image and of the kernel that slides over it.

use super::layer::Layer;

/// One axis of an image and of its kernel.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Number of pixels.
    pub length: usize,
    /// Number of taps.
    pub kernel: usize,
    /// Distance from one position to the next.
    pub stride: usize,
    /// Distance from one tap to the next.
    pub dilation: usize,
}

/// Zeros before and after an axis.
pub type Around = [usize; 2];

/// Zeros before and after an axis, and the number of positions of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub before: usize,
    pub after: usize,
    pub positions: usize,
}

/// Extents of the cells for each axis: those of [`Axis`], then those of [`Placed`].
const EXTENTS: [[&str; 7]; 3] = [
    ["in_depth", "kernel_depth", "stride_depth", "dilation_depth", "pad_front", "pad_back", "out_depth"],
    ["in_height", "kernel_height", "stride_height", "dilation_height", "pad_top", "pad_bottom", "out_height"],
    ["in_width", "kernel_width", "stride_width", "dilation_width", "pad_left", "pad_right", "out_width"],
];

impl Axis {
    /// Number of pixels that the kernel covers; `None` if it has no tap or covers too many.
    pub fn covers(self) -> Option<usize> {
        self.kernel.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)
    }

    /// Places the kernel with this padding; `None` if it does not fit.
    pub fn padded(self, before: usize, after: usize) -> Option<Placed> {
        let room = self.length.checked_add(before)?.checked_add(after)?.checked_sub(self.covers()?)?;
        Some(Placed { before, after, positions: room.checked_div(self.stride)? + 1 })
    }

    /// Places the kernel with the padding for which a kernel with stride 1 has one position for each pixel. If the
    /// number of zeros is odd, the end has one more.
    pub fn same(self) -> Option<Placed> {
        let last = self.length.checked_sub(1)?.checked_div(self.stride)?.checked_mul(self.stride)?;
        let zeros = last.checked_add(self.covers()?)?.saturating_sub(self.length);
        self.padded(zeros / 2, zeros.div_ceil(2))
    }
}

impl Layer {
    /// Sets the extents for an image with one axis (height), two (height and width) or three.
    #[must_use]
    pub fn over(mut self, axes: &[(Axis, Placed)]) -> Self {
        for ((axis, placed), names) in axes.iter().zip(&EXTENTS[3 - axes.len().clamp(2, 3)..]) {
            let (Axis { length, kernel, stride, dilation }, Placed { before, after, positions }) = (*axis, *placed);
            let values = [length, kernel, stride, dilation, before, after, positions];
            self.extents.extend(names.iter().copied().zip(values));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_zero_is_behind() {
        let axis = |[length, kernel, stride, dilation]: [usize; 4]| Axis { length, kernel, stride, dilation };
        let valid = |sizes| axis(sizes).padded(0, 0);
        let same = |sizes| axis(sizes).same();
        let placed = |[before, after, positions]: [usize; 3]| Some(Placed { before, after, positions });
        assert_eq!(valid([8, 3, 1, 1]), placed([0, 0, 6]));
        assert_eq!(valid([8, 3, 2, 1]), placed([0, 0, 3]));
        assert_eq!(valid([11, 3, 1, 2]), placed([0, 0, 7]));
        assert_eq!(same([8, 4, 1, 1]), placed([1, 2, 8]));
        assert_eq!(same([8, 4, 2, 1]), placed([1, 1, 4]));
        assert_eq!(same([5, 1, 3, 1]), placed([0, 0, 2]));
        assert_eq!(same([7, 3, 1, 3]), placed([3, 3, 7]));
        assert_eq!(valid([2, 3, 1, 1]), None);
        assert_eq!(same([2, 3, 0, 1]), None);
    }
}
