//! The commands over the stand-in for CUDA's driver and cuDNN (`gpu-host/stand-in`). These tests cover the host side of
//! every call on machines without a GPU; they say nothing about cuDNN itself.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidegate_gpu::cpu::{Batch, Stack};
use tidegate_gpu::rnn::{Cell, Direction, Rnn, Settings};
use tidegate_gpu_measure::record::{Difference, Recording, on_cpu, read};
use tidegate_model::canonical::Tensor;
use tidegate_model::data::{read_tensors, write_tensors};

use crate::machine::{CUDA, Machine, NAME, Said};

fn command(machine: &Machine, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-gpu-measure"));
    machine.load_in(&mut command).args(arguments).envs(environment.iter().copied());
    command
}

/// Runs `record`; returns the folder that it writes to and its output.
fn record(machine: &Machine, environment: &[(&str, &str)]) -> (PathBuf, Said) {
    let out = machine.0.path().join("recorded");
    let done = command(machine, &["record", "--out", out.to_str().unwrap()], environment).output().unwrap();
    (out, Said::of(&done))
}

#[test]
fn every_stack_gives_the_results_of_the_cpu() {
    let machine = Machine::with_cudnn();
    let (folder, said) = record(&machine, &[]);
    assert_eq!((said.code, said.error), (Some(0), Vec::new()));
    assert_eq!(said.out[0], NAME);
    let last = format!(
        "108 stacks recorded in {}; 0 failed; 0 have another parameter layout than described",
        folder.display()
    );
    assert_eq!(said.out.last(), Some(&last));
    let small = said.out.iter().filter(|line| line.ends_with(" persistent-small")).count();
    assert_eq!((said.out.len(), small), (111, 96), "all but those with a projection or a clip");
    let Recording { made_by, made } = read(&folder).unwrap().unwrap();
    assert_eq!((made_by.as_str(), made.len()), (NAME, 108));
    for (task, made) in made {
        assert_eq!(Difference::between(&made, &on_cpu(&task)).failed(), None, "{}", task.name);
    }
}

#[test]
fn parameters_are_read_in_the_layout_that_cudnn_reports() {
    let machine = Machine::with_cudnn();
    let (folder, said) = record(&machine, &[("TIDEGATE_STAND_IN_LAYOUT", "apart")]);
    assert_eq!((said.code, said.error), (Some(0), Vec::new()));
    assert!(said.out.last().unwrap().ends_with("; 0 failed; 108 have another parameter layout than described"));
    for (task, made) in read(&folder).unwrap().unwrap().made {
        let needed = on_cpu(&task);
        assert!(made.params.len() > needed.params.len(), "there are gaps");
        assert_ne!(made.params[..needed.params.len()], needed.params);
        let difference = Difference::between(&made, &needed);
        assert!(
            difference.outputs <= Difference::MAX_OUTPUTS && difference.to_input <= Difference::MAX_GRADIENTS,
            "{}: {difference:?}",
            task.name
        );
    }
}

#[test]
fn the_standard_algorithm_replaces_a_missing_one() {
    let (_, said) = record(&Machine::with_cudnn(), &[("TIDEGATE_STAND_IN_ALGORITHMS", "standard")]);
    assert_eq!((said.code, said.error), (Some(0), Vec::new()));
    assert_eq!(said.out.iter().filter(|line| line.ends_with(" standard")).count(), 108);
}

