//! Streams that tasks step in any order have the bits of streams alone.

use std::time::Duration;

use tidegate::{Aligned, ImageBytes, Model};
use tidegate_fused::{FusedModel, Limits, PoolServer, ServeError};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// An LSTM in floats.
static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("../../examples/lstm.tgi"));

fn fused() -> FusedModel<'static> {
    FusedModel::new(&Model::parse(ImageBytes::from_aligned(IMAGE)).unwrap())
}

/// A number that looks random.
fn mixed(seed: usize) -> u64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 16
}

fn frame(size: usize, stream: usize, step: usize) -> Vec<f32> {
    (0..size).map(|k| f32::from(mixed(1_000_003 * stream + 1009 * step + k) as u16) / 32768.0 - 1.0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_join_wait_reset_and_leave_have_the_bits_of_a_stream_alone() {
    let model = fused();
    let (inputs, outputs) = (model.model().input_size(), model.model().output_size());
    let limits = Limits { batch: 16, deadline: Duration::from_micros(300), ..Limits::default() };
    let server = PoolServer::start(&model, limits).unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..100 {
        let (server, model) = (server.clone(), model.clone());
        tasks.spawn(async move {
            sleep(Duration::from_micros(mixed(task) % 20_000)).await;
            let mut stream = server.join().await.unwrap();
            let mut alone = model.stream();
            let mut expected = vec![0.0; outputs];
            for step in 0..40 {
                if mixed(77 * task + step).is_multiple_of(16) {
                    stream.reset().unwrap();
                    alone.reset();
                }
                if mixed(99 * task + step).is_multiple_of(4) {
                    sleep(Duration::from_micros(mixed(task + step) % 900)).await;
                }
                let x = frame(inputs, task, step);
                let found = stream.step(&x).await.unwrap();
                assert!(alone.step(&x, &mut expected).unwrap().has_output());
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(found.map(bits), Some(bits(&expected)), "task {task}, step {step}");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let served = server.served();
    assert_eq!(served.frames, 4000);
    assert!(served.calls < 2000, "{served:?}");
    // The last ones leave soon.
    for _ in 0..100 {
        if server.served().streams == 0 {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", server.served());
}

#[tokio::test]
async fn a_frame_whose_task_gave_up_is_taken_and_the_next_one_waits_for_it() {
    let model = fused();
    let (inputs, outputs) = (model.model().input_size(), model.model().output_size());
    let limits = Limits { deadline: Duration::from_millis(50), ..Limits::default() };
    let server = PoolServer::start(&model, limits).unwrap();
    let mut stream = server.join().await.unwrap();
    // It has no frame, so that frames wait until the deadline.
    let _other = server.join().await.unwrap();
    let (mut alone, mut expected) = (model.stream(), vec![0.0; outputs]);
    for step in 0..3 {
        let x = frame(inputs, 1, step);
        assert!(timeout(Duration::from_millis(1), stream.step(&x)).await.is_err(), "the deadline is later");
        assert!(alone.step(&x, &mut expected).unwrap().has_output());
    }
    let x = frame(inputs, 1, 3);
    let found = stream.step(&x).await.unwrap().unwrap().to_vec();
    assert!(alone.step(&x, &mut expected).unwrap().has_output());
    assert_eq!(found, expected);
    assert_eq!(server.served().frames, 4);
}

#[tokio::test]
async fn a_frame_waits_for_the_deadline_at_most_and_full_servers_refuse() {
    let model = fused();
    let limits = Limits { streams: 2, deadline: Duration::from_millis(20), ..Limits::default() };
    let server = PoolServer::start(&model, limits).unwrap();
    let mut stream = server.join().await.unwrap();
    let x = vec![0.5; model.model().input_size()];
    // Alone, it does not wait, unless the machine stalls.
    let mut least = Duration::MAX;
    for _ in 0..20 {
        let start = tokio::time::Instant::now();
        stream.step(&x).await.unwrap();
        least = least.min(start.elapsed());
    }
    assert!(least < limits.deadline / 2, "{least:?}");
    let _other = server.join().await.unwrap();
    let start = tokio::time::Instant::now();
    stream.step(&x).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(server.join().await.err(), Some(ServeError::Full { streams: 2 }));
    let needed = x.len();
    let refused = stream.step(&x[1..]).await.err();
    assert_eq!(refused, Some(ServeError::FrameLength { needed, given: needed - 1 }));
    assert!(stream.step(&x).await.unwrap().is_some(), "it goes on");
}
