//! Reads Python's pickles without running them: the opcodes that build numbers, texts, tuples, lists and dictionaries,
//! and the names of the objects that a pickle would call. An unknown name is refused before anything after it is read.
//! Calls are kept as calls; the reader of the objects interprets them.

use std::collections::HashMap;

use crate::format::refuse::err_if;

/// Maximum number of objects in a pickle. A state dict has about thirty for each tensor.
pub(super) const MAX_OBJECTS: usize = 1 << 18;

/// Index of an object in [`Pickle::objects`].
pub(super) type Id = usize;

/// An object of a pickle. Texts are borrowed from its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object<'a> {
    None,
    Bool(bool),
    /// An integer; PyTorch's magic number needs 80 bits.
    Int(i128),
    Float(f64),
    Text(&'a str),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A known name: module and member.
    Global(&'a str, &'a str),
    Call {
        callee: Id,
        args: Id,
    },
    /// A reference to an object that is stored outside the pickle.
    Persistent(Id),
}

#[derive(Debug)]
pub(super) enum Refusal {
    /// An unknown name: module and member.
    Global(String, String),
    /// The pickle has more than [`MAX_OBJECTS`].
    Limit,
    /// Any other reason, with numbers.
    Malformed(String),
}

/// The objects of a pickle and its root.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    objects: Vec<Object<'a>>,
    pub root: Id,
    pub len: usize,
}

impl<'a> Pickle<'a> {
    /// Reads the pickle at the start of `bytes`. `known` decides which names it may contain.
    pub fn parse(bytes: &'a [u8], known: fn(&str, &str) -> bool) -> Result<Self, Refusal> {
        let reader =
            Reader { bytes, at: 0, copied: 0, known, objects: Vec::new(), stack: Vec::new(), marks: Vec::new() };
        reader.run()
    }

    pub fn objects(&self) -> impl Iterator<Item = &Object<'a>> {
        self.objects.iter()
    }

    pub fn get(&self, id: Id) -> &Object<'a> {
        // An id always comes from the same pickle.
        &self.objects[id]
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Number of items that were copied from lists to dictionaries.
    copied: usize,
    known: fn(&str, &str) -> bool,
    objects: Vec<Object<'a>>,
    stack: Vec<Id>,
    marks: Vec<usize>,
}

fn malformed<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Malformed(reason.into()))
}

/// Checks that there is room for one more object.
fn bounded(len: usize) -> Result<(), Refusal> {
    err_if(len >= MAX_OBJECTS, || Refusal::Limit)
}

