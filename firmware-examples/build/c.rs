//! Writes the files that the example in C includes: the sizes of the spotter and the list of the clips.

use std::error::Error;
use std::fs;
use std::path::Path;

use tidegate_model::c_header::{array, header};
use tidegate_model::canonical::{Canonical, Port};
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack;
use tidegate_model::tidegate::{Layout, Numeric};

use crate::spotter::Spotter;

/// Writes `kws.h` and `kws.c` from the existing `kws_f32.tgi`, and `clips.h`: the label and the number of samples of
/// `clip0.i16`, `clip1.i16`, ... The integer spotter, in a layout that pads its states,
/// and `hello` with its input in two parts and its logits, are for `core/capi/tests/api.c`.
pub fn write(out: &Path, spotter: &Spotter, mut hello: Canonical) -> Result<(), Box<dyn Error>> {
    let port = |name: &str, size, from: &str| Port { name: name.into(), size, from: from.into(), ..Port::default() };
    hello.architecture.inputs = vec![port("first", 1, ""), port("others", 3, "")];
    hello.architecture.nodes[0].inputs = vec!["first".into(), "others".into()];
    hello.architecture.outputs.push(port("logits", 3, "dense"));
    fs::write(out.join("api_ports.tgi"), pack(&hello, Numeric::F32)?)?;
    fs::write(out.join("api_i8x16.tgi"), spotter.pack(Numeric::I8x16, Layout::CortexM4)?)?;
    let image = ImageBuffer::new(&fs::read(out.join("kws_f32.tgi"))?);
    fs::write(out.join("kws.h"), header("kws", &image.model()?, image.bytes().len()))?;
    fs::write(out.join("kws.c"), array("kws", image.bytes()))?;
    let clips = spotter.clips.iter().enumerate();
    let clips = clips.map(|(number, clip)| format!(" CLIP({number}, {:?}, {})", clip.label, clip.samples.len()));
    Ok(fs::write(out.join("clips.h"), format!("#define CLIPS(CLIP){}\n", clips.collect::<String>()))?)
}
