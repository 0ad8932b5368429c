//! A front end as its image section describes it: the settings and the tables, in f32 or in integers.

use super::float;
use super::frames::Frame;
use super::integer::{self, IntegerMfcc};
use super::section::{FloatTables, field, read_settings};
use super::settings::{FrontEndError, MfccSettings};
use crate::math::HAS_FLOATS;

/// The tables, by their number type.
#[derive(Clone, Copy, Debug)]
enum Tables<'a> {
    Float(FloatTables<'a>),
    Integer(integer::Tables<'a>),
}

/// The function that computes the f32 features of a frame: `extract(mfcc, frame, work, features)`.
type Extract = fn(&Mfcc<'_>, Frame<'_>, &mut [u32], &mut [f32]);

/// A front end: the settings and tables of an image section, all checked.
#[derive(Clone, Copy, Debug)]
pub struct Mfcc<'a> {
    settings: MfccSettings,
    tables: Tables<'a>,
    /// The function that matches the tables. Firmware whose image is a constant then does not contain the other
    /// function.
    extract: Extract,
}

impl<'a> Mfcc<'a> {
    /// Reads the front end in a section's payload; borrows the tables.
    ///
    /// # Errors
    /// If the payload's length is neither [`MfccSettings::section_len`] nor
    /// [`integer_section_len`](MfccSettings::integer_section_len), if a setting is out of range, or if a table could
    /// cause a feature that is not finite.
    pub const fn parse(payload: &'a [u8]) -> Result<Self, FrontEndError> {
        let Some(read) = read_settings(payload) else {
            return Err(FrontEndError::SectionLen { needed: field::TABLES, given: payload.len() });
        };
        let (settings, integer) = ok!(read);
        ok!(settings.check());
        if integer {
            let tables = Tables::Integer(ok!(integer::Tables::parse(payload, &settings)));
            return Ok(Self { settings, tables, extract: extract_integer });
        }
        if !HAS_FLOATS {
            return Err(FrontEndError::NoFloats);
        }
        let tables = Tables::Float(ok!(FloatTables::parse(payload, &settings)));
        Ok(Self { settings, tables, extract: extract_float })
    }

    /// The settings of the section.
    pub const fn settings(&self) -> &MfccSettings {
        &self.settings
    }

    /// The settings and tables for an [`IntegerFrontEnd`](super::IntegerFrontEnd); `None` if the section has tables of
    /// f32.
    pub const fn integer(&self) -> Option<IntegerMfcc<'a>> {
        match self.tables {
            Tables::Integer(tables) => Some(IntegerMfcc { settings: self.settings, tables }),
            Tables::Float(_) => None,
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
            Tables::Float(_) => None,
        }
    }

    /// Words of memory that a [`FrontEnd`](super::FrontEnd) needs: the samples of a frame (two per word), the FFT, the
    /// mel bands and the features.
    pub const fn memory_words(&self) -> usize {
        self.settings.memory_words()
    }

    /// The f32 features of a frame.
    pub(super) fn extract(&self, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
        (self.extract)(self, frame, work, features);
    }
}

/// [`Mfcc::extract`] with tables of integers: each feature times the scale.
fn extract_integer(mfcc: &Mfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
    let (Tables::Integer(tables), Some(scale)) = (&mfcc.tables, mfcc.scale()) else { return };
    integer::extract(mfcc.settings(), tables, frame, work, features.iter_mut(), |value| f32::from(value) * scale);
}

/// [`Mfcc::extract`] with tables of f32.
fn extract_float(mfcc: &Mfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
    let Tables::Float(tables) = &mfcc.tables else { return };
    float::extract(mfcc.settings(), tables, frame, work, features);
}
