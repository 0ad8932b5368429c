//! Memory for sums whose first values nobody reads, without the instructions that would set them.

use core::mem::MaybeUninit;

/// `N` blocks.
pub(crate) struct Unset<const N: usize>(MaybeUninit<[[i32; 4]; N]>);

impl<const N: usize> Unset<N> {
    pub const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// Any values.
    #[cfg(target_arch = "arm")]
    #[inline(always)]
    pub fn any(&mut self) -> &mut [[i32; 4]; N] {
        // SAFETY: the assembly may write what it is given a pointer to, as far as the compiler knows: from then on there are
        // values, some or other, and every value is an integer.
        unsafe {
            core::arch::asm!("/* {} */", in(reg) self.0.as_mut_ptr(), options(nostack, preserves_flags));
            self.0.assume_init_mut()
        }
    }

    /// Zeros.
    #[cfg(not(target_arch = "arm"))]
    pub fn any(&mut self) -> &mut [[i32; 4]; N] {
        self.0.write([[0; 4]; N])
    }
}
