//! The common part of all drivers: reads a case from its folder, executes the commands on standard input, and prints the
//! times. `../../README.md` describes the protocol.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// A case that `export.py` has written.
pub struct Case {
    folder: PathBuf,
    fields: BTreeMap<String, String>,
}

impl Case {
    /// The case in the folder that is the first argument of this program.
    pub fn from_arguments() -> Result<Self> {
        let folder = PathBuf::from(std::env::args_os().nth(1).context("usage: DRIVER CASE VARIANT")?);
        let text = fs::read_to_string(folder.join("case.txt"))?;
        let fields = text.lines().filter_map(|line| line.split_once(' ')).map(|(k, v)| (k.into(), v.into())).collect();
        Ok(Self { folder, fields })
    }

    /// The variant of the runtime: the second argument.
    pub fn variant() -> Result<String> {
        std::env::args().nth(2).context("usage: DRIVER CASE VARIANT")
    }

    /// A number of `case.txt`.
    pub fn number(&self, name: &str) -> Result<usize> {
        Ok(self.fields.get(name).with_context(|| format!("case.txt has no {name}"))?.parse()?)
    }

    /// Whether a call is a step of a stream. Otherwise it is a whole sequence.
    pub fn is_stream(&self) -> Result<bool> {
        Ok(self.number("stream")? == 1)
    }

    /// A file of the case.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Reads a file of little-endian f32.
    pub fn floats(&self, name: &str) -> Result<Vec<f32>> {
        let path = self.path(name);
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        let (values, _) = bytes.as_chunks::<4>();
        Ok(values.iter().map(|&value| f32::from_le_bytes(value)).collect())
    }
}

/// The inputs and outputs of a graph of one step, which `ports.txt` lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ports {
    pub frame: Port,
    /// The output, if it is not the first state.
    pub output: Option<Port>,
    /// The states, and the names of their next values.
    pub states: Vec<(Port, String)>,
}

/// A tensor of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    pub shape: Vec<usize>,
}

impl Port {
    fn new(name: &str, shape: &str) -> Result<Self> {
        Ok(Self { name: name.into(), shape: shape.split(',').map(str::parse).collect::<Result<_, _>>()? })
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Ports {
    /// Those of a stream.
    pub fn read(case: &Case) -> Result<Self> {
        Self::parse(&fs::read_to_string(case.path("ports.txt"))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut ports = Self::default();
        for line in text.lines() {
            match *line.split(' ').collect::<Vec<_>>() {
                ["frame", name, shape] => ports.frame = Port::new(name, shape)?,
                ["output", name, shape] => ports.output = Some(Port::new(name, shape)?),
                ["state", name, next, shape] => ports.states.push((Port::new(name, shape)?, next.into())),
                _ => bail!("ports.txt has the line {line:?}"),
            }
        }
        Ok(ports)
    }
}

/// A loaded case.
pub trait Runner {
    /// One call: the next step of an endless stream over the case's frames, or the whole sequence from a zero state.
    fn call(&mut self) -> Result<()>;

    /// The outputs of every step of the case from a zero state, `[time, batch, size]`.
    fn outputs(&mut self) -> Result<Vec<f32>>;
}

/// Loads a case and calls it once, prints both times, then executes commands until standard input ends.
pub fn serve<R: Runner>(load: impl FnOnce() -> Result<(R, String)>) -> Result<()> {
    let begin = Instant::now();
    let (mut runner, description) = load()?;
    let loaded = begin.elapsed().as_nanos();
    runner.call()?;
    let first = begin.elapsed().as_nanos() - loaded;
    say(&format!("ready {loaded} {first} {description}"))?;
    for line in io::stdin().lock().lines() {
        match line?.split_once(' ') {
            Some(("run", calls)) => {
                let calls: u64 = calls.parse()?;
                let begin = Instant::now();
                for _ in 0..calls {
                    runner.call()?;
                }
                say(&begin.elapsed().as_nanos().to_string())?;
            }
            Some(("output", path)) => {
                let outputs = runner.outputs()?;
                let bytes: Vec<u8> = outputs.iter().flat_map(|value| value.to_le_bytes()).collect();
                fs::write(Path::new(path), bytes)?;
                say("ok")?;
            }
            _ => bail!("the command must be `run CALLS` or `output PATH`"),
        }
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Transposes `[rows, columns, size]` to `[columns, rows, size]`.
pub fn transposed(values: &[f32], rows: usize, columns: usize, size: usize) -> Vec<f32> {
    let at = |column: usize, row: usize| &values[(row * columns + column) * size..][..size];
    (0..columns).flat_map(|column| (0..rows).flat_map(move |row| at(column, row))).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::{Port, Ports, transposed};

    #[test]
    fn ports_are_read() {
        let port = |name: &str, shape: &[usize]| Port { name: name.into(), shape: shape.into() };
        let text = "frame mix 1,257,1,2\noutput enh 1,514\nstate cache cache_out 2,16\n";
        let ports = Ports::parse(text).unwrap();
        assert_eq!(ports.frame, port("mix", &[1, 257, 1, 2]));
        assert_eq!(ports.output, Some(port("enh", &[1, 514])));
        assert_eq!(ports.states, [(port("cache", &[2, 16]), "cache_out".to_owned())]);
        assert!(Ports::parse("frame mix 1,x\n").is_err());
        assert!(Ports::parse("input mix 1\n").is_err());
    }

    #[test]
    fn columns_become_rows() {
        let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let turned = transposed(&values, 2, 3, 2);
        assert_eq!(turned, [0.0, 1.0, 6.0, 7.0, 2.0, 3.0, 8.0, 9.0, 4.0, 5.0, 10.0, 11.0]);
        assert_eq!(transposed(&turned, 3, 2, 2), values);
    }
}