impl<'a> Reader<'a> {
    fn run(mut self) -> Result<Pickle<'a>, Refusal> {
        let mut memo: HashMap<u32, Id> = HashMap::new();
        loop {
            let start = self.at;
            bounded(memo.len())?;
            let object = match self.byte()? {
                b'N' => Object::None,
                0x88 => Object::Bool(true),
                0x89 => Object::Bool(false),
                b'K' => Object::Int(self.byte()?.into()),
                b'M' => Object::Int(u16::from_le_bytes(self.array()?).into()),
                b'J' => Object::Int(i32::from_le_bytes(self.array()?).into()),
                0x8a => self.long()?,
                b'G' => Object::Float(f64::from_be_bytes(self.array()?)),
                // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8; BINSTRING and SHORT_BINSTRING of Python 2.
                b'X' | b'T' => {
                    let len = u32::from_le_bytes(self.array()?);
                    self.text(len.into())?
                }
                0x8c | b'U' => {
                    let len = self.byte()?;
                    self.text(len.into())?
                }
                0x8d => {
                    let len = u64::from_le_bytes(self.array()?);
                    self.text(len)?
                }
                b')' => Object::Tuple(Vec::new()),
                0x85..=0x87 => {
                    let len = usize::from(self.bytes[start] - 0x84);
                    let Some(from) = self.stack.len().checked_sub(len).filter(|&from| from >= self.floor()) else {
                        return malformed(format!("its stack is empty at byte {start}"));
                    };
                    Object::Tuple(self.stack.split_off(from))
                }
                b't' => Object::Tuple(self.popped_to_mark()?),
                b']' => Object::List(Vec::new()),
                b'l' => Object::List(self.popped_to_mark()?),
                b'}' => Object::Dict(Vec::new()),
                b'd' => Object::Dict(pairs(&self.popped_to_mark()?)?),
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.global(module, name)?
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    match (&self.objects[module], &self.objects[name]) {
                        (&Object::Text(module), &Object::Text(name)) => self.global(module, name)?,
                        _ => return malformed(format!("byte {start} names something that is not a text")),
                    }
                }
                b'R' => {
                    let (args, callee) = (self.pop()?, self.pop()?);
                    self.call(callee, args)?
                }
                b'Q' => Object::Persistent(self.pop()?),
                b'.' => {
                    let root = self.pop()?;
                    return Ok(Pickle { objects: self.objects, root, len: self.at });
                }
                other => {
                    self.change(other, start, &mut memo)?;
                    continue;
                }
            };
            self.push(object)?;
        }
    }

    /// Runs an opcode that makes no object.
    fn change(&mut self, opcode: u8, start: usize, memo: &mut HashMap<u32, Id>) -> Result<(), Refusal> {
        match opcode {
            // PROTO, FRAME. Later protocols only add opcodes.
            0x80 => drop(self.byte()?),
            0x95 => drop(self.take(8)?),
            b'(' => {
                bounded(self.marks.len())?;
                self.marks.push(self.stack.len());
            }
            b'0' => drop(self.pop()?),
            b'1' => drop(self.popped_to_mark()?),
            b'2' => {
                let top = self.top()?;
                self.push_again(top)?;
            }
            b'a' | b'e' => {
                let values = if opcode == b'a' { vec![self.pop()?] } else { self.popped_to_mark()? };
                self.append(&values)?;
            }
            b's' | b'u' => {
                let two = |value, key| vec![key, value];
                let values = if opcode == b's' { two(self.pop()?, self.pop()?) } else { self.popped_to_mark()? };
                self.set(&values)?;
            }
            // BINPUT, LONG_BINPUT, MEMOIZE.
            b'q' | b'r' | 0x94 => {
                let key = match opcode {
                    b'q' => self.byte()?.into(),
                    b'r' => u32::from_le_bytes(self.array()?),
                    _ => memo.len() as u32,
                };
                memo.insert(key, self.top()?);
            }
            // BINGET, LONG_BINGET.
            b'h' | b'j' => {
                let key = if opcode == b'h' { self.byte()?.into() } else { u32::from_le_bytes(self.array()?) };
                match memo.get(&key) {
                    Some(&id) => self.push_again(id)?,
                    None => return malformed(format!("byte {start} asks for object {key}, which does not exist")),
                }
            }
            // BUILD. State of an ordered dictionary besides its items: the versions of its modules. It is dropped.
            b'b' => {
                self.pop()?;
                let object = self.top()?;
                if !matches!(self.objects[object], Object::Dict(_)) {
                    return malformed(format!("byte {start} sets the state of an object other than a dictionary"));
                }
            }
            other => {
                return malformed(format!("its opcode {other:#04x} at byte {start} does not occur in state dicts"));
            }
        }
        Ok(())
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let end = self.at.checked_add(len);
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            let left = self.bytes.len() - self.at;
            return malformed(format!("its pickle ends at byte {}, but {len} more bytes are needed", self.at + left));
        };
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, Refusal> {
        self.array().map(|[byte]| byte)
    }

    /// Reads up to a line feed, which is consumed but not returned.
    fn line(&mut self) -> Result<&'a str, Refusal> {
        let rest = &self.bytes[self.at..];
        let Some(len) = rest.iter().position(|&byte| byte == b'\n') else {
            return malformed("its pickle ends within a name");
        };
        self.at += len + 1;
        str::from_utf8(&rest[..len]).or_else(|_| malformed("it names something that is not a text"))
    }

    fn push(&mut self, object: Object<'a>) -> Result<(), Refusal> {
        bounded(self.objects.len())?;
        self.push_again(self.objects.len())?;
        self.objects.push(object);
        Ok(())
    }

    fn push_again(&mut self, id: Id) -> Result<(), Refusal> {
        bounded(self.stack.len())?;
        self.stack.push(id);
        Ok(())
    }

    /// Index of the first stack object that an opcode without a mark may pop.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id, Refusal> {
        match self.stack.last() {
            Some(&id) if self.stack.len() > self.floor() => Ok(id),
            _ => malformed(format!("its stack is empty at byte {}", self.at - 1)),
        }
    }

    fn pop(&mut self) -> Result<Id, Refusal> {
        let id = self.top()?;
        self.stack.pop();
        Ok(id)
    }

    fn popped_to_mark(&mut self) -> Result<Vec<Id>, Refusal> {
        let mark = self.marks.pop().map_or_else(|| malformed(format!("it has no mark at byte {}", self.at - 1)), Ok)?;
        Ok(self.stack.split_off(mark))
    }

    fn long(&mut self) -> Result<Object<'a>, Refusal> {
        let len = self.byte()?.into();
        let bytes = self.take(len)?;
        let mut word = [if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 }; 16];
        match word.get_mut(..len) {
            Some(low) => low.copy_from_slice(bytes),
            None => return malformed(format!("it holds a number of {len} bytes")),
        }
        Ok(Object::Int(i128::from_le_bytes(word)))
    }

    fn text(&mut self, len: u64) -> Result<Object<'a>, Refusal> {
        let bytes = self.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        str::from_utf8(bytes).map(Object::Text).or_else(|_| malformed("it holds a text that is not UTF-8"))
    }

    fn global(&self, module: &'a str, name: &'a str) -> Result<Object<'a>, Refusal> {
        err_if(!(self.known)(module, name), || Refusal::Global(module.to_owned(), name.to_owned()))?;
        Ok(Object::Global(module, name))
    }

    /// A call, or a dictionary if the callee is `OrderedDict`.
    fn call(&mut self, callee: Id, args: Id) -> Result<Object<'a>, Refusal> {
        let (&Object::Global(module, name), Object::Tuple(given)) = (&self.objects[callee], &self.objects[args]) else {
            return malformed("it calls an object that is not a name");
        };
        if (module, name) != ("collections", "OrderedDict") {
            return Ok(Object::Call { callee, args });
        }
        let items = match given.as_slice() {
            [] => return Ok(Object::Dict(Vec::new())),
            [items] => match &self.objects[*items] {
                Object::List(items) => items,
                _ => return malformed("its ordered dictionary is made from an object that is not a list"),
            },
            _ => return malformed("its ordered dictionary has too many arguments"),
        };
        // Any number of dictionaries may be made from one list.
        self.copied += items.len();
        bounded(self.copied)?;
        let pair = |&item: &Id| match &self.objects[item] {
            Object::Tuple(pair) | Object::List(pair) if pair.len() == 2 => Ok((pair[0], pair[1])),
            _ => malformed("its ordered dictionary is made from items that are not pairs"),
        };
        Ok(Object::Dict(items.iter().map(pair).collect::<Result<_, _>>()?))
    }

    fn append(&mut self, values: &[Id]) -> Result<(), Refusal> {
        let list = self.top()?;
        match &mut self.objects[list] {
            Object::List(list) => list.extend(values),
            _ => return malformed("it appends to an object that is not a list"),
        }
        Ok(())
    }

    fn set(&mut self, values: &[Id]) -> Result<(), Refusal> {
        let pairs = pairs(values)?;
        let dict = self.top()?;
        match &mut self.objects[dict] {
            Object::Dict(items) => items.extend(pairs),
            _ => return malformed("it sets items of an object that is not a dictionary"),
        }
        Ok(())
    }
}

