//! The commands for a GPU over the library that stands in for CUDA's driver and cuDNN (`gpu-host/stand-in`): the host's side of
//! every call, where there is no GPU. Of cuDNN itself it says nothing.
#![cfg(all(feature = "cudnn", target_os = "linux"))]

mod lesson;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate_gpu::cpu::{Batch, Stack};
use tidegate_gpu::device::Device;
use tidegate_gpu::record::{Apart, Recording, on_cpu, read};
use tidegate_gpu::rnn::{Cell, Direction, Rnn, Settings};
use tidegate_gpu::sys::nccl::{Library, Nccl};
use tidegate_tools::canonical::Tensor;
use tidegate_tools::data::{read_tensors, write_tensors};

use lesson::Lesson;

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
        "108 stacks recorded in {}; 0 break a bar; of 0 cuDNN has the parameters elsewhere than described",
        folder.display()
    );
    assert_eq!(said.out.last(), Some(&last));
    let small = said.out.iter().filter(|line| line.ends_with(" persistent-small")).count();
    assert_eq!((said.out.len(), small), (111, 96), "all but those that project or clip");
    let Recording { made_by, made } = read(&folder).unwrap().unwrap();
    assert_eq!((made_by.as_str(), made.len()), (NAME, 108));
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
        said.out.last().unwrap().ends_with("; 0 break a bar; of 108 cuDNN has the parameters elsewhere than described")
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
    assert_eq!(said.out.iter().filter(|line| line.ends_with(" standard")).count(), 108);
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
    let all = vec!["tidegate-gpu: 108 stacks do not run as on the CPU".to_owned()];
    for call in calls {
        let (folder, said) = machine.record(&[("TIDEGATE_STAND_IN_FAIL", call)]);
        assert_eq!((said.code, &said.error, folder.exists()), (Some(1), &all, false), "{call}");
        let named = said.out.iter().filter(|line| line.ends_with(&format!(" {call}: status 5000 (execution failed)")));
        assert_eq!(named.count(), 108, "{call}");
    }
    let of_driver = [
        ("cuMemAllocAsync", "out of memory (CUDA_ERROR_OUT_OF_MEMORY)"),
        ("cuMemsetD8Async", "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)"),
    ];
    for (call, reason) in of_driver {
        let (folder, said) = machine.record(&[("TIDEGATE_STAND_IN_FAIL", call)]);
        assert_eq!((said.code, &said.error, folder.exists()), (Some(1), &all, false));
        assert!(said.out[2].ends_with(&format!(" {call}: {reason}")), "{}", said.out[2]);
    }
}

#[test]
fn a_machine_without_a_gpu_or_without_cudnn_says_so_in_one_line() {
    let (folder, said) = both().record(&[("TIDEGATE_STAND_IN_DEVICES", "0")]);
    let needed = "tidegate-gpu: cuDeviceGetCount: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)";
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
    let needed = vec!["tidegate-gpu: libcudnn.so.9 has the version 8907: cuDNN 9 is needed".to_owned()];
    assert_eq!((said.code, said.error, folder.exists()), (Some(1), needed, false));
}

