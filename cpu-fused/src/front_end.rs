//! Front ends on hosts.

use tidegate::Mfcc;

/// The front end with an FFT for this CPU: with AVX2, four points at once. Only front ends with tables of integers have one;
/// others are returned as they are. The features have the same bits.
///
/// ```
/// # use tidegate::{FrontEnd, Mfcc};
/// # fn show(mfcc: &Mfcc<'_>, memory: &mut [u32]) -> Result<(), tidegate::BufferTooSmall> {
/// let mut front_end = FrontEnd::new(&tidegate_fused::host_front_end(mfcc), memory)?;
/// # let _ = front_end.next();
/// # Ok(())
/// # }
/// ```
pub fn host_front_end<'a>(mfcc: &Mfcc<'a>) -> Mfcc<'a> {
    #[cfg(target_arch = "x86_64")]
    if crate::arch::x86_64::Avx2::detect().is_some() {
        return mfcc.with_fft::<crate::arch::x86_64::front_end::Avx2Fft>();
    }
    *mfcc
}
