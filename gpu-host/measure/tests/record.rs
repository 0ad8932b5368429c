//! Compares the recorded results of a GPU with the described layout and the CPU.

use std::path::Path;

use tidegate_gpu_measure::record::{Difference, Made, Recording, Task, on_cpu, read, tasks, write};

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most, value| if value.abs() > most || value.is_nan() { value.abs() } else { most })
}

/// The first part of the results that differs too much from the CPU's.
fn differs((task, found): &(Task, Made)) -> Option<String> {
    Difference::between(found, &on_cpu(task)).failed().map(|part| format!("{}.{part}", task.name))
}

#[test]
fn recorded_results_of_a_gpu_equal_those_of_the_cpu() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let Recording { made_by, made } = read(&folder).unwrap().expect("tests/recorded has the results of a GPU");
    println!("{} stacks of {made_by}", made.len());
    assert_eq!(made.len(), tasks().len());
    assert_eq!(made.iter().filter_map(differs).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn the_matrix_has_every_stack_once() {
    let tasks = tasks();
    let names: std::collections::BTreeSet<_> = tasks.iter().map(|task| task.name.clone()).collect();
    assert_eq!((tasks.len(), names.len()), (4 * 3 * 2 * 4 + 2 * 3 * 2, tasks.len()));
    for task in &tasks {
        let made = on_cpu(task);
        assert!(
            [&made.outputs, &made.to_input, &made.to_params].iter().all(|part| largest(part) > 0.0),
            "{}",
            task.name
        );
    }
}

#[test]
fn a_recording_is_read_back_and_a_change_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read(folder.path()).unwrap(), None);
    let made = tasks().into_iter().map(|task| (task.clone(), on_cpu(&task))).collect();
    let recording = Recording { made_by: "the CPU".to_owned(), made };
    write(folder.path(), &recording).unwrap();
    let size: u64 = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    println!("{size} bytes");
    assert!(size < 2_000_000);
    assert_eq!(read(folder.path()).unwrap().as_ref(), Some(&recording));
    let mut made = recording.made;
    assert_eq!(made.iter().find_map(differs), None);
    for (at, name) in ["params", "outputs", "to_input", "to_params"].into_iter().enumerate() {
        let (task, whole) = made[7].clone();
        let own = &mut made[7].1;
        let part = [&mut own.params, &mut own.outputs, &mut own.to_input, &mut own.to_params][at].as_mut_slice();
        let greatest = largest(part);
        part[2] += 3e-3 * greatest;
        assert_eq!(differs(&made[7]), Some(format!("{}.{name}", task.name)));
        made[7].1 = whole;
    }
    std::fs::remove_file(folder.path().join("gru.safetensors")).unwrap();
    assert!(read(folder.path()).unwrap_err().to_string().contains("gru.safetensors"));
}