fn pairs(values: &[Id]) -> Result<Vec<(Id, Id)>, Refusal> {
    let (pairs, []) = values.as_chunks::<2>() else {
        return malformed("its dictionary has a key without a value");
    };
    Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Pickle<'_>, Refusal> {
        Pickle::parse(bytes, |module, _| module == "collections")
    }

    #[test]
    fn a_call_of_something_unknown_is_refused_before_its_arguments_are_read() {
        // os.system("id") as Python writes it, in protocols 0 and 4.
        for bytes in [
            &b"cposix\nsystem\np0\n(Vid\np1\ntp2\nRp3\n."[..],
            b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.",
        ] {
            let error = parse(bytes).unwrap_err();
            assert!(matches!(error, Refusal::Global(module, name) if module == "posix" && name == "system"));
        }
    }

    #[test]
    fn every_prefix_of_a_pickle_is_refused() {
        let bytes =
            b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00bK\x02u}b.";
        let pickle = parse(bytes).unwrap();
        assert!(matches!(pickle.get(pickle.root), Object::Dict(items) if items.len() == 2));
        assert_eq!(pickle.len, bytes.len());
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn numbers_have_their_signs() {
        for (bytes, value) in [
            (&b"\x8a\x01\xff."[..], -1),
            (b"\x8a\x00.", 0),
            (b"J\xff\xff\xff\xff.", -1),
            (b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", 0x1950_a86a_20f9_469c_fc6c),
        ] {
            let pickle = parse(bytes).unwrap();
            assert_eq!(pickle.get(pickle.root), &Object::Int(value));
        }
    }
}
