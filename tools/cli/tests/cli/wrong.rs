//! Wrong inputs: the exit code and the exact line that each command prints.

use std::collections::BTreeMap;
use std::fs;

use tidegate_model::canonical::Tensor;
use tidegate_model::data::{UNNAMED, write_tensors};

use super::{Workplace, gru_pb, shipped, yes_flac};

/// A command, and the line on standard error after `tidegate: `, or after `error: ` for the exit code 2.
const WRONG: &[(&str, &str)] = &[
    ("import missing.onnx -o x.safetensors", "missing.onnx: there is no such file: check the path"),
    ("import folder -o x.safetensors", "folder: is a folder, but a file is needed"),
    ("import empty.h5 -o x.safetensors", "empty.h5: it is empty; copy or export the file again"),
    (
        "import cut.pb -o x.safetensors",
        "cut.pb: it is cut off: node 52 begins at byte 5668 and needs 202154 bytes, 94332 are left; copy or export the file again",
    ),
    (
        "import text.onnx -o x.safetensors",
        "text.onnx: it is neither a flash image nor a model in a known format; give a Keras .h5 or .keras, a PyTorch state dict, a TensorFlow checkpoint or .pb graph, an ONNX .onnx, a TFLite .tflite, an RTNeural or GuitarML .json, a .nam, an RNNoise .rnn, or a canonical .safetensors",
    ),
    (
        "import m.pb -o k.tgi",
        "k.tgi: import writes models as safetensors: give -o k.safetensors, or `tidegate pack m.pb -o k.tgi` for an image",
    ),
    (
        "pack m.pb -o k.safetensors",
        "k.safetensors: pack writes images: give -o k.tgi, or `tidegate import m.pb -o k.safetensors` for a model",
    ),
    (
        "new kws --model g.tgi --for qemu-m4 --threshold 0.5",
        "g.tgi: is a flash image, which holds its settings: leave --schedule, --front-end, --mean-of, --threshold and --refractory out",
    ),
    (
        "pack m.pb -o fixed.onnx",
        "fixed.onnx: pack writes images: give -o fixed.tgi, or `tidegate import m.pb -o fixed.safetensors` for a model",
    ),
    (
        "import m.pb -o arch.json",
        "arch.json: import writes models as safetensors: give -o arch.safetensors, or `tidegate pack m.pb -o arch.tgi` for an image",
    ),
    (
        "pack m.pb -o k.tgi --report yes.flac",
        "yes.flac: --report writes text, JSON (.json) or a page (.html): give --report yes.txt",
    ),
    ("export g.tgi -o m.pb", "m.pb: -o writes ONNX: give -o m.onnx"),
    ("sign g.tgi --key key.pem -o m.pb", "m.pb: -o writes an image: give -o m.tgi"),
    ("inspect g.tgi --c-header k.c --c-array k.c", "k.c: is the name of two outputs: give each output its own name"),
    ("inspect g.tgi --c-header m.pb", "m.pb: --c-header writes a C header: give --c-header m.h"),
    ("inspect g.tgi --c-header k.h --c-array m.pb", "m.pb: --c-array writes a C file: give --c-array m.c"),
    ("pack m.pb -o k.tgi --keep a=16 --keep a=8", "--keep: a is given twice: leave one out"),
    ("inspect fixed.onnx --bind sr=1 --bind sr=2", "--bind: sr is given twice: leave one out"),
    ("inspect fixed.onnx --shape x=1,1 --shape x=2,1", "--shape: x is given twice: leave one out"),
    ("inspect fixed.onnx --state a=b --state a=c", "--state: a is given twice: leave one out"),
    ("pack g.tgi -o h.tgi", "g.tgi: is a flash image already; give the model that it was packed from"),
    (
        "import fixed.onnx -o x.safetensors --window 7",
        r#"fixed.onnx: input "features" has 25 steps, but --window says 7; leave --window out"#,
    ),
    (
        "import m.pb -o x.safetensors --window 7",
        r#"m.pb: input "Mfcc" has 25 steps, but --window says 7; leave --window out"#,
    ),
    (
        "import okay_nabu.tflite -o x.safetensors --window 7",
        "okay_nabu.tflite: --window with a file whose sequences have a length is not supported; leave it out",
    ),
    (
        "import m.pb -o x.safetensors --bind sr=16000",
        "m.pb: --bind sr: this option is only for inputs of ONNX graphs; leave it out",
    ),
    (
        "import weights.rnn -o x.safetensors --state a=b",
        "weights.rnn: --state a: this option is only for inputs of ONNX and TFLite graphs; leave it out",
    ),
    (
        "import both.pt -o x.safetensors --shape x=1,42",
        "both.pt: --shape x: this option is only for inputs of ONNX graphs and frozen graphs of TensorFlow; leave it out",
    ),
    (
        "inspect m.safetensors --bind W=x.npy",
        "m.safetensors: --bind W: this option is only for inputs of ONNX graphs; leave it out",
    ),
    (
        "import weights.onnx -o x.safetensors",
        r#"weights.onnx: input "W" is a weight, which must be known when the model is read; bind it, as in --bind W=weights.safetensors"#,
    ),
    (
        "import parts.onnx -o x.safetensors",
        r#"parts.onnx: input "sr" selects a part of the graph: bind it, as in --bind sr=16000; another value selects another part"#,
    ),
    (
        "import fixed.onnx -o x.safetensors --bind nope=1",
        r#"fixed.onnx: --bind of "nope", which is not an input of the graph, is not supported; leave it out"#,
    ),
    (
        "import fixed.onnx -o x.safetensors --state a=b",
        r#"fixed.onnx: --state a=b: the graph has no input "a"; name an input and an output of the graph"#,
    ),
    (
        "pack m.pb -o x.tgi --labels few.txt",
        "few.txt: has 2 labels, the model m.pb has 12 classes; give as many with --labels FILE",
    ),
    ("pack m.pb -o x.tgi --labels lost.txt", "lost.txt: there is no such file: check the path"),
    (
        "pack weights.rnn -o x.tgi",
        "weights.rnn: nothing says which values its input has, and integers need their range: give real input with --calibrate, or --calibrate noise for values from -1 to 1",
    ),
    (
        "pack m.pb -o x.tgi --calibrate noise",
        "m.pb: --calibrate noise is for features whose values nothing shows: leave it out, and the model is calibrated on sounds or indices that tidegate has",
    ),
    (
        "pack m.pb -o x.tgi --numeric f16 --calibrate yes.flac",
        "--calibrate: is only for integers, not for f16: leave --calibrate or --numeric out",
    ),
    (
        "pack m.pb -o x.tgi --keep nolayer=16",
        r#"--keep: "nolayer" cannot have weights of another width; these can: gru, dense"#,
    ),
    (
        "pack m.pb -o x.tgi --range nope:mse",
        r#"--range: the model has no "nope"; it has Mfcc, dense, gru, gru.hidden, softmax"#,
    ),
    (
        "pack m.pb -o x.tgi --budget 1KiB",
        "m.pb: the image takes 87,552 bytes, more than the 1,024 of --budget: raise it, or try --numeric i4x16",
    ),
    (
        "pack m.pb -o x.tgi --front-end nofile",
        "nofile: is not a file, and no front end has this name; known: precise, micro_wake_word, mlperf_streaming",
    ),
    (
        "pack m.pb -o x.tgi --calibrate folder",
        "folder: has no .wav and no .flac: give a folder of clips, an index CSV or an input file",
    ),
    (
        "pack okay_nabu.tflite -o x.tgi --range mse",
        "--range: the numeric i8 takes the integers that a model already has: give --numeric i8x16 to quantize it",
    ),
    ("pack m.pb -o x.tgi --threshold 0.9", "m.pb: has no labels to detect: give them with --labels FILE"),
    (
        "inspect cut.tgi",
        "cut.tgi: the image ends too soon: it should have 319840 bytes: pack the model again, or fetch the image again",
    ),
    ("inspect g.tgi --numeric f16", "g.tgi: is packed as f32 already: leave --numeric out"),
    (
        "inspect g.tgi --window 7",
        "g.tgi: is a flash image, which holds its architecture: leave --arch, --window, --shape, --bind, --state and --stream out",
    ),
    ("inspect g.tgi --labels few.txt", "g.tgi: is a flash image, which holds its labels: leave --labels out"),
    (
        "run g.tgi --input wide.npy",
        r#"wide.npy: tensor of shape [25, 11]; the input "Mfcc" takes [steps, 10] or [n, steps, 10]"#,
    ),
    ("run g.tgi --input nan.csv", r#"nan.csv: the input "Mfcc" has NaN in step 1; only finite numbers are allowed"#),
    ("run g.tgi --input ragged.csv", "ragged.csv: line 2: has 1 columns; the first row has 2"),
    ("run g.tgi --input x.npy --output y.txt", "y.txt: has no supported extension: .npy, .npz, .safetensors or .csv"),
    ("run g.tgi --input x.npy --output x.npy", "x.npy: is also an input: give the output another name"),
    (
        "run g.tgi --input x.npy --state-in r.state",
        "r.state: saved by another model, or by this one packed otherwise; give a state that --state-out wrote with this model, or leave --state-in out",
    ),
    (
        "run fixed.onnx --input x.npy --numeric i8x16",
        "fixed.onnx: an ONNX graph runs in f32 and f16: pack it to run it in integers",
    ),
    ("run r.tgi --input noisy.wav", "r.tgi: has no front end for sound: pack it with --front-end, or give features"),
    (
        "listen g.tgi --wav fast.wav",
        "fast.wav: is 44100 Hz mono, 16-bit PCM; this model needs 16000 Hz mono, 16-bit PCM: convert with `sox fast.wav -b 16 -e signed-integer -r 16000 -c 1 OUT.wav`",
    ),
    (
        "listen g.tgi --wav yes.flac --plot x.png",
        "x.png: pictures are SVG, which browsers show: give --plot x.svg; for another format, convert it with `rsvg-convert x.svg -o x.png`",
    ),
    ("listen r.tgi --wav noisy.wav", "r.tgi: has no front end for sound: pack it with --front-end, or give features"),
    ("listen m.pb --wav yes.flac", "m.pb: has no labels for its classes: pack it with --labels FILE"),
    ("eval g.tgi --index word.csv", "word.csv: line 1: the header has no column `label`; it has: file, word"),
    (
        "eval g.tgi --index maybe.csv",
        r#"maybe.csv: label "maybe" is not one of the model's: _silence_ _unknown_ yes no up down left right on off stop go"#,
    ),
    (
        "eval g.tgi --index gone.csv",
        "gone.csv: line 2: no.flac: there is no such file: check the path; paths are relative to the index",
    ),
    (
        "verify g.tgi --against l.pb --input x.npy",
        "g.tgi: has other layers than l.pb: was it packed from another model?",
    ),
    (
        "verify m.pb --against m.pb --input x.npy",
        "m.pb: is not an image: pack it first, `tidegate pack MODEL -o IMAGE`",
    ),
    ("verify g.tgi --against g.tgi --input x.npy", "g.tgi: is an image: give the model that it was packed from"),
    (
        "verify g.tgi --against m.pb --input short.npy",
        "short.npy: ends before the model gives an output: give at least 25 steps, or --endless to run without windows",
    ),
    ("sign m.pb --key key.pem -o s.tgi", "m.pb: is not an image: pack it first, `tidegate pack MODEL -o IMAGE`"),
    (
        "sign g.tgi --key key.pub.pem --attach names.txt -o s.tgi",
        "names.txt: has not 64 bytes: give the raw signature of Ed25519",
    ),
    (
        "sign g.tgi --key key.pub.pem --attach zeros.sig -o s.tgi",
        "zeros.sig: the signature is not that of this image by this key: give --key, --counter and --product as for --digest",
    ),
    (
        "sign g.tgi --key key.pem --product 12 -o s.tgi",
        "error: invalid value '12' for '--product <HEX>': write 32 hexadecimal digits: the 16 bytes of the product id",
    ),
    ("keygen key.pem", "key.pem: exists, and a key that is overwritten is lost: give another name"),
    ("keygen none/key.pem", "none/key.pem: there is no folder none: make it with `mkdir -p none`"),
    ("verify-signature g.tgi --key key.pub.pem", "g.tgi: the image is not signed: sign it with `tidegate sign`"),
    (
        "verify-signature signed.tgi --key key.pub.pem --min-counter 3",
        "signed.tgi: the image has security counter 2, but at least 3 is required: sign it again with --counter 3 or more",
    ),
    (
        "verify-signature signed.tgi --key key.pub.pem --product 000000000000000000000000000000ff",
        "signed.tgi: the image is for another product: 00000000000000000000000000000000: sign it again with the --product of the device",
    ),
    (
        "denoise noisy.wav clean.wav --recipe loud weights.rnn",
        "--recipe: loud is not known; known: dtln, gtcrn, rnnoise",
    ),
    (
        "denoise noisy.wav clean.mp3 --recipe rnnoise weights.rnn",
        "clean.mp3: is not named .wav, the only format of sound that is written: rename it",
    ),
    (
        "denoise yes.flac clean.wav --recipe rnnoise weights.rnn",
        "yes.flac: is 16000 Hz mono, 16-bit PCM; this model needs 48000 Hz mono, 16-bit PCM: convert with `sox yes.flac -b 16 -e signed-integer -r 48000 -c 1 OUT.wav`",
    ),
    (
        "denoise noisy.wav clean.wav --recipe rnnoise g.tgi",
        "g.tgi: takes [10] and gives [12]; network 1 of rnnoise takes [42] and gives [22, 1]",
    ),
    ("keygen k.pub.pem", "k.pub.pem: is the name of a public key, which may be shared: give k.pem"),
    ("sign g.tgi --key names.txt -o s.tgi", "names.txt: is no key in PEM: give one that `tidegate keygen` has written"),
    (
        "sign g.tgi --key key.pub.pem -o s.tgi",
        "key.pub.pem: is the public key: give the private one, or --digest and then --attach",
    ),
    (
        "run m.pb --input x.npy --labels names.txt --output names.txt",
        "names.txt: is also an input: give the output another name",
    ),
    (
        "run r.tgi --input y.npy --state-in r.state --output r.state",
        "r.state: is also an input: give the output another name",
    ),
    (
        "listen g.tgi --wav yes.flac --labels names.txt --plot names.txt",
        "names.txt: is also an input: give the output another name",
    ),
    (
        "verify g.tgi --against fixed.onnx --input x.npy --bind a=bound.svg --plot bound.svg",
        "bound.svg: is also an input: give the output another name",
    ),
    (
        "verify r.tgi --against weights.rnn --index rows.csv --seed 3",
        "rows.csv: holds sequences of features, which run one by one: leave --seed out",
    ),
    (
        "run fixed.onnx --input z.npz --endless",
        "fixed.onnx: is an ONNX graph, which runs as it is: pack it to use --endless",
    ),
    (
        "run fixed.onnx --input z.npz --labels names.txt",
        "fixed.onnx: is an ONNX graph, whose outputs have no labels: leave --labels out",
    ),
    ("bench g.tgi --threads 4 --batch 2", "--threads: 4 threads cannot share a batch of 2: give --batch 4"),
    ("demo --keep mine", "mine/stream.wav: is there already, and is not overwritten: give --keep another folder"),
    ("export m.pb -o m.onnx", "m.pb: is not an image: pack it first, `tidegate pack MODEL -o IMAGE`"),
    ("zoo nothing", r#"no network of the zoo has "nothing" in its name: `tidegate zoo` lists them"#),
    ("demo --keep m.pb", "m.pb: is a file, but a folder is needed: give another name"),
    ("man m.pb", "m.pb: is a file, but a folder is needed: give another name"),
    (
        "pack m.pb -o x.tgi --schedule 0/5",
        "error: invalid value '0/5' for '--schedule <endless|FRAMES/EVERY>': write `endless`, or two numbers from 1 to 1048576 as in 25/6",
    ),
    (
        "import fixed.onnx -o none/x.safetensors",
        "none/x.safetensors: there is no folder none: make it with `mkdir -p none`",
    ),
];

/// Files to be wrong about.
fn place() -> Workplace {
    let here = Workplace::new();
    let frameworks = "../tests/frameworks";
    for (name, original) in [
        ("m.pb", gru_pb()),
        ("l.pb", shipped("hello_edge/LSTM_S.pb")),
        ("names.txt", shipped("hello_edge/labels.txt")),
        ("yes.flac", yes_flac()),
        ("weights.rnn", shipped("../tests/rnnoise/weights.rnn")),
        ("noisy.wav", shipped("../tests/rnnoise/noisy.wav")),
        ("okay_nabu.tflite", shipped("wake_word/okay_nabu.tflite")),
        ("okay_nabu.json", shipped("wake_word/okay_nabu.json")),
        ("both.pt", shipped(&format!("{frameworks}/torch/both_directions_final.pt"))),
        ("fixed.onnx", shipped(&format!("{frameworks}/onnx/network_keywords.onnx"))),
        ("weights.onnx", shipped(&format!("{frameworks}/onnx/node_lstm_defaults.onnx"))),
        ("parts.onnx", shipped(&format!("{frameworks}/onnx/stream_spectrum_16000.onnx"))),
    ] {
        fs::copy(original, here.path(name)).unwrap();
    }
    fs::create_dir(here.path("folder")).unwrap();
    fs::create_dir(here.path("mine")).unwrap();
    here.write("mine/stream.wav", "mine");
    here.succeed(&["import", "m.pb", "-o", "m.safetensors"]);
    here.succeed(&["pack", "m.pb", "-o", "g.tgi", "--numeric", "f32", "--labels", "names.txt"]);
    here.succeed(&["pack", "weights.rnn", "-o", "r.tgi", "--numeric", "f16"]);
    here.succeed(&["keygen", "key.pem"]);
    here.succeed(&["sign", "g.tgi", "--key", "key.pem", "--counter", "2", "-o", "signed.tgi"]);
    here.write("zeros.sig", [0; 64]);
    here.write("cut.pb", &here.read("m.pb")[..100_000]);
    here.write("cut.tgi", &here.read("g.tgi")[..500]);
    for (name, text) in [
        ("empty.h5", ""),
        ("text.onnx", "hello"),
        ("few.txt", "yes\nno\n"),
        ("arch.json", "{}"),
        ("bound.svg", ""),
        ("rows.csv", "file\ny.npy\n"),
        ("nan.csv", "1,2,3,4,5,6,7,8,9,10\n1,2,NaN,4,5,6,7,8,9,10\n"),
        ("ragged.csv", "1,2\n3\n"),
        ("word.csv", "file,word\nyes.flac,yes\n"),
        ("maybe.csv", "file,label\nyes.flac,maybe\n"),
        ("gone.csv", "file,label\nno.flac,yes\n"),
    ] {
        here.write(name, text);
    }
    for (name, shape) in [("x.npy", [25, 10]), ("wide.npy", [25, 11]), ("short.npy", [3, 10]), ("y.npy", [3, 42])] {
        let data = vec![0.5; shape[0] * shape[1]];
        let tensor = BTreeMap::from([(UNNAMED.to_owned(), Tensor { shape: shape.to_vec(), data })]);
        write_tensors(&here.path(name), &tensor).unwrap();
    }
    here.succeed(&["run", "r.tgi", "--input", "y.npy", "--output", "z.npz", "--state-out", "r.state"]);
    let (bits_per_sample, sample_format) = (16, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate: 44_100, bits_per_sample, sample_format };
    hound::WavWriter::create(here.path("fast.wav"), spec).unwrap().finalize().unwrap();
    here
}

#[test]
fn wrong_inputs_are_refused_with_one_line_that_says_what_to_do() {
    assert!(WRONG.len() >= 30, "{}", WRONG.len());
    let here = place();
    let before = here.content();
    for (command, line) in WRONG {
        let args: Vec<&str> = command.split(' ').collect();
        let done = here.run(&args);
        let stderr = String::from_utf8(done.stderr).unwrap();
        let (code, expected) = match line.strip_prefix("error: ") {
            None => (1, format!("tidegate: {line}\n")),
            Some(_) => (2, format!("{line}\n")),
        };
        assert_eq!(done.status.code(), Some(code), "{command}: {stderr}");
        // Below a wrong argument, clap points to the help.
        let found = if code == 2 { stderr.split_inclusive('\n').next().unwrap_or_default() } else { stderr.as_str() };
        assert_eq!(found, expected, "{command}");
        assert!(done.stdout.is_empty(), "{command}: {}", String::from_utf8_lossy(&done.stdout));
        assert!(here.content() == before, "{command} left {:?}", here.names());
    }
}
