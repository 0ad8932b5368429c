//! Tests of `tidegate-fused` beyond the suite for all backends: sizes that fill vectors and blocks of rows, states
//! moved between backends, streams on threads, and memory use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tidegate::internals::cell::CellKind;
use tidegate::{Batch, Layout as LayoutOfImage, Numeric, Sequence, State, StepError};
use tidegate_fused::{FusedModel, Isa, Stream, StreamPool};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::backend::{self, Backend};
use tidegate_tests::crafted::Crafted;
use tidegate_tests::images::{AlignedBytes, over_windows, small_models};
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_tests::tolerance::{all_within, same_bits};

const DRAW: Draw = Draw { weights: 1.0, biases: true };

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Counts the allocations and the bytes in use of each thread.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator; counting does not allocate.
#[expect(unsafe_code, reason = "only an allocator can count allocations")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size())));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.with(|bytes| bytes.set(bytes.get().wrapping_sub(layout.size())));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The variants of cells that have a kernel.
fn packed() -> Vec<Variant> {
    let kinds = [
        CellKind::Lstm,
        CellKind::Gru,
        CellKind::Elman,
        CellKind::Dense,
        CellKind::LayerNorm,
        CellKind::Conv,
        CellKind::DepthwiseConv,
    ];
    Variant::all().into_iter().filter(|variant| kinds.contains(&variant.kind)).collect()
}

/// Runs `batch` sequences of `time` steps each, as a batch and step by step. Outputs and states must be bit-identical.
fn hold(backend: &dyn Backend, rng: &mut Rng, batch: usize, time: usize, what: &str) {
    let model = backend.model();
    let (input, output) = (model.input_size(), model.output_size());
    let lens: Vec<usize> = (0..batch).map(|_| time - rng.below(3).min(time)).collect();
    let resets: Vec<bool> = (0..batch * time).map(|_| rng.below(9) == 0).collect();
    let mut x = rng.numbers(batch * time * input, 2.0);
    // Masks read the last feature.
    for row in x.chunks_mut(input) {
        if let Some(mask) = row.last_mut().filter(|_| rng.below(4) == 0) {
            *mask = 0.0;
        }
    }
    let how = Sequence { lens: Some(&lens), resets: Some(&resets), ..Sequence::ALL };
    let mut memory = vec![0; batch * model.state_words()];
    let mut states = Batch::new(model, batch, &mut memory).expect("the memory has the batch's own length");
    let mut y = vec![f32::NAN; batch * time * output];
    backend.run_batch(&mut states, &[&x], &mut [&mut y], &how).expect("every length is right");
    for (index, of_batch) in states.states().enumerate() {
        let mut memory = vec![0; model.state_words()];
        let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
        for t in 0..lens[index] {
            let at = index * time + t;
            if resets[at] {
                state.reset();
            }
            let mut row = vec![f32::NAN; output];
            let step = backend.step(&mut state, &[&x[at * input..(at + 1) * input]], &mut [&mut row]);
            assert!(step.expect("every length is right").has_output());
            let got = &y[at * output..(at + 1) * output];
            same_bits(got, &row).unwrap_or_else(|miss| panic!("{what}, {}, {index} at {t}: {miss}", backend.name()));
        }
        same_bits(of_batch.values(), state.values())
            .unwrap_or_else(|miss| panic!("{what}, {}, state {index}: {miss}", backend.name()));
    }
}

#[test]
fn sequences_and_batches_that_fill_vectors_and_blocks_equal_stepping() {
    let mut rng = Rng::new(41);
    for variant in packed() {
        let sizes = [(1, 3), (7, 8), (17, 15), (5, 16), (33, 17), (16, 33), (3, 60), (3, 70), (3, 124), (3, 140)];
        for ((input, hidden), numeric) in sizes.into_iter().flat_map(|of| [(of, Numeric::F32), (of, Numeric::F16)]) {
            let model = chain(&mut rng, input, &[(variant.clone(), hidden)], DRAW);
            let what = format!("{}, input {input}, hidden {hidden}, {}", variant.name(), numeric.name());
            let image = AlignedBytes::pack(&model, numeric);
            for backend in backend::all(&image.model()).iter().skip(1) {
                for (batch, time) in [(1, 9), (2, 3), (7, 4), (13, 3)] {
                    hold(&**backend, &mut rng, batch, time, &what);
                }
            }
        }
    }
}

