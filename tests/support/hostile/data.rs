//! Arrays and sounds.

use super::{Hostile, hostile, zip};

pub fn all() -> Vec<Hostile> {
    vec![
        hostile("zeros.npz", zeros()),
        hostile("many_entries.npz", super::torch::many_entries()),
        hostile("bytes.npz", bytes()),
        hostile("long_row.csv", [b"1,".repeat(8 << 20), b"1\n".to_vec()].concat()),
        hostile("short_rows.csv", b"1\n".repeat(2 << 20)),
        hostile("wide_header.safetensors", super::torch::wide_header()),
        hostile("constant.flac", constant()),
    ]
}

fn npy(descr: &str, fortran: &str, len: usize, each: usize) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({len}, 1), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + len * each, 0);
    bytes
}

/// Half a gigabyte of zeros in half a megabyte.
fn zeros() -> Vec<u8> {
    zip(&[("a.npy", &npy("<f4", "False", 125 << 20, 4))])
}

/// Bytes, each of which becomes an f32, in columns.
fn bytes() -> Vec<u8> {
    zip(&[("a.npy", &npy("|u1", "True", 125 << 20, 1))])
}

/// Frames of 65,535 samples in a dozen bytes each.
fn constant() -> Vec<u8> {
    let frames = 4_000_u64;
    let mut bytes = b"fLaC\x80\0\0\x22".to_vec();
    bytes.extend([0, 16, 0xff, 0xff, 0, 0, 0, 0, 0, 0]);
    // 20 bits of rate, 3 of channels - 1, 5 of bits - 1, 36 of samples.
    let info = 16_000_u64 << 44 | 15 << 36 | (frames * 65_535);
    bytes.extend(info.to_be_bytes());
    bytes.extend([0; 16]);
    for k in 0..frames {
        let mut frame = vec![0xff, 0xf8, 0x70, 0x08];
        match k {
            0..0x80 => frame.push(k as u8),
            0x80..0x800 => frame.extend([0xc0 | (k >> 6) as u8, 0x80 | (k & 0x3f) as u8]),
            _ => frame.extend([0xe0 | (k >> 12) as u8, 0x80 | (k >> 6 & 0x3f) as u8, 0x80 | (k & 0x3f) as u8]),
        }
        frame.extend([0xff, 0xfe]);
        frame.push(crc(&frame, 8, 0x07) as u8);
        frame.extend([0, 0, 1]);
        frame.extend((crc(&frame, 16, 0x8005) as u16).to_be_bytes());
        bytes.extend(frame);
    }
    bytes
}

/// A checksum of 8 or 16 bits, most significant bit first, starting at zero.
fn crc(bytes: &[u8], bits: u32, polynomial: u32) -> u32 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << (bits - 8), |crc, _| {
            let shifted = crc << 1 & ((1 << bits) - 1);
            if crc >> (bits - 1) & 1 == 1 { shifted ^ polynomial } else { shifted }
        })
    })
}
