//! `tidegate-gpu train` over the stand-in for CUDA's driver, cuDNN and NCCL (`gpu-host/stand-in`). These tests cover
//! the host side of every call on machines without a GPU; they say nothing about cuDNN itself.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_gpu::device::Device;
use tidegate_gpu::sys::nccl::{Library, Nccl};
use tidegate_model::canonical::Tensor;
use tidegate_model::data::read_tensors;

use crate::lesson::{self, Lesson};
use crate::machine::{CUDA, CUDNN, Machine, NAME, Said};
use tidegate_tests::tolerance::worst;

/// A machine with a driver, cuDNN and NCCL.
fn with_nccl() -> Machine {
    Machine::new(&[&CUDA[..], &CUDNN, &["libnccl.so.2"]].concat())
}

/// Trains a stack of two layers with dropout, with batches of several parts, and returns its weights.
fn trained(
    machine: &Machine,
    lesson: &Lesson,
    more: &[&str],
    environment: &[(&str, &str)],
) -> BTreeMap<String, Tensor> {
    let more =
        [&["--epochs", "4", "--batch", "64", "--noise", "0.2", "--state-dict", "state.safetensors"], more].concat();
    let mut command = lesson.command("out.safetensors", &more);
    let done = machine.load_in(&mut command).envs(environment.iter().copied()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    read_tensors(&lesson.path("state.safetensors")).unwrap()
}

fn farthest(a: &BTreeMap<String, Tensor>, b: &BTreeMap<String, Tensor>) -> f32 {
    assert!(a.keys().eq(b.keys()));
    let pairs = a.values().zip(b.values()).flat_map(|(a, b)| a.data.iter().zip(&b.data));
    worst(pairs.map(|(a, b)| (a - b).abs()))
}

/// A device runs whole batches and the CPU runs their parts, so only the order of sums differs.
#[test]
fn a_device_and_the_cpu_learn_the_same_weights() {
    let (machine, lesson) = (Machine::with_cudnn(), Lesson::new(8));
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

/// Factors in bf16 have relative errors of up to 1/256, which does not prevent learning.
#[test]
fn a_training_in_bf16_learns() {
    let (machine, lesson) = (Machine::with_cudnn(), Lesson::new(8));
    for layout in ["", "apart"] {
        let more = ["--epochs", "30", "--lr", "0.01", "--json", "--device", "cuda", "--math"];
        let accuracy = |math: &str| {
            let mut command = lesson.command("out.safetensors", &[&more[..], &[math]].concat());
            machine.load_in(&mut command).env("TIDEGATE_STAND_IN_LAYOUT", layout);
            lesson::json(&command.output().unwrap())["accuracy"].as_f64().unwrap()
        };
        assert!(accuracy("f32") > 0.9 && accuracy("bf16") > 0.9, "{layout}");
    }
    let trained = |math| trained(&machine, &lesson, &["--device", "cuda", "--math", math], &[]);
    let far = farthest(&trained("bf16"), &trained("f32"));
    assert!((1e-5..0.05).contains(&far), "{far}");
}

#[test]
fn the_device_is_chosen_automatically() {
    let (machine, lesson) = (Machine::with_cudnn(), Lesson::new(4));
    let said = |more: &[&str], environment: &[(&str, &str)]| {
        let mut command = lesson.command("out.safetensors", &[&["--epochs", "1"], more].concat());
        let done = machine.load_in(&mut command).envs(environment.iter().copied()).output().unwrap();
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
    refused(&["--device", "cuda", "--quantize-aware", "i8x16"], &[], "remove --device cuda");
    for call in ["cudnnRNNForward", "cudnnRNNBackwardWeights_v8", "cuMemcpyDtoHAsync_v2"] {
        refused(&cuda, &[("TIDEGATE_STAND_IN_FAIL", call)], call.trim_end_matches("_v2"));
    }
    let place = [("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "::1"), ("MASTER_PORT", "9")];
    refused(&cuda, &place, "GPU 1 (LOCAL_RANK) does not exist: 1 found (CUDA_VISIBLE_DEVICES)");
}

/// Trains in two processes, each with its own machine and device. `environment` is set for the second one.
fn in_two_processes(machines: [&Machine; 2], lesson: &Lesson, environment: &[(&str, &str)]) -> [Said; 2] {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let process = |rank: usize| {
        let more =
            ["--epochs", "4", "--batch", "64", "--noise", "0.2", "--device", "cuda", "--state-dict", "two.safetensors"];
        let mut command = lesson.command("two.model.safetensors", &more);
        let number = rank.to_string();
        let place = [("WORLD_SIZE", "2"), ("RANK", &number), ("LOCAL_RANK", &number), ("MASTER_PORT", &port)];
        command.envs(place).env("MASTER_ADDR", "127.0.0.1").env("TIDEGATE_STAND_IN_DEVICES", "2");
        command.env_remove("TIDEGATE_SECRET");
        machines[rank].load_in(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(environment.iter().copied().filter(|_| rank == 1)).spawn().unwrap()
    };
    [0, 1].map(process).map(|process| Said::of(&process.wait_with_output().unwrap()))
}

/// A sum of two gradients does not depend on the order.
#[test]
fn two_devices_learn_the_same_as_one() {
    let (machine, lesson) = (with_nccl(), Lesson::new(8));
    let alone = trained(&machine, &lesson, &["--device", "cuda"], &[]);
    for (rank, said) in in_two_processes([&machine; 2], &lesson, &[]).into_iter().enumerate() {
        assert_eq!((said.code, said.error.len(), said.out.is_empty()), (Some(0), 0, rank == 1), "{:?}", said.error);
    }
    let far = farthest(&read_tensors(&lesson.path("two.safetensors")).unwrap(), &alone);
    assert!(far < 1e-5, "{far}");
}

/// The checkpoint, if there is one, is older than the wrong weights.
#[test]
fn a_process_with_other_weights_ends_the_training() {
    let (machine, lesson) = (with_nccl(), Lesson::new(4));
    for said in in_two_processes([&machine; 2], &lesson, &[("TIDEGATE_STAND_IN_SUMS", "apart")]) {
        assert_eq!((said.code, said.error.len()), (Some(1), 1), "{:?}", said.error);
        let needed = "tidegate-gpu: after epoch 1 the weights of rank 1 differ from those of rank 0: restart all ranks";
        assert!(said.error[0].starts_with(needed), "{}", said.error[0]);
    }
    assert!(!lesson.path("two.model.safetensors").exists() && !lesson.path("two.model.checkpoint").exists());
}

/// Connecting and summing both have a time limit.
#[test]
fn waiting_for_a_missing_rank_has_a_time_limit() {
    const SELF: &str = "stand_in::waiting_for_a_missing_rank_has_a_time_limit";
    if std::env::var_os(SELF).is_none() {
        // The loader reads LD_LIBRARY_PATH when a program starts, so the test runs in a new process.
        let machine = with_nccl();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", SELF]).env(SELF, "1").env("TIDEGATE_STAND_IN_DEVICES", "2");
        machine.load_in(&mut command).env("TMPDIR", machine.0.path());
        let done = command.output().unwrap();
        let out = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && out.contains("1 passed"), "{out}");
        return;
    }
    let id = Library::load().unwrap().unique_id().unwrap();
    let meet = |rank, id, limit| {
        Nccl::new(Library::load().unwrap(), &Device::number(rank).unwrap(), (rank, 2), id, Duration::from_millis(limit))
    };
    let started = Instant::now();
    let error = meet(0, id, 100).err().unwrap().to_string();
    assert!(error.starts_with("ncclCommInitRankConfig: no reply from another process for 0 s"), "{error}");
    let id = Library::load().unwrap().unique_id().unwrap();
    std::thread::scope(|scope| {
        let (over, wait) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let other = meet(1, id, 2000).unwrap();
            wait.recv().unwrap_err();
            drop(other);
        });
        let error = meet(0, id, 2000).unwrap().sum(&mut [1.0]).unwrap_err().to_string();
        assert!(error.starts_with("ncclAllReduce: no reply from another process for 2 s"), "{error}");
        drop(over);
    });
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// The other processes do not wait in NCCL for a process without it.
#[test]
fn a_process_without_nccl_ends_the_training() {
    let (machine, lesson) = (with_nccl(), Lesson::new(4));
    let [first, other] = in_two_processes([&machine, &Machine::with_cudnn()], &lesson, &[]);
    if other.code == Some(0) {
        println!("SKIP this machine has NCCL");
        return;
    }
    assert!(other.error[0].contains("install NCCL 2.14"), "{:?}", other.error);
    assert!(first.error[0].starts_with("tidegate-gpu: lost rank 1"), "{:?}", first.error);
    assert_eq!((first.code, first.error.len(), other.code, other.error.len()), (Some(1), 1, Some(1), 1));
}

/// The stand-in in a folder that only `LD_LIBRARY_PATH` names, or in the current folder, is not loaded.
#[test]
fn no_library_is_loaded_from_an_unnamed_or_the_current_folder() {
    let (machine, lesson) = (with_nccl(), Lesson::new(4));
    for name in CUDA.iter().chain(&CUDNN) {
        std::fs::copy(machine.0.path().join(name), lesson.path(name)).unwrap();
    }
    let folder = machine.0.path().to_str().unwrap();
    let said = |device: &str, searched: &str, named: &str| {
        let mut command = lesson.command("out.safetensors", &["--epochs", "1", "--device", device]);
        // The loader prints the libraries that it initializes.
        let loads = lesson.path("loads");
        std::fs::create_dir_all(&loads).unwrap();
        command.env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", loads.join("log"));
        command.env("LD_LIBRARY_PATH", searched).env("TIDEGATE_CUDA_PATH", named);
        let said = Said::of(&command.output().unwrap());
        let logs = loads.read_dir().unwrap().map(|log| std::fs::read_to_string(log.unwrap().path()).unwrap());
        let logs: String = logs.collect();
        std::fs::remove_dir_all(&loads).unwrap();
        let initialized = |name: &str| logs.lines().any(|line| line.contains("calling init: ") && line.contains(name));
        assert!(initialized("libc.so.6"), "the loader prints what it initializes");
        (said, ["libcuda", "libcudnn"].iter().any(|name| initialized(name)))
    };
    let (right, loaded) = said("cuda", folder, folder);
    assert_eq!((right.code, loaded), (Some(0), true), "{:?}", right.error);
    std::fs::remove_file(lesson.path("out.safetensors")).unwrap();
    let unnamed = [folder.to_owned(), format!("/usr/lib:{folder}"), ":/usr/lib".to_owned(), ".".to_owned()];
    for searched in &unnamed {
        let (refused, loaded) = said("cuda", searched, "");
        assert_eq!((refused.code, refused.error.len(), loaded), (Some(1), 1, false), "{:?}", refused.error);
        assert!(refused.error[0].contains("LD_LIBRARY_PATH makes the loader look for CUDA in"), "{}", refused.error[0]);
        let (on_cpu, loaded) = said("auto", searched, "");
        assert_eq!((on_cpu.code, loaded), (Some(0), false));
        assert!(on_cpu.out[0].starts_with("training on the CPU: LD_LIBRARY_PATH"), "{}", on_cpu.out[0]);
    }
    for (searched, named) in [("", "."), (folder, "lib"), ("", "")] {
        let (refused, loaded) = said("cuda", searched, named);
        if refused.code == Some(0) {
            println!("SKIP this machine has cuDNN");
            continue;
        }
        assert_eq!((refused.code, refused.error.len(), loaded), (Some(1), 1, false), "{:?}", refused.error);
    }
}