/// Covers different lengths, masks, resets, and remainders of every block, on one thread and divided among several.
#[test]
fn several_threads_give_the_bits_of_one_thread() {
    let mut rng = Rng::new(47);
    for (cell, batch) in [("lstm", 13), ("gru", 5), ("lstm", 1), ("conv", 4)] {
        let model = chain(&mut rng, 5, &[(Variant::plain(cell), 18), (Variant::plain("dense"), 3)], DRAW);
        let image = AlignedBytes::pack(&model, Numeric::F32);
        let fused = FusedModel::new(&image.model());
        let time = 7;
        let lens: Vec<usize> = (0..batch).map(|_| rng.below(time + 1)).collect();
        let resets: Vec<bool> = (0..batch * time).map(|_| rng.below(9) == 0).collect();
        let x = rng.numbers(batch * time * 5, 2.0);
        let run = |threads: Option<usize>, lens: Option<&[usize]>, last_only: bool| {
            let how = Sequence { lens, resets: Some(&resets), last_only, ..Sequence::ALL };
            let mut memory = vec![0; batch * fused.model().state_words()];
            let mut states =
                Batch::new(fused.model(), batch, &mut memory).expect("the memory has the batch's own length");
            let mut y = vec![f32::NAN; if last_only { batch * 3 } else { batch * time * 3 }];
            let written = match threads {
                None => fused.run_batch(&mut states, &mut fused.scratch(), &[&x], &mut [&mut y], &how),
                Some(threads) => {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
                    let mut scratch = pool.install(|| fused.par_scratch());
                    pool.install(|| fused.par_run_batch(&mut states, &mut scratch, &[&x], &mut [&mut y], &how))
                }
            };
            (written, y.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), memory)
        };
        for lens in [None, Some(&lens[..])] {
            for last_only in [false, true] {
                let alone = run(None, lens, last_only);
                assert!(alone.0.is_ok());
                for threads in [1, 2, 3, 16] {
                    assert_eq!(run(Some(threads), lens, last_only), alone, "{cell}, {threads} threads");
                }
            }
        }
        let (wrong, _, _) = run(Some(2), Some(&[time + 1; 13][..batch]), false);
        assert!(wrong.is_err());
    }
}

#[test]
fn more_steps_and_sequences_than_run_together_equal_stepping() {
    let mut rng = Rng::new(42);
    let cells = [("gru", 18), ("lstm", 20), ("dense", 3)].map(|(cell, units)| (Variant::plain(cell), units));
    let model = chain(&mut rng, 9, &cells, DRAW);
    let image = AlignedBytes::pack(&model, Numeric::F32);
    for backend in backend::all(&image.model()).iter().skip(1) {
        for (batch, time) in [(1, 300), (150, 3), (40, 11), (9, 600)] {
            hold(&**backend, &mut rng, batch, time, "a stack");
        }
    }
}

#[test]
fn lstm_gru_elman_and_layer_norm_have_kernels_with_every_option_but_an_initial_state() {
    let has_kernel = |variant: &Variant| {
        let model = chain(&mut Rng::new(43), 4, &[(variant.clone(), 4)], DRAW);
        let image = AlignedBytes::pack(&model, Numeric::F32);
        FusedModel::new(&image.model()).packed()
    };
    // Grouped layers are left out: dense layers and convolutions with several groups have no kernel.
    let grouped = [CellKind::Dense, CellKind::Conv, CellKind::DepthwiseConv];
    for variant in packed().iter().filter(|variant| !grouped.contains(&variant.kind)) {
        assert_eq!(has_kernel(variant), [!variant.options.contains(&"initial")], "{}", variant.name());
    }
    assert_eq!(["dense", "conv"].map(|cell| has_kernel(&Variant::plain(cell))), [[true], [true]]);
    assert_eq!(has_kernel(&Variant::plain("sru")), [false]);
}

