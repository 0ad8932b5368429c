//! Handwritten HDF5 files with contents that h5py does not write: circular links, false sizes, chunks that unpack to
//! more than a file may hold; and Keras models made of them. Objects have headers of version 1 and links as messages,
//! as in version 3.0 of the format's specification. Files that h5py itself wrote are in `tests/frameworks`.

use serde_json::Value as Json;

const UNDEFINED: u64 = u64::MAX;
const SUPERBLOCK_BYTES: usize = 96;

/// Target of a name in a group.
#[derive(Clone, Debug)]
pub enum Link {
    /// A group.
    Group(Group),
    /// A tensor.
    Tensor(Tensor),
    /// The root group again: a circular link.
    Root,
    /// Another path in the file.
    Soft(String),
    /// A path in another file.
    External(String, String),
    /// An arbitrary address.
    Address(u64),
}

/// A group: attributes that are strings or lists of strings, and links.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Attributes by name. The strings of a list have the same length.
    pub texts: Vec<(String, Vec<String>)>,
    /// Links by name.
    pub links: Vec<(String, Link)>,
}

/// A tensor, whose header may be false.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The shape that the file states.
    pub shape: Vec<u64>,
    /// The datatype message.
    pub datatype: Vec<u8>,
    /// The bytes that are present.
    pub data: Vec<u8>,
    /// The length that the file states, for contiguous data.
    pub claimed: Option<u64>,
    /// Dimensions of the only chunk, for chunked data, and the number of the filter that compresses it.
    pub chunk: Option<(Vec<u32>, Option<u16>)>,
}

/// Little-endian f32.
pub const F32: [u8; 20] = [0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];
/// Number of the deflate filter.
pub const DEFLATE: u16 = 1;

impl Tensor {
    /// Small, distinct numbers of this shape.
    pub fn of(shape: &[usize]) -> Self {
        let len: usize = shape.iter().product();
        let data = (0..len).flat_map(|k| ((k % 17) as f32 / 17.0 - 0.5).to_le_bytes()).collect();
        let shape = shape.iter().map(|&dim| dim as u64).collect();
        Self { shape, datatype: F32.to_vec(), data, claimed: None, chunk: None }
    }

    /// Zeros of this shape in one deflated chunk.
    pub fn packed(shape: &[usize]) -> Self {
        let dims = shape.iter().map(|&dim| dim as u32).collect();
        let data = zeros(4 * shape.iter().product::<usize>());
        Self { data, chunk: Some((dims, Some(DEFLATE))), ..Self::of(shape) }
    }
}

/// A zlib stream of `count` zeros: matches of 258 bytes at a distance of one, in the fixed code.
pub fn zeros(count: usize) -> Vec<u8> {
    let (mut bytes, mut filled) = (vec![0x78, 0x9c], 8);
    let mut push = |code: u16, len: u32| {
        for k in (0..len).rev() {
            if filled == 8 {
                bytes.push(0);
                filled = 0;
            }
            *bytes.last_mut().expect("a byte was pushed") |= ((code >> k & 1) as u8) << filled;
            filled += 1;
        }
    };
    // The last block, and its type with the lower bit first.
    push(0b110, 3);
    let literals = 1 + (count - 1) % 258;
    (0..literals).for_each(|_| push(0b0011_0000, 8));
    (0..(count - literals) / 258).for_each(|_| push(0b1100_0101 << 5, 13));
    push(0, 7);
    bytes.extend((((count % 65521) as u32) << 16 | 1).to_be_bytes());
    bytes
}

/// A file with this root.
pub fn file(root: &Group) -> Vec<u8> {
    // The position of the root depends only on lengths, which are the same in the second pass.
    let mut writer = Writer { bytes: vec![], root: 0 };
    for _ in 0..2 {
        writer.bytes = vec![0; SUPERBLOCK_BYTES];
        writer.root = writer.group(root);
    }
    let end = writer.bytes.len() as u64;
    let superblock = [
        b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0\0\0\0\0".to_vec(),
        [0, UNDEFINED, end, UNDEFINED, 0, writer.root].iter().flat_map(|field| field.to_le_bytes()).collect(),
    ]
    .concat();
    writer.bytes[..superblock.len()].copy_from_slice(&superblock);
    writer.bytes
}

struct Writer {
    bytes: Vec<u8>,
    root: u64,
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn dataspace(shape: &[u64]) -> Vec<u8> {
    let dims = shape.iter().flat_map(|dim| dim.to_le_bytes());
    [1, shape.len() as u8, 0, 0, 0, 0, 0, 0].into_iter().chain(dims).collect()
}

fn attribute(name: &str, texts: &[String]) -> Vec<u8> {
    let len = texts.iter().map(String::len).max().unwrap_or(0).max(1);
    let datatype = [&[0x13, 0, 0, 0][..], &(len as u32).to_le_bytes()].concat();
    let dataspace = dataspace(&[texts.len() as u64]);
    let name = format!("{name}\0");
    let sizes = [name.len(), datatype.len(), dataspace.len()].into_iter().flat_map(|size| (size as u16).to_le_bytes());
    let mut message: Vec<u8> = [1, 0].into_iter().chain(sizes).collect();
    for part in [name.as_bytes(), &datatype, &dataspace] {
        message.extend(padded(part));
    }
    for text in texts {
        let end = message.len() + len;
        message.extend(text.as_bytes());
        message.resize(end, 0);
    }
    message
}

impl Writer {
    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len() as u64;
        self.bytes.extend(bytes);
        at
    }

