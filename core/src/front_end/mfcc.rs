//! A front end as its image section describes it: the settings and the tables, in f32 or in integers.

use super::frames::Frame;
use super::integer::{Fft, Plain};
use super::section::{FloatTables, field, read_settings};
use super::settings::{FrontEndError, Method, MfccSettings};
use super::{float, integer, micro};
use crate::math::HAS_FLOATS;

/// The tables, by method and number type.
#[derive(Clone, Copy, Debug)]
enum Tables<'a> {
    Float(FloatTables<'a>),
    Integer(integer::Tables<'a>),
    Micro(micro::Tables<'a>),
}

/// The function that computes the f32 features of a frame: `extract(mfcc, frame, work, features)`.
type Extract = fn(&Mfcc<'_>, Frame<'_>, &mut [u32], &mut [f32]);
/// The function that computes the integer features of a frame.
type IntegerExtract = fn(&IntegerMfcc<'_>, Frame<'_>, &mut [u32], &mut [i16]);

/// A front end: the settings and tables of an image section, all checked.
#[derive(Clone, Copy, Debug)]
pub struct Mfcc<'a> {
    settings: MfccSettings,
    tables: Tables<'a>,
    /// The function for these tables. Firmware whose image is a constant then contains no function for other tables.
    extract: Extract,
    /// As `extract`, in integers; `None` if the tables are f32.
    integers: Option<IntegerExtract>,
}

impl<'a> Mfcc<'a> {
    /// Reads the front end in a section's payload; borrows the tables.
    ///
    /// # Errors
    /// If the payload's length is neither [`MfccSettings::section_len`] nor
    /// [`integer_section_len`](MfccSettings::integer_section_len) nor that of [`Method::Micro`](super::Method::Micro),
    /// if a setting is out of range, or if a table could cause a feature that is not finite.
    pub const fn parse(payload: &'a [u8]) -> Result<Self, FrontEndError> {
        let Some(read) = read_settings(payload) else {
            return Err(FrontEndError::SectionLen { needed: field::TABLES, given: payload.len() });
        };
        let (settings, integer) = ok!(read);
        ok!(settings.check());
        if settings.method.is_micro() {
            let tables = Tables::Micro(ok!(micro::Tables::parse(payload, &settings)));
            return Ok(Self { settings, tables, extract: micro_in_f32, integers: Some(micro_in_integers) });
        }
        if integer {
            let tables = Tables::Integer(ok!(integer::Tables::parse(payload, &settings)));
            return Ok(match settings.method {
                Method::LogMel(_) => Self {
                    settings,
                    tables,
                    extract: log_mel_in_f32::<Plain>,
                    integers: Some(log_mel_in_integers::<Plain>),
                },
                _ => Self {
                    settings,
                    tables,
                    extract: integer_in_f32::<Plain>,
                    integers: Some(integer_in_integers::<Plain>),
                },
            });
        }
        if !HAS_FLOATS {
            return Err(FrontEndError::NoFloats);
        }
        let tables = Tables::Float(ok!(FloatTables::parse(payload, &settings)));
        Ok(Self { settings, tables, extract: float_in_f32, integers: None })
    }

    /// This front end with another FFT, if it has one in integers. The features have the same bits.
    #[doc(hidden)]
    pub fn with_fft<T: Fft>(self) -> Self {
        let Tables::Integer(_) = self.tables else { return self };
        let (extract, integers): (Extract, IntegerExtract) = match self.settings.method {
            Method::LogMel(_) => (log_mel_in_f32::<T>, log_mel_in_integers::<T>),
            _ => (integer_in_f32::<T>, integer_in_integers::<T>),
        };
        Self { extract, integers: Some(integers), ..self }
    }

    /// The settings of the section.
    pub const fn settings(&self) -> &MfccSettings {
        &self.settings
    }

    /// The settings and tables for an [`IntegerFrontEnd`](super::IntegerFrontEnd); `None` if the section has tables of
    /// f32.
    pub const fn integer(&self) -> Option<IntegerMfcc<'a>> {
        match self.integers {
            Some(extract) => Some(IntegerMfcc { settings: self.settings, tables: self.tables, extract }),
            None => None,
        }
    }

    /// This front end without the function for f32 features, for [`Model::integers_only`](crate::Model::integers_only),
    /// which never passes it to a [`FrontEnd`](super::FrontEnd).
    pub(crate) const fn integers_only(self) -> Self {
        const fn nothing(_: &Mfcc<'_>, _: Frame<'_>, _: &mut [u32], _: &mut [f32]) {}
        Self { extract: nothing, ..self }
    }

    /// The scale of the integer features; `None` if the section has tables of f32.
    pub const fn scale(&self) -> Option<f32> {
        match self.tables {
            Tables::Integer(tables) => Some(f32::from_bits(tables.scale_bits)),
            Tables::Micro(tables) => Some(f32::from_bits(tables.scale_bits)),
            Tables::Float(_) => None,
        }
    }

    /// Words of memory that a [`FrontEnd`](super::FrontEnd) needs: the samples of a frame (two per word), the FFT, the
    /// mel bands and the features.
    pub const fn memory_words(&self) -> usize {
        self.settings.memory_words()
    }

    /// The address of the code for a frame, which programs that measure code print.
    #[doc(hidden)]
    pub fn code_address(&self) -> usize {
        self.extract as usize
    }

    /// The f32 features of a frame.
    pub(super) fn extract(&self, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
        (self.extract)(self, frame, work, features);
    }
}