#[test]
fn a_state_saved_by_one_backend_continues_in_every_other() {
    let mut rng = Rng::new(44);
    let cells = [("lstm", 17), ("gru", 5), ("sru", 4), ("dense", 3)].map(|(cell, units)| (Variant::plain(cell), units));
    let model = chain(&mut rng, 6, &cells, DRAW);
    let image = AlignedBytes::pack(&model, Numeric::F32);
    let (model, x) = (image.model(), rng.numbers(8 * 6, 1.0));
    let all = backend::all(&model);
    let run = |backend: &dyn Backend, state: &mut State<'_>, x: &[f32]| {
        let mut y = vec![0.0; x.len() / 6 * 3];
        let run = backend.run(state, &[x], &mut [&mut y], &Sequence::ALL);
        assert_eq!(run, Ok(x.len() / 6));
        y
    };
    for from in &all {
        let mut memory = vec![0; model.state_words()];
        let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
        run(&**from, &mut state, &x[..4 * 6]);
        let mut saved = vec![0; state.saved_bytes()];
        state.save(&mut saved).expect("the buffer has the state's own length");
        let expected: Vec<f64> = run(&**from, &mut state, &x[4 * 6..]).into_iter().map(f64::from).collect();
        for to in &all {
            let mut memory = vec![0; model.state_words()];
            let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
            model.restore(&mut state, &saved).expect("the state is of this model");
            let got = run(&**to, &mut state, &x[4 * 6..]);
            let what = format!("from {} to {}", from.name(), to.name());
            all_within(&got, &expected, 1e-4).unwrap_or_else(|miss| panic!("{what}: {miss}"));
        }
    }
}

#[test]
fn a_stream_steps_like_its_model_and_allocates_nothing() {
    let mut rng = Rng::new(45);
    let cells = [("lstm", 20), ("gru", 9), ("elman", 5), ("conv", 4), ("sru", 4), ("dense", 3), ("softmax", 3)]
        .map(|(cell, units)| (Variant::plain(cell), units));
    let network = chain(&mut rng, 6, &cells, DRAW);
    for numeric in [Numeric::F32, Numeric::F16] {
        let image = AlignedBytes::pack(&network, numeric);
        let model = image.model();
        for isa in Isa::available() {
            let fused = FusedModel::with_isa(&model, isa);
            let (mut stream, mut scratch) = (fused.stream(), fused.scratch());
            let mut memory = vec![0; model.state_words()];
            let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
            for _ in 0..20 {
                let x = rng.numbers(model.input_size(), 2.0);
                let (mut y, mut expected) = (vec![0.0; model.output_size()], vec![0.0; model.output_size()]);
                let before = ALLOCATIONS.with(Cell::get);
                let step = stream.step(&x, &mut y);
                assert_eq!(ALLOCATIONS.with(Cell::get), before, "{isa}: a step allocated");
                assert!(step.expect("every length is right").has_output());
                assert!(fused.step(&mut state, &mut scratch, &x, &mut expected).is_ok());
                same_bits(&y, &expected).unwrap_or_else(|miss| panic!("{isa}: {miss}"));
            }
            let mut saved = vec![0; stream.saved_bytes()];
            assert_eq!(stream.save(&mut saved), Ok(saved.len()));
            stream.reset();
            assert!(stream.state().values().iter().all(|value| value.to_bits() == 0));
            assert_eq!(stream.restore(&saved), Ok(()));
            same_bits(stream.state().values(), state.values()).expect("the state is unchanged");
        }
    }
}

#[test]
fn a_stream_over_windows_allocates_nothing() {
    let mut rng = Rng::new(47);
    let cells = [Variant::plain("lstm"), Variant::plain("gru"), Variant::plain("elman")];
    for cell in cells {
        let network = over_windows(chain(&mut rng, 3, &[(cell, 18)], DRAW), 140, 5, false, false);
        let image = AlignedBytes::pack(&network, Numeric::F32);
        for isa in Isa::available() {
            let fused = FusedModel::with_isa(&image.model(), isa);
            let mut stream = fused.stream();
            let (x, mut y) = (rng.numbers(150 * 3, 2.0), vec![0.0; fused.model().output_size()]);
            let before = ALLOCATIONS.with(Cell::get);
            let outputs = x.chunks(3).filter(|x| stream.step(x, &mut y).is_ok_and(tidegate::Step::has_output)).count();
            assert_eq!((ALLOCATIONS.with(Cell::get), outputs), (before, 3), "{isa}: allocations, outputs");
        }
    }
}

