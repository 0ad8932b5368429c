//! Golden cases. A case is a file of parameters, inputs, initial states and the results that a framework computed; it
//! runs through importer, packer, `core` and the oracle. `golden/README.md` and the metadata of the cases say how they
//! were made. Only the importer knows the framework's classes and cells. It states which tensors of the case hold
//! inputs, outputs and states ([`Conversion`]). Every element of every input and output must be used or compared.

mod definition;
mod run;
mod sequence;
mod way;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use tidegate::{Model, Numeric};
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::error::ImportError;
use tidegate_model::format::Conversion;
use tidegate_model::format::case::Definition;

use crate::images::AlignedBytes;
pub use definition::from_case;
use run::Run;
use sequence::{Axes, Rows};

/// Result of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every output and final state is within the tolerance. Holds the largest fraction of the tolerance that was used.
    Passed(f64),
    /// The reason why the case failed.
    Failed(String),
    /// The importer or this runner does not support the case. This never counts as a pass.
    Unsupported(String),
}

/// Why a case did not pass.
enum Stop {
    Failed(String),
    Unsupported(String),
}

fn failed(reason: impl std::fmt::Display) -> Stop {
    Stop::Failed(reason.to_string())
}

fn unsupported(reason: impl std::fmt::Display) -> Stop {
    Stop::Unsupported(reason.to_string())
}

/// Runs the case in a file.
pub fn run_file(path: &Path) -> Verdict {
    let run = || {
        let bytes = std::fs::read(path).map_err(failed)?;
        Case::read(&bytes)?.run()
    };
    match run() {
        Ok(used) => Verdict::Passed(used),
        Err(Stop::Failed(reason)) => Verdict::Failed(reason),
        Err(Stop::Unsupported(reason)) => Verdict::Unsupported(reason),
    }
}

/// The cells and layers of a case's model.
///
/// # Panics
/// If the case cannot be read or is not supported.
pub fn cells_of(path: &Path) -> BTreeSet<String> {
    let convert = || {
        let case = Case::read(&std::fs::read(path).map_err(failed)?)?;
        from_case(&case.metadata, &case.tensors).map_err(failed)
    };
    match convert() {
        Ok(conversion) => conversion.model.architecture.nodes.into_iter().map(|node| node.cell).collect(),
        Err(Stop::Failed(reason) | Stop::Unsupported(reason)) => panic!("{}: {reason}", path.display()),
    }
}

/// The tolerance rule that this runner applies.
const RULE: &str = "abs(a-b) <= tolerance * max(1, max|expected|)";

/// A case as read from its file.
pub struct Case {
    metadata: HashMap<String, String>,
    /// Every tensor as f32. Integers and booleans are widened, f64 is rounded. If rounding a tensor `x` leaves a
    /// remainder, it is `x_rest`.
    tensors: BTreeMap<String, Tensor>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    tolerance: f64,
}

impl Case {
    /// Opens a file that is a case.
    pub fn open(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match Self::read(&bytes) {
            Ok(case) => case,
            Err(Stop::Failed(reason) | Stop::Unsupported(reason)) => panic!("{}: {reason}", path.display()),
        }
    }

    /// The case's model, for a case that the importer knows.
    pub fn model(&self) -> Canonical {
        from_case(&self.metadata, &self.tensors).unwrap_or_else(|error| panic!("{error}")).model
    }

    /// The case's model; `None` if the importer does not know the case.
    pub fn try_model(&self) -> Option<Canonical> {
        from_case(&self.metadata, &self.tensors).ok().map(|conversion| conversion.model)
    }

    /// The case's class, arguments and parameters.
    pub fn definition(&self) -> Definition<'_> {
        definition::definition(&self.metadata, &self.tensors).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The sequences of the batch, `[time][features]`, of a case with one input.
    pub fn sequences(&self) -> Vec<Rows> {
        let layout = self.metadata.get("layout").map_or("", String::as_str);
        let axes = Axes::parse(layout, "input").unwrap_or_else(|| panic!("layout {layout:?}"));
        let input = &self.model().architecture.inputs[0].name;
        axes.sequences(self.get(input)).unwrap_or_else(|| panic!("{input:?} lacks batch or time"))
    }

    /// Whether the case has this tensor.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A tensor of the case.
    pub fn get(&self, name: &str) -> &Tensor {
        self.tensors.get(name).unwrap_or_else(|| panic!("the case has no tensor {name:?}"))
    }

    /// The tolerance for outputs and states that stay in [-1, 1].
    pub fn tolerance(&self) -> f64 {
        self.tolerance
    }

    fn read(bytes: &[u8]) -> Result<Self, Stop> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(failed)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let mut tensors = BTreeMap::new();
        for (name, view) in SafeTensors::deserialize(bytes).map_err(failed)?.iter() {
            let quads = view.data().as_chunks::<4>().0.iter();
            let eights = view.data().as_chunks::<8>().0.iter();
            if view.dtype() == Dtype::F64 {
                let rest = |&eight| f64::from_le_bytes(eight) - f64::from(f64::from_le_bytes(eight) as f32);
                let data: Vec<f32> = eights.clone().map(|eight| rest(eight) as f32).collect();
                if data.iter().any(|&rest| rest != 0.0) {
                    tensors.insert(format!("{name}_rest"), Tensor { shape: view.shape().to_vec(), data });
                }
            }
            let data = match view.dtype() {
                Dtype::F32 => quads.map(|&quad| f32::from_le_bytes(quad)).collect(),
                Dtype::F64 => eights.map(|&eight| f64::from_le_bytes(eight) as f32).collect(),
                Dtype::I32 => quads.map(|&quad| i32::from_le_bytes(quad) as f32).collect(),
                Dtype::I64 => eights.map(|&eight| i64::from_le_bytes(eight) as f32).collect(),
                Dtype::BOOL | Dtype::U8 => view.data().iter().map(|&truth| f32::from(truth)).collect(),
                // A case that needs this tensor is refused by name.
                _ => continue,
            };
            tensors.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), data });
        }
        let text = |key: &str| metadata.get(key).cloned().ok_or_else(|| failed(format!("its metadata have no {key}")));
        let names = |key: &str| -> Result<Vec<String>, Stop> { serde_json::from_str(&text(key)?).map_err(failed) };
        if text("tolerance_rule")? != RULE {
            return Err(unsupported(format!("tolerance rule {:?}", text("tolerance_rule")?)));
        }
        let tolerance = text("tolerance")?.parse().map_err(failed)?;
        Ok(Self { inputs: names("input_names")?, outputs: names("output_names")?, tolerance, tensors, metadata })
    }

    fn run(&self) -> Result<f64, Stop> {
        let conversion = from_case(&self.metadata, &self.tensors).map_err(|error| match error {
            ImportError::Unsupported(reason) => unsupported(reason),
            other => failed(other),
        })?;
        let bytes = AlignedBytes::pack(&conversion.model, Numeric::F32);
        let model = Model::parse(bytes.image()).map_err(failed)?;
        self.run_model(&conversion, &model)
    }

    fn run_model(&self, conversion: &Conversion, model: &Model<'_>) -> Result<f64, Stop> {
        Run::new(self, conversion, model)?.whole()
    }

    fn has_input(&self, name: &str) -> bool {
        self.inputs.iter().any(|input| input == name)
    }

    fn has_output(&self, name: &str) -> bool {
        self.outputs.iter().any(|output| output == name)
    }

    fn tensor(&self, name: &str) -> Result<&Tensor, Stop> {
        self.tensors.get(name).ok_or_else(|| unsupported(format!("{name:?} does not exist in a supported type")))
    }
}