    fn header(&mut self, messages: &[(u16, Vec<u8>)]) -> u64 {
        let mut body = Vec::new();
        for (kind, message) in messages {
            let message = padded(message);
            body.extend(kind.to_le_bytes());
            body.extend((message.len() as u16).to_le_bytes());
            body.extend([0; 4]);
            body.extend(message);
        }
        let mut header = vec![1, 0];
        header.extend((messages.len() as u16).to_le_bytes());
        header.extend(1_u32.to_le_bytes());
        header.extend((body.len() as u32).to_le_bytes());
        header.extend([0; 4]);
        header.extend(body);
        self.push(&header)
    }

    fn group(&mut self, group: &Group) -> u64 {
        let mut messages = vec![(2, [&[0, 0][..], &UNDEFINED.to_le_bytes(), &UNDEFINED.to_le_bytes()].concat())];
        for (name, texts) in &group.texts {
            messages.push((12, attribute(name, texts)));
        }
        for (name, link) in &group.links {
            let (kind, target) = match link {
                Link::Group(group) => (0, self.group(group).to_le_bytes().to_vec()),
                Link::Tensor(tensor) => (0, self.tensor(tensor).to_le_bytes().to_vec()),
                Link::Address(address) => (0, address.to_le_bytes().to_vec()),
                Link::Root => (0, self.root.to_le_bytes().to_vec()),
                Link::Soft(path) => (1, sized(path.as_bytes())),
                Link::External(file, path) => (64, sized(format!("\0{file}\0{path}\0").as_bytes())),
            };
            // A link message: version and flags, type, name length in one byte.
            messages.push((6, [&[1, 8, kind, name.len() as u8], name.as_bytes(), &target].concat()));
        }
        self.header(&messages)
    }

    fn tensor(&mut self, tensor: &Tensor) -> u64 {
        let data = self.push(&tensor.data);
        let mut messages = vec![(1, dataspace(&tensor.shape)), (3, tensor.datatype.clone())];
        match &tensor.chunk {
            None => {
                let len = tensor.claimed.unwrap_or(tensor.data.len() as u64);
                messages.push((8, [&[3, 1][..], &data.to_le_bytes(), &len.to_le_bytes()].concat()));
            }
            Some((dims, filter)) => {
                let size = tensor
                    .datatype
                    .get(4..8)
                    .map_or(4, |size| u32::from_le_bytes(size.try_into().expect("there are four bytes")));
                let axes = dims.len() + 1;
                // One key, the chunk's address, and the closing key.
                let mut tree = [&b"TREE\x01\x00\x01\x00"[..], &[0xff; 16]].concat();
                tree.extend((tensor.data.len() as u32).to_le_bytes());
                tree.extend([0; 4]);
                tree.extend(vec![0; 8 * axes]);
                tree.extend(data.to_le_bytes());
                tree.extend([0; 8]);
                tree.extend(tensor.shape.iter().chain([&0]).flat_map(|dim| dim.to_le_bytes()));
                let tree = self.push(&tree);
                let dims = dims.iter().chain([&size]).flat_map(|dim| dim.to_le_bytes());
                let layout = [3, 2, axes as u8].into_iter().chain(tree.to_le_bytes()).chain(dims).collect();
                messages.push((8, layout));
                if let Some(filter) = filter {
                    let id = filter.to_le_bytes();
                    // Client data and the padding of an odd count.
                    messages.push((
                        11,
                        vec![1, 1, 0, 0, 0, 0, 0, 0, id[0], id[1], 0, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0],
                    ));
                }
            }
        }
        self.header(&messages)
    }
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat()
}

/// The weights of a layer, name and tensor, in Keras's order.
pub type Weights = Vec<(String, Tensor)>;

/// A whole model as Keras 2 saves it: its architecture and the weights of its layers.
pub fn keras2(config: &Json, layers: Vec<(&str, Weights)>) -> Group {
    let names = layers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let root = Group { texts: vec![("layer_names".into(), names)], links: layers.into_iter().map(group).collect() };
    let text = |name: &str, text: String| (name.to_owned(), vec![text]);
    Group {
        texts: vec![
            text("keras_version", "2.11.0".into()),
            text("backend", "tensorflow".into()),
            text("model_config", config.to_string()),
        ],
        links: vec![("model_weights".into(), Link::Group(root))],
    }
}

fn group((name, weights): (&str, Weights)) -> (String, Link) {
    let names = weights.iter().map(|(name, _)| name.clone()).collect();
    let links = weights.into_iter().map(|(name, tensor)| (name, Link::Tensor(tensor))).collect();
    (name.to_owned(), Link::Group(Group { texts: vec![("weight_names".into(), names)], links }))
}