/// All streams, some in another order, and one alone: in blocks where they lie, in copies, and without a block.
#[test]
fn a_step_of_a_pool_allocates_nothing() {
    let mut rng = Rng::new(48);
    let layer = |cell: &str| (Variant::plain(cell), 18);
    let nets = [
        chain(&mut rng, 6, &[layer("lstm")], DRAW),
        chain(&mut rng, 6, &[layer("gru"), layer("sru"), layer("dense")], DRAW),
        over_windows(chain(&mut rng, 3, &[layer("lstm")], DRAW), 140, 5, false, false),
    ];
    for (network, numeric) in nets.iter().flat_map(|net| [(net, Numeric::F32), (net, Numeric::F16)]) {
        let image = AlignedBytes::pack(network, numeric);
        for isa in Isa::available() {
            let fused = FusedModel::with_isa(&image.model(), isa);
            let mut pool = StreamPool::with_capacity(&fused, 70);
            let before = ALLOCATIONS.with(Cell::get);
            let mut ids = [(); 70].map(|()| pool.join());
            assert_eq!(ALLOCATIONS.with(Cell::get), before, "{isa}: a join allocated");
            ids[30..].reverse();
            let (x, mut y) = (rng.numbers(70 * 6, 2.0), vec![0.0; 70 * fused.model().output_size()]);
            for ready in [&ids[..30], &ids, &ids[60..], &ids[..1]].repeat(40) {
                let (input, output) = (fused.model().input_size(), fused.model().output_size());
                let (x, y) = (&x[..ready.len() * input], &mut y[..ready.len() * output]);
                let before = ALLOCATIONS.with(Cell::get);
                let steps = pool.step(ready, x, y).map(<[_]>::len);
                assert_eq!((ALLOCATIONS.with(Cell::get), steps), (before, Ok(ready.len())), "{isa}: a step allocated");
            }
        }
    }
}