/// What `tests/frameworks/torch_time.py` asks for.
#[test]
fn a_program_that_takes_turns_is_answered() {
    let machine = both();
    let settings = Settings { layers: 2, direction: Direction::Bidirectional, ..Settings::new(Cell::Lstm, 2, 4) };
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
        format!("run {shape} bf16 training 1"),
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
        for at in [0, 1, 3, 4] {
            assert!(said.out[at].parse::<f64>().unwrap() > 0.0, "{}", said.out[at]);
        }
        assert_eq!(said.out[2], "persistent-small persistent-small");
        assert!(said.out[5..].iter().all(|line| line.starts_with("error: ") && line.contains("is no request")));
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

/// Trains a stack of two layers with dropout, in parts of a batch, and gives its weights.
fn trained(
    machine: &Machine,
    lesson: &Lesson,
    more: &[&str],
    environment: &[(&str, &str)],
) -> BTreeMap<String, Tensor> {
    let more =
        [&["--epochs", "4", "--batch", "64", "--noise", "0.2", "--state-dict", "state.safetensors"], more].concat();
    let mut command = lesson.command("out.safetensors", &more);
    let done = command.env("LD_LIBRARY_PATH", machine.0.path()).envs(environment.iter().copied()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    read_tensors(&lesson.path("state.safetensors")).unwrap()
}

fn farthest(a: &BTreeMap<String, Tensor>, b: &BTreeMap<String, Tensor>) -> f32 {
    assert!(a.keys().eq(b.keys()));
    let pairs = a.values().zip(b.values()).flat_map(|(a, b)| a.data.iter().zip(&b.data));
    pairs.fold(0.0, |most, (a, b)| most.max((a - b).abs()))
}

/// A device sees whole batches, the CPU their parts: sums have another order, and nothing else differs.
#[test]
fn a_training_on_a_device_is_the_cpu_s() {
    let (machine, lesson) = (both(), Lesson::new(8));
    for more in [&[][..], &["--carry"], &["--arch", "lstm.json"]] {
        let arch = serde_json::json!({
            "framework": "torch",
            "inputs": [{"name": "x", "size": lesson::FEATURES, "steps": lesson::STEPS}],
            "layers": [
                {"name": "rnn", "class": "LSTM", "take": "final", "args":
                    {"hidden_size": 6, "num_layers": 2, "bidirectional": true, "proj_size": 4, "cell_clip": 0.3}},
                {"name": "fc", "class": "Linear", "args": {"out_features": 3}},
            ]
        });
        std::fs::write(lesson.path("lstm.json"), arch.to_string()).unwrap();
        let on_cpu = trained(&machine, &lesson, &[more, &["--device", "cpu"]].concat(), &[]);
        for layout in ["", "apart"] {
            let environment = [("TIDEGATE_STAND_IN_LAYOUT", layout)];
            let found = trained(&machine, &lesson, &[more, &["--device", "cuda"]].concat(), &environment);
            let far = farthest(&found, &on_cpu);
            assert!(far < 1e-5, "{more:?} {layout}: {far}");
        }
        let other = trained(&machine, &lesson, &[more, &["--device", "cuda", "--seed", "1"]].concat(), &[]);
        assert!(farthest(&other, &on_cpu) > 1e-2);
    }
}

/// Products of bf16 are a 256th off, and nothing is f32 that should not be: the data are learned all the same.
#[test]
fn a_training_in_bf16_learns() {
    let (machine, lesson) = (both(), Lesson::new(8));
    for layout in ["", "apart"] {
        let more = ["--epochs", "30", "--lr", "0.01", "--json", "--device", "cuda", "--math"];
        let accuracy = |math: &str| {
            let mut command = lesson.command("out.safetensors", &[&more[..], &[math]].concat());
            command.env("LD_LIBRARY_PATH", machine.0.path()).env("TIDEGATE_STAND_IN_LAYOUT", layout);
            lesson::json(&command.output().unwrap())["accuracy"].as_f64().unwrap()
        };
        assert!(accuracy("f32") > 0.9 && accuracy("bf16") > 0.9, "{layout}");
    }
    let trained = |math| trained(&machine, &lesson, &["--device", "cuda", "--math", math], &[]);
    let far = farthest(&trained("bf16"), &trained("f32"));
    assert!((1e-5..0.05).contains(&far), "{far}");
}

#[test]
fn without_words_a_training_is_on_the_device_that_is_there() {
    let (machine, lesson) = (both(), Lesson::new(4));
    let said = |more: &[&str], environment: &[(&str, &str)]| {
        let mut command = lesson.command("out.safetensors", &[&["--epochs", "1"], more].concat());
        let done = command.env("LD_LIBRARY_PATH", machine.0.path()).envs(environment.iter().copied()).output().unwrap();
        Said::of(&done)
    };
    assert_eq!(said(&["--device", "auto"], &[]).out[0], format!("training on {NAME}"));
    let integers = ["--device", "auto", "--quantize-aware", "i8x16"];
    assert_eq!(said(&integers, &[]).out[0], "training on the CPU");
    let none = [("TIDEGATE_STAND_IN_DEVICES", "0")];
    assert!(said(&["--device", "auto"], &none).out[0].starts_with("training on the CPU: "));
    std::fs::remove_file(lesson.path("out.safetensors")).unwrap();
    let refused = |more: &[&str], environment: &[(&str, &str)], reason: &str| {
        let found = said(more, environment);
        assert_eq!((found.code, found.error.len()), (Some(1), 1), "{:?}", found.error);
        assert!(found.error[0].contains(reason), "{}", found.error[0]);
        assert!(!lesson.path("out.safetensors").exists());
    };
    let cuda = ["--device", "cuda"];
    refused(&cuda, &none, "no CUDA-capable device is detected");
    refused(&["--device", "cuda", "--quantize-aware", "i8x16"], &[], "leave --device cuda out");
    for call in ["cudnnRNNForward", "cudnnRNNBackwardWeights_v8", "cuMemcpyDtoHAsync_v2"] {
        refused(&cuda, &[("TIDEGATE_STAND_IN_FAIL", call)], call.trim_end_matches("_v2"));
    }
    let place = [("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "::1"), ("MASTER_PORT", "9")];
    refused(&cuda, &place, "GPU 1 (LOCAL_RANK) is wanted, but there are 1 (CUDA_VISIBLE_DEVICES)");
}

/// A training in two processes, each on a machine and a device of its own; the second with more of an environment.
fn beside_each_other(machines: [&Machine; 2], lesson: &Lesson, environment: &[(&str, &str)]) -> [Said; 2] {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let process = |rank: usize| {
        let more =
            ["--epochs", "4", "--batch", "64", "--noise", "0.2", "--device", "cuda", "--state-dict", "two.safetensors"];
        let mut command = lesson.command("two.model.safetensors", &more);
        let number = rank.to_string();
        let place = [("WORLD_SIZE", "2"), ("RANK", &number), ("LOCAL_RANK", &number), ("MASTER_PORT", &port)];
        command.envs(place).env("MASTER_ADDR", "127.0.0.1").env("TIDEGATE_STAND_IN_DEVICES", "2");
        command.env("LD_LIBRARY_PATH", machines[rank].0.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(environment.iter().copied().filter(|_| rank == 1)).spawn().unwrap()
    };
    [0, 1].map(process).map(|process| Said::of(&process.wait_with_output().unwrap()))
}

/// Two devices add up what they have learned: two numbers have one sum.
#[test]
fn two_devices_learn_what_one_learns() {
    let (machine, lesson) = (Machine::new(&[&CUDA[..], &CUDNN, &["libnccl.so.2"]].concat()), Lesson::new(8));
    let alone = trained(&machine, &lesson, &["--device", "cuda"], &[]);
    for (rank, said) in beside_each_other([&machine; 2], &lesson, &[]).into_iter().enumerate() {
        assert_eq!((said.code, said.error.len(), said.out.is_empty()), (Some(0), 0, rank == 1), "{:?}", said.error);
    }
    let far = farthest(&read_tensors(&lesson.path("two.safetensors")).unwrap(), &alone);
    assert!(far < 1e-5, "{far}");
}

/// Nobody learns on beside a process whose numbers come out otherwise, and what is kept is older.
#[test]
fn a_process_that_comes_to_other_weights_ends_all() {
    let (machine, lesson) = (Machine::new(&[&CUDA[..], &CUDNN, &["libnccl.so.2"]].concat()), Lesson::new(4));
    for said in beside_each_other([&machine; 2], &lesson, &[("TIDEGATE_STAND_IN_SUMS", "apart")]) {
        assert_eq!((said.code, said.error.len()), (Some(1), 1), "{:?}", said.error);
        let needed = "tidegate-gpu: after epoch 1 rank 1 has other weights than rank 0: start all again";
        assert!(said.error[0].starts_with(needed), "{}", said.error[0]);
    }
    assert!(!lesson.path("two.model.safetensors").exists() && !lesson.path("two.model.checkpoint").exists());
}

/// A rank waits for others only so long, before they meet and in sums.
#[test]
fn nobody_waits_without_an_end_for_a_rank_that_does_not_come() {
    const SELF: &str = "nobody_waits_without_an_end_for_a_rank_that_does_not_come";
    if std::env::var_os(SELF).is_none() {
        // The loader reads its path before a program begins: the rest is another's.
        let machine = Machine::new(&[&CUDA[..], &CUDNN, &["libnccl.so.2"]].concat());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", SELF]).env(SELF, "1").env("TIDEGATE_STAND_IN_DEVICES", "2");
        command.env("LD_LIBRARY_PATH", machine.0.path()).env("TMPDIR", machine.0.path());
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        return;
    }
    let id = Library::load().unwrap().unique_id().unwrap();
    let meet = |rank, id, limit| {
        Nccl::new(Library::load().unwrap(), &Device::number(rank).unwrap(), (rank, 2), id, Duration::from_millis(limit))
    };
    let started = Instant::now();
    let error = meet(0, id, 100).err().unwrap().to_string();
    assert!(error.starts_with("ncclCommInitRankConfig: another process has said nothing for 0 s"), "{error}");
    let id = Library::load().unwrap().unique_id().unwrap();
    std::thread::scope(|scope| {
        let (over, wait) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let other = meet(1, id, 2000).unwrap();
            wait.recv().unwrap_err();
            drop(other);
        });
        let error = meet(0, id, 2000).unwrap().sum(&mut [1.0]).unwrap_err().to_string();
        assert!(error.starts_with("ncclAllReduce: another process has said nothing for 2 s"), "{error}");
        drop(over);
    });
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// The others do not wait for it in NCCL.
#[test]
fn a_process_without_nccl_ends_all() {
    let (machine, lesson) = (Machine::new(&[&CUDA[..], &CUDNN, &["libnccl.so.2"]].concat()), Lesson::new(4));
    let [first, other] = beside_each_other([&machine, &both()], &lesson, &[]);
    if other.code == Some(0) {
        println!("SKIP an NCCL is here");
        return;
    }
    assert!(other.error[0].contains("install NCCL 2.14"), "{:?}", other.error);
    assert!(first.error[0].starts_with("tidegate-gpu: rank 1 is gone"), "{:?}", first.error);
    assert_eq!((first.code, first.error.len(), other.code, other.error.len()), (Some(1), 1, Some(1), 1));
}
