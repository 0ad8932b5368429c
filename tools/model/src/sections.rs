//! Sections that are added to a packed image and removed from it.

use tidegate::SectionKind;
use tidegate::internals::image::field::{ALIGNMENT, MAX_SECTIONS, header, section};
use tidegate::internals::write::seal;

/// Why an image cannot have another section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants")]
pub enum SectionsError {
    #[error("the image cannot have another section: it has {MAX_SECTIONS}")]
    TooMany,
    #[error("the image would have more than 4 GiB")]
    TooLarge,
}

/// A checked image with one more optional section at its end. The model id stays.
pub fn append(image: &[u8], kind: SectionKind, payload: &[u8]) -> Result<Vec<u8>, SectionsError> {
    let (head, table, payloads) = parts(image);
    let sections = u16_of(head, header::SECTION_COUNT);
    if sections >= MAX_SECTIONS {
        return Err(SectionsError::TooMany);
    }
    let offset = u32::try_from(image.len() + section::LEN).map_err(|_| SectionsError::TooLarge)?;
    let len = u32::try_from(payload.len()).map_err(|_| SectionsError::TooLarge)?;
    let mut entry = [0; section::LEN];
    entry[section::KIND].copy_from_slice(&kind.code().to_le_bytes());
    entry[section::OFFSET].copy_from_slice(&offset.to_le_bytes());
    entry[section::PAYLOAD_LEN].copy_from_slice(&len.to_le_bytes());
    let mut more = [head, table, &entry, payloads, payload].concat();
    more.resize(more.len().next_multiple_of(ALIGNMENT), 0);
    // The other payloads move by the length of the new entry.
    relocate(&mut more, sections, |offset| offset + section::LEN as u32);
    finish(&mut more, sections + 1)?;
    Ok(more)
}

/// A checked image without its last section.
pub fn without_last(image: &[u8]) -> Result<Vec<u8>, SectionsError> {
    let (head, table, payloads) = parts(image);
    let sections = u16_of(head, header::SECTION_COUNT) - 1;
    let (table, entry) = table.split_at(table.len() - section::LEN);
    let last = image.len() - u32_of(entry, section::OFFSET) as usize;
    let (payloads, _) = payloads.split_at(payloads.len() - last);
    let mut bare = [head, table, payloads].concat();
    relocate(&mut bare, sections, |offset| offset - section::LEN as u32);
    finish(&mut bare, sections)?;
    Ok(bare)
}

/// Whether a checked image has a section of this kind.
pub fn has(image: &[u8], kind: SectionKind) -> bool {
    let (_, table, _) = parts(image);
    table.chunks(section::LEN).any(|entry| u16_of(entry, section::KIND) == kind.code())
}

/// Header, section table and payloads.
fn parts(image: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let (head, rest) = image.split_at(header::LEN);
    let (table, payloads) = rest.split_at(usize::from(u16_of(head, header::SECTION_COUNT)) * section::LEN);
    (head, table, payloads)
}

/// Changes the offsets of the first `sections` sections.
fn relocate(image: &mut [u8], sections: u16, to: impl Fn(u32) -> u32) {
    let table = &mut image[header::LEN..][..usize::from(sections) * section::LEN];
    for entry in table.chunks_mut(section::LEN) {
        let offset = to(u32_of(entry, section::OFFSET));
        entry[section::OFFSET].copy_from_slice(&offset.to_le_bytes());
    }
}

/// Writes lengths and checksum.
fn finish(image: &mut [u8], sections: u16) -> Result<(), SectionsError> {
    let len = u32::try_from(image.len()).map_err(|_| SectionsError::TooLarge)?;
    image[header::SECTION_COUNT].copy_from_slice(&sections.to_le_bytes());
    image[header::IMAGE_LEN].copy_from_slice(&len.to_le_bytes());
    seal(image);
    Ok(())
}

fn u16_of(bytes: &[u8], field: std::ops::Range<usize>) -> u16 {
    u16::from_le_bytes(bytes[field].try_into().expect("the field has two bytes"))
}

/// The u32 in a field.
pub fn u32_of(bytes: &[u8], field: std::ops::Range<usize>) -> u32 {
    u32::from_le_bytes(bytes[field].try_into().expect("the field has four bytes"))
}