#[test]
fn many_streams_share_a_model_among_threads() {
    fn goes_to_another_thread<T: Send>(value: T) -> T {
        value
    }
    fn is_shared<T: Sync>(_: &T) {}
    let model = chain(&mut Rng::new(46), 4, &[(Variant::plain("lstm"), 18)], DRAW);
    let image = AlignedBytes::pack(&model, Numeric::F32);
    let fused = FusedModel::new(&image.model());
    is_shared(&fused);
    let stream_of = |mut stream: Stream<'_, '_>, seed: u64| {
        let mut y = vec![0.0; 18];
        for x in Rng::new(seed).numbers(50 * 4, 2.0).chunks(4) {
            assert!(stream.step(x, &mut y).is_ok());
        }
        y
    };
    let alone: Vec<Vec<f32>> = (0..16).map(|seed| stream_of(fused.stream(), seed)).collect();
    let together: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let streams = (0..16).map(|seed| (seed, goes_to_another_thread(fused.stream())));
        let threads: Vec<_> = streams.map(|(seed, stream)| scope.spawn(move || stream_of(stream, seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    for (alone, together) in alone.iter().zip(&together) {
        same_bits(alone, together).expect("streams are independent");
    }
}

#[test]
fn a_loaded_model_takes_at_most_a_tenth_more_memory_than_its_image() {
    let mut rng = Rng::new(47);
    let gru = |options: &'static [&'static str]| Variant::new(CellKind::Gru, options);
    let variants = [Variant::plain("lstm"), gru(&[]), gru(&["reset_after"]), Variant::plain("dense")];
    for (variant, [input, hidden]) in variants.into_iter().flat_map(|of| [(of.clone(), [128, 256]), (of, [250, 126])]) {
        let model = chain(&mut rng, input, &[(variant.clone(), hidden)], DRAW);
        let seen = rng.numbers(8 * input, 2.0);
        let ranges = Ranges::measure(&model, [[seen.as_slice()].as_slice()]).expect("the model runs");
        for numeric in [Numeric::F32, Numeric::F16, Numeric::I8x16] {
            let packed = pack_with(&model, numeric, &ranges, LayoutOfImage::Portable).expect("the model packs");
            let image = AlignedBytes::new(&packed);
            let model = image.model();
            for isa in Isa::available() {
                let before = BYTES.with(Cell::get);
                let fused = FusedModel::with_isa(&model, isa);
                let taken = BYTES.with(Cell::get) - before;
                assert!(fused.packed().iter().all(|&packed| packed));
                let what = format!("{} {input} to {hidden}, {}, {isa}", variant.name(), numeric.name());
                println!("{what}: {:.3}", taken as f64 / packed.len() as f64);
                assert!(10 * taken <= 11 * packed.len(), "{what}: {taken} bytes of {}", packed.len());
            }
        }
    }
}

#[test]
fn the_scratch_and_the_state_of_another_model_are_refused() {
    let models: Vec<_> =
        small_models().into_iter().map(|(name, model)| (name, AlignedBytes::pack(&model, Numeric::F32))).collect();
    let packed: Vec<_> = models.iter().map(|(name, image)| (name, FusedModel::new(&image.model()))).collect();
    let mut pairs = 0;
    for (name, fused) in &packed {
        let inputs: Vec<Vec<f32>> = fused.model().inputs().map(|port| vec![0.5; port.size]).collect();
        let mut outputs: Vec<Vec<f32>> = fused.model().outputs().map(|port| vec![0.0; port.size]).collect();
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let mut memory = vec![0; fused.model().state_words()];
        let mut state = State::new(fused.model(), &mut memory).expect("the length is the model's");
        for (other_name, other) in &packed {
            let mut scratch = other.scratch();
            let mut others = vec![0; other.model().state_words()];
            let mut other_state = State::new(other.model(), &mut others).expect("the length is the model's");
            let stepped = fused.step_ports(&mut state, &mut scratch, &inputs, &mut outputs).map(drop);
            let ran = fused.run_ports(&mut state, &mut scratch, &inputs, &mut outputs, &Sequence::ALL).map(drop);
            let ended = fused.finish(&mut state, &mut scratch, &mut outputs).map(drop);
            let single = match (&*inputs, &mut *outputs) {
                ([input], [output]) => fused.step(&mut state, &mut scratch, input, output).map(drop),
                _ => stepped,
            };
            let expected = if name == other_name { Ok(()) } else { Err(StepError::OtherScratch) };
            assert_eq!([stepped, ran, ended, single], [expected; 4], "{name} {other_name}");
            if name != other_name {
                let stepped = fused.step_ports(&mut other_state, &mut fused.scratch(), &inputs, &mut outputs).map(drop);
                assert_eq!(stepped, Err(StepError::OtherState), "{name} {other_name}");
                pairs += 1;
            }
        }
        // A clone and the endless form have the same plan.
        let endless = fused.endless();
        let mut memory = vec![0; endless.model().state_words()];
        let mut state = State::new(endless.model(), &mut memory).expect("the length is the model's");
        assert!(endless.step_ports(&mut state, &mut fused.clone().scratch(), &inputs, &mut outputs).is_ok(), "{name}");
    }
    assert!(pairs > 1636, "{pairs} pairs");
}

/// 1,000 dense layers over one matrix, which our packer never writes. With `unlike`, the sizes of the layers differ.
fn layers_over_one_matrix(unlike: bool) -> AlignedBytes {
    let mut image = Crafted::new(Numeric::F32, LayoutOfImage::Portable);
    image.weights = vec![0; 4 * 1000 * 1000 + 4 * 1000];
    let x = image.slot(1000);
    let (mut size, mut last, out) = (1000, x, image.elements);
    for _ in 0..1000 {
        image.elements = out;
        last = image.dense((x, 1000), size, [0, 4_000_000]);
        size -= u32::from(unlike && size > 500);
    }
    image.elements = out + 1000;
    image.image(&[("x", x, 1000)], &[("y", last, if unlike { 500 } else { 1000 })])
}

#[test]
fn layers_that_share_their_tensors_are_packed_once() {
    let image = layers_over_one_matrix(false);
    let model = image.model();
    let before = BYTES.get();
    let fused = FusedModel::new(&model);
    let bytes = BYTES.get().wrapping_sub(before);
    assert!(fused.packed().iter().all(|packed| *packed));
    // The matrix, with its rows padded to whole panels, and the nodes.
    assert!(bytes < 6_000_000, "{bytes} bytes for an image of {}", image.get().len());
}

#[test]
fn a_limit_of_memory_refuses_a_model_by_the_first_layer_beyond_it() {
    let image = layers_over_one_matrix(true);
    let model = image.model();
    for limit in [0, 1_000_000, 50_000_000] {
        let before = BYTES.get();
        let error = FusedModel::try_new(&model, limit).expect_err("the layers differ");
        assert_eq!((error.limit, error.node), (limit, limit / 4_000_000), "{error}");
        assert_eq!(BYTES.get(), before);
    }
    let one = layers_over_one_matrix(false);
    assert!(FusedModel::try_new(&one.model(), 4_300_000).is_ok());
    assert_eq!(FusedModel::try_new(&one.model(), 3_900_000).expect_err("it is too large").node, 0);
}
