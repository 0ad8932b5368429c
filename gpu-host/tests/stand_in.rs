//! The commands for a GPU over the library that stands in for CUDA's driver and cuDNN (`gpu-host/stand-in`): the host's side of
//! every call, where there is no GPU. Of cuDNN itself it says nothing.
#![cfg(all(feature = "cudnn", target_os = "linux"))]

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use tidegate_gpu::cpu::{Batch, Stack};
use tidegate_gpu::record::{Apart, Recording, on_cpu, read};
use tidegate_gpu::rnn::{Bias, Cell, Direction, InputMode, Rnn, Settings};
use tidegate_tools::canonical::Tensor;
use tidegate_tools::data::{read_tensors, write_tensors};

const CUDA: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
const CUDNN: [&str; 2] = ["libcudnn.so", "libcudnn.so.9"];
const NAME: &str = "cuDNN 9.99.0 on a stand-in without a GPU";

/// A machine whose loader finds the stand-in under these names before any other library.
struct Machine(TempDir);

impl Machine {
    fn new(names: &[&str]) -> Self {
        // As a dependency of this test it is where the test is, and as new.
        let library = std::env::current_exe().unwrap().with_file_name("libtidegate_gpu_stand_in.so");
        assert!(library.exists(), "cargo has not built {}", library.display());
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            symlink(&library, folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-gpu"));
        command.args(arguments).env("LD_LIBRARY_PATH", self.0.path()).envs(environment.iter().copied());
        command
    }

    /// Where `record` has written, and what it said.
    fn record(&self, environment: &[(&str, &str)]) -> (PathBuf, Said) {
        let out = self.path("recorded");
        let done = self.command(&["record", "--out", out.to_str().unwrap()], environment).output().unwrap();
        (out, Said::of(&done))
    }
}

struct Said {
    code: Option<i32>,
    out: Vec<String>,
    error: Vec<String>,
}

impl Said {
    fn of(done: &Output) -> Self {
        let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
        Self { code: done.status.code(), out: lines(&done.stdout), error: lines(&done.stderr) }
    }
}

fn both() -> Machine {
    Machine::new(&[CUDA, CUDNN].concat())
}

#[test]
fn all_stacks_run_as_on_the_cpu() {
    let machine = both();
    let (folder, said) = machine.record(&[]);
    assert_eq!((said.code, said.error), (Some(0), Vec::new()));
    assert_eq!(said.out[0], NAME);
    let last = format!(
        "102 stacks recorded in {}; 0 break a bar; of 0 cuDNN has the parameters elsewhere than described",
        folder.display()
    );
    assert_eq!(said.out.last(), Some(&last));
    let small = said.out.iter().filter(|line| line.ends_with(" persistent-small")).count();
    assert_eq!((said.out.len(), small), (105, 96), "all but those that project");
    let Recording { made_by, made } = read(&folder).unwrap().unwrap();
    assert_eq!((made_by.as_str(), made.len()), (NAME, 102));
    for (task, made) in made {
        assert_eq!(Apart::of(&made, &on_cpu(&task)).broken(), None, "{}", task.name);
    }
}

#[test]
fn parameters_are_found_where_cudnn_says_that_they_are() {
    let machine = both();
    let (folder, said) = machine.record(&[("TIDEGATE_STAND_IN_LAYOUT", "apart")]);
    assert_eq!((said.code, said.error), (Some(0), Vec::new()));
    assert!(
        said.out.last().unwrap().ends_with("; 0 break a bar; of 102 cuDNN has the parameters elsewhere than described")
    );
    for (task, made) in read(&folder).unwrap().unwrap().made {
        let needed = on_cpu(&task);
        assert!(made.params.len() > needed.params.len(), "there are gaps");
        assert_ne!(made.params[..needed.params.len()], needed.params);
        let apart = Apart::of(&made, &needed);
        assert!(apart.outputs <= Apart::OUTPUTS && apart.to_input <= Apart::GRADIENTS, "{}: {apart:?}", task.name);
    }
}

#[test]
fn where_an_algorithm_is_missing_the_standard_one_serves() {
    let (_, said) = both().record(&[("TIDEGATE_STAND_IN_ALGORITHMS", "standard")]);
    assert_eq!((said.code, said.error), (Some(0), Vec::new()));
    assert_eq!(said.out.iter().filter(|line| line.ends_with(" standard")).count(), 102);
}

#[test]
fn a_call_that_fails_is_named_and_leaves_no_file() {
    let machine = both();
    for call in ["cudnnCreate", "cudnnSetStream"] {
        let (folder, said) = machine.record(&[("TIDEGATE_STAND_IN_FAIL", call)]);
        let needed = vec![format!("tidegate-gpu: {call}: status 5000 (execution failed)")];
        assert_eq!((said.code, said.error, said.out, folder.exists()), (Some(1), needed, Vec::new(), false));
    }
    let calls = [
        "cudnnCreateTensorDescriptor",
        "cudnnSetTensorNdDescriptor",
        "cudnnGetTensorNdDescriptor",
        "cudnnCreateDropoutDescriptor",
        "cudnnSetDropoutDescriptor",
        "cudnnCreateRNNDescriptor",
        "cudnnSetRNNDescriptor_v8",
        "cudnnCreateRNNDataDescriptor",
        "cudnnSetRNNDataDescriptor",
        "cudnnGetRNNWeightSpaceSize",
        "cudnnGetRNNWeightParams",
        "cudnnGetRNNTempSpaceSizes",
        "cudnnRNNForward",
        "cudnnRNNBackwardData_v8",
        "cudnnRNNBackwardWeights_v8",
    ];
    let all = vec!["tidegate-gpu: 102 stacks do not run as on the CPU".to_owned()];
    for call in calls {
        let (folder, said) = machine.record(&[("TIDEGATE_STAND_IN_FAIL", call)]);
        assert_eq!((said.code, &said.error, folder.exists()), (Some(1), &all, false), "{call}");
        let named = said.out.iter().filter(|line| line.ends_with(&format!(" {call}: status 5000 (execution failed)")));
        assert_eq!(named.count(), 102, "{call}");
    }
    let (folder, said) = machine.record(&[("TIDEGATE_STAND_IN_FAIL", "cuMemAllocAsync")]);
    assert_eq!((said.code, &said.error, folder.exists()), (Some(1), &all, false));
    assert!(said.out[2].ends_with(" CUDA: out of memory (CUDA_ERROR_OUT_OF_MEMORY)"), "{}", said.out[2]);
}

#[test]
fn a_machine_without_a_gpu_or_without_cudnn_says_so_in_one_line() {
    let (folder, said) = both().record(&[("TIDEGATE_STAND_IN_DEVICES", "0")]);
    let needed = "tidegate-gpu: CUDA: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)";
    assert_eq!((said.code, said.error, folder.exists()), (Some(1), vec![needed.to_owned()], false));
    let without = Machine::new(&CUDA);
    let (_, said) = without.record(&[]);
    if said.code == Some(0) {
        println!("SKIP a cuDNN is here");
        return;
    }
    assert_eq!((said.code, said.error.len()), (Some(1), 1));
    assert!(said.error[0].contains("install cuDNN 9"), "{}", said.error[0]);
}

/// It has the same functions with the same types.
#[test]
fn an_older_cudnn_is_refused() {
    let (folder, said) = both().record(&[("TIDEGATE_STAND_IN_VERSION", "8907")]);
    let needed = vec!["tidegate-gpu: libcudnn.so has the version 8907: cuDNN 9 is needed".to_owned()];
    assert_eq!((said.code, said.error, folder.exists()), (Some(1), needed, false));
}

/// What `tests/frameworks/torch_time.py` asks for.
#[test]
fn a_program_that_takes_turns_is_answered() {
    let machine = both();
    let settings = Settings {
        cell: Cell::Lstm,
        layers: 2,
        input_size: 2,
        hidden_size: 4,
        projected_size: None,
        direction: Direction::Bidirectional,
        input_mode: InputMode::Linear,
        bias: Bias::Both,
    };
    let stack = Stack::new(&Rnn::new(settings).unwrap());
    let (given, found) = (machine.path("given.safetensors"), machine.path("found.safetensors"));
    let numbers = |len: usize| (0..len).map(|k| ((k * 37 % 19) as f32 - 9.0) / 20.0).collect::<Vec<f32>>();
    let (params, x, to_outputs) = (numbers(stack.params_size()), numbers(5 * 3 * 2), numbers(5 * 3 * 8));
    let flat = |data: &Vec<f32>| Tensor { shape: vec![data.len()], data: data.clone() };
    let named = [("params", &params), ("x", &x), ("to_outputs", &to_outputs)];
    write_tensors(&given, &named.map(|(name, data)| (name.to_owned(), flat(data))).into()).unwrap();
    let shape = "3 5 2 4 2 2";
    let requests = [
        format!("run {shape} f32 forward 2"),
        format!("run {shape} f32 training 2"),
        format!("check {shape} f32 {} {}", given.display(), found.display()),
        format!("run {shape} tf32 training 1"),
        format!("run {shape} f32 sideways 1"),
        "nonsense".to_owned(),
    ];
    for layout in ["", "apart"] {
        let mut child = machine
            .command(&["time", "--serve"], &[("TIDEGATE_STAND_IN_LAYOUT", layout)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{}", requests.join("\n")).unwrap();
        let said = Said::of(&child.wait_with_output().unwrap());
        assert_eq!((said.code, said.out.len()), (Some(0), requests.len()));
        for at in [0, 1, 3] {
            assert!(said.out[at].parse::<f64>().unwrap() > 0.0, "{}", said.out[at]);
        }
        assert_eq!(said.out[2], "persistent-small persistent-small");
        assert!(said.out[4..].iter().all(|line| line.starts_with("error: ") && line.contains("is no request")));
        let batch = Batch { data: x.clone(), lengths: vec![5; 3], features: 2 };
        let (outputs, tape, _) = stack.forward(&params, &batch, None, None, None);
        let mut to_params = vec![0.0; params.len()];
        let to_input = stack.backward(&params, &tape, &to_outputs, &mut to_params);
        // The same sums in the same order: the same bits.
        let needed = [
            ("inference", &outputs.data),
            ("outputs", &outputs.data),
            ("to_input", &to_input),
            ("to_params", &to_params),
        ];
        let needed: BTreeMap<String, Tensor> = needed.map(|(name, data)| (name.to_owned(), flat(data))).into();
        assert_eq!(read_tensors(&found).unwrap(), needed, "{layout}");
        std::fs::remove_file(&found).unwrap();
    }
}

/// Nothing here may come to be taken for a GPU's.
#[test]
fn what_the_stand_in_has_made_is_not_among_the_records() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    if let Some(recording) = read(&folder).unwrap() {
        assert!(!recording.made_by.contains("stand-in"), "{}", recording.made_by);
    }
}