/// The settings and integer tables of a front end: [`Mfcc::integer`].
#[derive(Clone, Copy, Debug)]
pub struct IntegerMfcc<'a> {
    settings: MfccSettings,
    tables: Tables<'a>,
    extract: IntegerExtract,
}

impl IntegerMfcc<'_> {
    /// The settings of the section.
    pub const fn settings(&self) -> &MfccSettings {
        &self.settings
    }

    /// Words of memory that an [`IntegerFrontEnd`](super::IntegerFrontEnd) needs.
    pub const fn memory_words(&self) -> usize {
        self.settings.memory_words()
    }

    /// The address of the code for a frame, which programs that measure code print.
    #[doc(hidden)]
    pub fn code_address(&self) -> usize {
        self.extract as usize
    }

    /// The integer features of a frame.
    pub(super) fn extract(&self, frame: Frame<'_>, work: &mut [u32], features: &mut [i16]) {
        (self.extract)(self, frame, work, features);
    }
}

/// [`Mfcc::extract`] with tables of f32.
fn float_in_f32(mfcc: &Mfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
    let Tables::Float(tables) = &mfcc.tables else { return };
    float::extract(&mfcc.settings, tables, frame, work, features);
}

/// [`Mfcc::extract`] with tables of integers: each feature times the scale.
fn integer_in_f32<T: Fft>(mfcc: &Mfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
    let Tables::Integer(tables) = &mfcc.tables else { return };
    let scale = f32::from_bits(tables.scale_bits);
    integer::extract::<T, _>(&mfcc.settings, tables, frame, work, features.iter_mut(), |value| {
        f32::from(value) * scale
    });
}

/// [`Mfcc::extract`] of [`Method::LogMel`] with tables of integers: each feature times the scale.
fn log_mel_in_f32<T: Fft>(mfcc: &Mfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
    let Tables::Integer(tables) = &mfcc.tables else { return };
    let scale = f32::from_bits(tables.scale_bits);
    let made = |value| f32::from(value) * scale;
    integer::extract_log_mel::<T, _>(&mfcc.settings, tables, frame, work, features.iter_mut(), made);
}

/// [`Mfcc::extract`] of [`Method::Micro`](super::Method::Micro): each feature times the scale.
fn micro_in_f32(mfcc: &Mfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
    let Tables::Micro(tables) = &mfcc.tables else { return };
    let scale = f32::from_bits(tables.scale_bits);
    micro::extract(&mfcc.settings, tables, frame, work, features.iter_mut(), |value| f32::from(value) * scale);
}

/// [`IntegerMfcc::extract`] of MFCCs.
fn integer_in_integers<T: Fft>(mfcc: &IntegerMfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [i16]) {
    let Tables::Integer(tables) = &mfcc.tables else { return };
    integer::extract::<T, _>(&mfcc.settings, tables, frame, work, features.iter_mut(), |value| value);
}

/// [`IntegerMfcc::extract`] of [`Method::LogMel`].
fn log_mel_in_integers<T: Fft>(mfcc: &IntegerMfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [i16]) {
    let Tables::Integer(tables) = &mfcc.tables else { return };
    integer::extract_log_mel::<T, _>(&mfcc.settings, tables, frame, work, features.iter_mut(), |value| value);
}

/// [`IntegerMfcc::extract`] of [`Method::Micro`](super::Method::Micro).
fn micro_in_integers(mfcc: &IntegerMfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [i16]) {
    let Tables::Micro(tables) = &mfcc.tables else { return };
    micro::extract(&mfcc.settings, tables, frame, work, features.iter_mut(), |value| value);
}
