//! Pickles of PyTorch, whose objects may refer to each other any number of times.

use super::{Hostile, hostile, stored};

pub fn all() -> Vec<Hostile> {
    vec![
        hostile("list_copies.pt", list_copies()),
        hostile("long_keys.pt", long_keys()),
        hostile("many_dicts.pt", many_dicts()),
        hostile("equal_names.pt", equal_names()),
        hostile("many_tensors.pt", many_tensors()),
        hostile("many_entries.pt", many_entries()),
        hostile("wide_header.safetensors", wide_header()),
        hostile("empty_arrays.json", empty_arrays()),
    ]
}

const PROTOCOL: &[u8] = b"\x80\x02";

fn text(text: &[u8]) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text].concat()
}

fn archive(pickle: &[u8]) -> Vec<u8> {
    stored(&[("a/data.pkl", pickle), ("a/version", b"3")])
}

/// A list of 50,000 references to a pair, from which 4,000 dictionaries are made.
fn list_copies() -> Vec<u8> {
    let mut pickle = [PROTOCOL, b"K\0K\0\x86q\0](".as_slice()].concat();
    pickle.extend(b"h\0".repeat(50_000));
    pickle.extend(b"eq\x01ccollections\nOrderedDict\nq\x02");
    pickle.extend(b"h\x02h\x01\x85R".repeat(4_000));
    pickle.push(b'.');
    pickle
}

/// A dictionary with one long key, which is named again and again.
fn long_keys() -> Vec<u8> {
    let mut pickle = [PROTOCOL, &text(&b"k".repeat(1 << 19)), b"q\0}(".as_slice()].concat();
    pickle.extend(b"h\0N".repeat(1 << 16));
    pickle.extend(b"h\0ctorch._utils\n_rebuild_tensor_v2\n)Ru.");
    archive(&pickle)
}

/// Many keys for weights, all with the same dictionary, which holds no tensor.
fn many_dicts() -> Vec<u8> {
    let mut pickle = [PROTOCOL, &text(b"state_dict"), b"q\0}q\x01(".as_slice()].concat();
    pickle.extend(b"h\0N".repeat(100_000));
    pickle.extend(b"u0}(");
    pickle.extend(b"h\0h\x01".repeat(100_000));
    pickle.extend(b"u.");
    archive(&pickle)
}

/// One tensor of eight dimensions a million times under one name.
fn equal_names() -> Vec<u8> {
    let mut pickle = tensor(b"name", 1);
    pickle.push(b'}');
    for _ in 0..16 {
        pickle.push(b'(');
        pickle.extend(b"h\0h\x01".repeat(1 << 16));
        pickle.push(b'u');
    }
    pickle.push(b'.');
    archive(&pickle)
}

/// 100,000 names of layers for one empty tensor.
fn many_tensors() -> Vec<u8> {
    let mut pickle = tensor(b"name", 0);
    pickle.extend(b"}(");
    for k in 0..100_000 {
        pickle.extend(text(format!("{k:x}.weight").as_bytes()));
        pickle.extend(b"h\x01");
    }
    pickle.extend(b"u.");
    archive(&pickle)
}

/// The start of a pickle: a text as object 0 and a tensor of eight dimensions of length `dim` as object 1.
fn tensor(name: &[u8], dim: u8) -> Vec<u8> {
    let sizes = [b"(", [b'K', dim].repeat(8).as_slice(), b"t"].concat();
    let mut pickle = [PROTOCOL, &text(name), b"q\0", b"ctorch._utils\n_rebuild_tensor_v2\n("].concat();
    pickle.push(b'(');
    pickle.extend(text(b"storage"));
    pickle.extend(b"ctorch\nFloatStorage\n");
    pickle.extend(text(b"0"));
    pickle.extend(text(b"cpu"));
    pickle.extend(b"K\x01tQ");
    pickle.extend(b"K\0");
    pickle.extend(&sizes);
    pickle.extend(&sizes);
    pickle.extend(b"tRq\x010");
    pickle
}

/// An archive of 300,000 empty entries.
pub(super) fn many_entries() -> Vec<u8> {
    let mut bytes = stored(&[("a", b"")]);
    let end = bytes.len() - 22;
    let start = bytes.windows(4).position(|four| four == b"PK\x01\x02").expect("an archive has a directory");
    let (record, count) = (bytes[start..end].to_vec(), 300_000_u64);
    bytes.truncate(start);
    for k in 0..count {
        let mut record = record.clone();
        record.truncate(46);
        record[28..32].copy_from_slice(&[5, 0, 0, 0]);
        bytes.extend(record);
        bytes.extend(format!("{k:05x}").as_bytes());
    }
    let (directory, size) = (start as u64, bytes.len() as u64 - start as u64);
    let at = bytes.len() as u64;
    // The end of a directory of more than 65,535 entries (APPNOTE 4.3.14 to 4.3.16).
    bytes.extend(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    bytes.extend([count, count, size, directory].iter().flat_map(|field| field.to_le_bytes()));
    bytes.extend(b"PK\x06\x07\0\0\0\0");
    bytes.extend(at.to_le_bytes());
    bytes.extend(b"\x01\0\0\0PK\x05\x06\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0");
    bytes
}

/// A tensor with four million dimensions.
pub(super) fn wide_header() -> Vec<u8> {
    let dims = "1,".repeat(1 << 22);
    let header = format!("{{\"a\":{{\"dtype\":\"F32\",\"shape\":[{dims}0],\"data_offsets\":[0,0]}}}}");
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

/// A layer of RTNeural with a million empty arrays.
fn empty_arrays() -> Vec<u8> {
    let arrays = "[],".repeat(1 << 20);
    let layer = format!("{{\"type\":\"dense\",\"shape\":[null,1],\"weights\":[{arrays}[]]}}");
    format!("{{\"in_shape\":[null,1],\"layers\":[{layer}]}}").into_bytes()
}
