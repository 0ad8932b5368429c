//! Small files that once made the tools take gigabytes or many seconds: sharing, compression, declared sizes, and
//! loops over loops. `tests/hostile.rs` and the tests of the command line read them with limits.

mod data;
mod keras;
mod nam;
mod onnx;
mod tensorflow;
mod tflite;
mod torch;

use std::io::{Cursor, Write};

/// A hostile file.
#[derive(Debug)]
pub struct Hostile {
    /// Name of the file, with the extension by which the tools recognize data.
    pub file: &'static str,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Model files.
pub fn models() -> Vec<Hostile> {
    let all = [torch::all(), onnx::all(), keras::all(), tensorflow::all(), tflite::all(), nam::all()];
    all.into_iter().flatten().collect()
}

/// Files of arrays and sounds.
pub fn data() -> Vec<Hostile> {
    data::all()
}

fn hostile(file: &'static str, bytes: Vec<u8>) -> Hostile {
    Hostile { file, bytes }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A length-delimited field of a protobuf message.
fn field(tag: u64, content: &[u8]) -> Vec<u8> {
    [&varint(tag << 3 | 2), &varint(content.len() as u64), content].concat()
}

/// A varint field of a protobuf message.
fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

/// A deflated zip archive.
fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    archive(entries, zip::CompressionMethod::Deflated)
}

/// A zip archive that stores its entries as they are.
fn stored(entries: &[(&str, &[u8])]) -> Vec<u8> {
    archive(entries, zip::CompressionMethod::Stored)
}

fn archive(entries: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, content) in entries {
        archive.start_file(*name, options).expect("an entry can be added");
        archive.write_all(content).expect("memory can be written");
    }
    archive.finish().expect("an archive can be closed").into_inner()
}