#[test]
fn a_failing_call_is_named_and_leaves_no_file() {
    let machine = Machine::with_cudnn();
    for call in ["cudnnCreate", "cudnnSetStream"] {
        let (folder, said) = record(&machine, &[("TIDEGATE_STAND_IN_FAIL", call)]);
        let needed = vec![format!("tidegate-gpu-measure: {call}: status 5000 (execution failed)")];
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
    let all = vec!["tidegate-gpu-measure: 108 stacks differ from the CPU or do not run".to_owned()];
    for call in calls {
        let (folder, said) = record(&machine, &[("TIDEGATE_STAND_IN_FAIL", call)]);
        assert_eq!((said.code, &said.error, folder.exists()), (Some(1), &all, false), "{call}");
        let named = said.out.iter().filter(|line| line.ends_with(&format!(" {call}: status 5000 (execution failed)")));
        assert_eq!(named.count(), 108, "{call}");
    }
    let of_driver = [
        ("cuMemAllocAsync", "out of memory (CUDA_ERROR_OUT_OF_MEMORY)"),
        ("cuMemsetD8Async", "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)"),
    ];
    for (call, reason) in of_driver {
        let (folder, said) = record(&machine, &[("TIDEGATE_STAND_IN_FAIL", call)]);
        assert_eq!((said.code, &said.error, folder.exists()), (Some(1), &all, false));
        assert!(said.out[2].ends_with(&format!(" {call}: {reason}")), "{}", said.out[2]);
    }
}

#[test]
fn a_missing_gpu_or_cudnn_is_reported_in_one_line() {
    let (folder, said) = record(&Machine::with_cudnn(), &[("TIDEGATE_STAND_IN_DEVICES", "0")]);
    let needed = "tidegate-gpu-measure: cuDeviceGetCount: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)";
    assert_eq!((said.code, said.error, folder.exists()), (Some(1), vec![needed.to_owned()], false));
    let without = Machine::new(&CUDA);
    let (_, said) = record(&without, &[]);
    if said.code == Some(0) {
        println!("SKIP this machine has cuDNN");
        return;
    }
    assert_eq!((said.code, said.error.len()), (Some(1), 1));
    assert!(said.error[0].contains("install cuDNN 9"), "{}", said.error[0]);
}

/// cuDNN 8 has the same functions with the same types.
#[test]
fn an_older_cudnn_is_refused() {
    let (folder, said) = record(&Machine::with_cudnn(), &[("TIDEGATE_STAND_IN_VERSION", "8907")]);
    let needed = "libcudnn.so.9 has version 8907: cuDNN 9 is required";
    assert_eq!((said.code, said.error.len(), folder.exists()), (Some(1), 1, false));
    assert!(said.error[0].ends_with(needed), "{}", said.error[0]);
}

/// The requests of `tests/frameworks/torch_time.py`.
#[test]
fn requests_are_answered() {
    let machine = Machine::with_cudnn();
    let settings = Settings { layers: 2, direction: Direction::Bidirectional, ..Settings::new(Cell::Lstm, 2, 4) };
    let stack = Stack::new(&Rnn::new(settings).unwrap());
    let (given, found) = (machine.0.path().join("given.safetensors"), machine.0.path().join("found.safetensors"));
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
        format!("run {shape} bf16 training 1"),
        format!("run {shape} f32 sideways 1"),
        "nonsense".to_owned(),
    ];
    for layout in ["", "apart"] {
        let mut child = command(&machine, &["time", "--serve"], &[("TIDEGATE_STAND_IN_LAYOUT", layout)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{}", requests.join("\n")).unwrap();
        let said = Said::of(&child.wait_with_output().unwrap());
        assert_eq!((said.code, said.out.len()), (Some(0), requests.len()));
        for at in [0, 1, 3, 4] {
            assert!(said.out[at].parse::<f64>().unwrap() > 0.0, "{}", said.out[at]);
        }
        assert_eq!(said.out[2], "persistent-small persistent-small");
        assert!(said.out[5..].iter().all(|line| line.starts_with("error: ") && line.contains("cannot parse request")));
        let batch = Batch { data: x.clone(), lengths: vec![5; 3], features: 2 };
        let (outputs, tape, _) = stack.forward(&params, &batch, None, None, None);
        let mut to_params = vec![0.0; params.len()];
        let to_input = stack.backward(&params, &tape, &to_outputs, &mut to_params);
        // The stand-in sums in the same order, so the bits are equal.
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

/// Results of the stand-in must never be recorded as those of a GPU.
#[test]
fn no_recording_comes_from_the_stand_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    if let Some(recording) = read(&folder).unwrap() {
        assert!(!recording.made_by.contains("stand-in"), "{}", recording.made_by);
    }
}
