//! `StreamPool` of `tidegate-fused`: streams join, leave, are reset and step in random subsets and orders. Every output
//! and every state has the bits of the stream alone, and in integers those of `tidegate`.

use std::path::Path;

use tidegate::{ImageBytes, Layout, Model, Numeric, Schedule, State, StepError};
use tidegate_fused::{FusedModel, Isa, PoolError, Stream, StreamId, StreamPool};
use tidegate_model::canonical::Canonical;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::images::{AlignedBytes, over_windows, small_models};
use tidegate_tests::random::{Draw, Rng, Variant, chain};

const DRAW: Draw = Draw { weights: 1.0, biases: true };
/// Largest number of live streams of a test: more than two blocks.
const MOST: usize = 60;

/// A stream of the pool, the same stream alone, and its state in `tidegate`.
struct Live<'f, 'm> {
    id: StreamId,
    alone: Stream<'f, 'm>,
    core: Vec<u32>,
}

/// Rows of ports, `[port][row, size]`.
struct Rows(Vec<(usize, Vec<f32>)>);

impl Rows {
    fn slices(&self) -> Vec<&[f32]> {
        self.0.iter().map(|(_, rows)| rows.as_slice()).collect()
    }

    fn slices_mut(&mut self) -> Vec<&mut [f32]> {
        self.0.iter_mut().map(|(_, rows)| rows.as_mut_slice()).collect()
    }

    fn row(&self, row: usize) -> Self {
        Self(self.0.iter().map(|(size, rows)| (*size, rows[row * size..][..*size].to_vec())).collect())
    }

    fn bits(&self) -> Vec<Vec<u32>> {
        self.0.iter().map(|(_, rows)| rows.iter().map(|value| value.to_bits()).collect()).collect()
    }
}

/// Inputs of `count` streams. Masks read the last feature, and embeddings take whole numbers.
fn drawn(rng: &mut Rng, model: &Model<'_>, count: usize) -> Rows {
    let port = |size: usize| {
        let mut rows = rng.numbers(count * size, 3.0);
        rows.chunks_mut(size).filter(|_| rng.below(4) == 0).for_each(|row| row[size - 1] = 0.0);
        (size, rows)
    };
    Rows(model.inputs().map(|port| port.size).map(port).collect())
}

/// Outputs of `count` streams before a step. An unchanged row keeps these values.
fn unwritten(model: &Model<'_>, count: usize) -> Rows {
    Rows(model.outputs().map(|port| (port.size, (0..count * port.size).map(|k| 1e9 + k as f32).collect())).collect())
}

fn shuffle<T>(rng: &mut Rng, all: &mut [T]) {
    for last in (1..all.len()).rev() {
        all.swap(last, rng.below(last + 1));
    }
}

/// Runs `calls` calls of a pool whose streams change before every `rest`-th call. Returns the number of compared steps
/// with an output.
fn hold(what: &str, fused: &FusedModel<'_>, rng: &mut Rng, (calls, rest): (usize, usize)) -> usize {
    let model = fused.model();
    let threads = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("threads start");
    let (mut pool, mut live, mut scratch) = (StreamPool::new(fused), Vec::new(), vec![0; model.scratch_words()]);
    let mut outputs = 0;
    for call in 0..calls {
        let what = format!("{what} on {}, call {call}", fused.isa());
        if call % rest == 0 {
            change(rng, fused, &mut pool, &mut live);
        }
        let mut ready: Vec<usize> = (0..live.len()).filter(|_| call % 4 == 0 || rng.below(3) > 0).collect();
        if call % 2 == 0 {
            shuffle(rng, &mut ready);
        }
        if call % 7 == 6 {
            ready.truncate(1);
        }
        let ids: Vec<StreamId> = ready.iter().map(|&index| live[index].id).collect();
        let (x, mut y) = (drawn(rng, model, ids.len()), unwritten(model, ids.len()));
        let before: Vec<Rows> = (0..ids.len()).map(|row| y.row(row)).collect();
        let stepped = if call % 3 == 2 {
            threads.install(|| pool.par_step_ports(&ids, &x.slices(), &mut y.slices_mut()).map(<[_]>::to_vec))
        } else {
            pool.step_ports(&ids, &x.slices(), &mut y.slices_mut()).map(<[_]>::to_vec)
        };
        let stepped = stepped.expect("every stream is live and every length is right");
        assert_eq!(stepped.len(), ids.len());
        for ((row, mut expected), &index) in before.into_iter().enumerate().zip(&ready) {
            let Live { id, alone, core } = &mut live[index];
            let step = alone.step_ports(&x.row(row).slices(), &mut expected.slices_mut());
            assert_eq!(Ok(stepped[row]), step, "{what}, {id}");
            assert_eq!(y.row(row).bits(), expected.bits(), "{what}, {id}");
            assert_eq!(words(&mut pool.state(*id).expect("it is live")), words(&mut alone.state()), "{what}, {id}");
            outputs += usize::from(stepped[row].has_output());
            if model.numeric().is_integer() {
                let mut state = State::over(model, core).expect("the memory has the model's own length");
                let mut of_core = unwritten(model, ids.len()).row(row);
                let (x, y) = (x.row(row), &mut of_core.slices_mut());
                assert_eq!(model.step_ports(&mut state, &mut scratch, &x.slices(), y), step, "{what}, {id}");
                assert_eq!(of_core.bits(), expected.bits(), "{what}, {id}: tidegate");
                assert_eq!(words(&mut state), words(&mut alone.state()), "{what}, {id}: the state of tidegate");
            }
        }
    }
    outputs
}

/// Everything that a state holds.
fn words(state: &mut State<'_>) -> Vec<u8> {
    let mut saved = vec![0; state.saved_bytes()];
    state.save(&mut saved).expect("the memory has the state's own length");
    saved
}

/// Lets some streams join, leave, be reset, or end their sequence.
fn change<'f, 'm>(rng: &mut Rng, fused: &'f FusedModel<'m>, pool: &mut StreamPool<'m>, live: &mut Vec<Live<'f, 'm>>) {
    for _ in 0..rng.below(if live.is_empty() { MOST } else { 9 }) {
        let core = vec![0; fused.model().state_words()];
        live.push(Live { id: pool.join(), alone: fused.stream(), core });
    }
    for _ in 0..rng.below(6) {
        if live.is_empty() {
            break;
        }
        let index = rng.below(live.len());
        let Live { id, alone, core } = &mut live[index];
        match rng.below(3) {
            0 => {
                pool.reset(*id).expect("it is live");
                alone.reset();
                core.fill(0);
            }
            1 => {
                let [mut y, mut expected] = [(); 2].map(|()| unwritten(fused.model(), 1));
                let step = pool.finish(*id, &mut y.slices_mut()).expect("the length is right");
                assert_eq!(Ok(step), alone.finish(&mut expected.slices_mut()));
                assert_eq!(y.bits(), expected.bits(), "{id}");
                if fused.model().numeric().is_integer() {
                    let (mut scratch, mut y) = (vec![0; fused.model().scratch_words()], unwritten(fused.model(), 1));
                    let mut state = State::over(fused.model(), core).expect("the memory has the model's own length");
                    assert_eq!(fused.model().finish(&mut state, &mut scratch, &mut y.slices_mut()), Ok(step));
                    assert_eq!(y.bits(), expected.bits(), "{id}: tidegate");
                }
            }
            _ => {
                let left = live.swap_remove(index).id;
                pool.leave(left).expect("it is live");
                assert!(!pool.contains(left));
                assert_eq!(pool.reset(left), Err(PoolError::Unknown(left)));
            }
        }
    }
    while live.len() > MOST {
        pool.leave(live.swap_remove(rng.below(live.len())).id).expect("it is live");
    }
    assert_eq!(pool.len(), live.len());
}

/// Packs a model with ranges measured on noise; `None` if a cell has no form in the numeric.
fn image(rng: &mut Rng, model: &Canonical, numeric: Numeric) -> Option<AlignedBytes> {
    let seen: Vec<Vec<f32>> = model.architecture.inputs.iter().map(|port| rng.numbers(8 * port.size, 2.0)).collect();
    let seen: Vec<&[f32]> = seen.iter().map(Vec::as_slice).collect();
    let ranges = Ranges::measure(model, [seen.as_slice()]).ok()?.nearest();
    pack_with(model, numeric, &ranges, Layout::Portable).ok().map(|bytes| AlignedBytes::new(&bytes))
}

/// Runs all numerics that can hold the model, on every instruction set of this machine. Returns the number of numerics.
fn hold_all(what: &str, model: &Canonical, rng: &mut Rng, schedule: Option<Schedule>, calls: usize) -> usize {
    let images: Vec<AlignedBytes> = Numeric::ALL.into_iter().filter_map(|numeric| image(rng, model, numeric)).collect();
    for image in &images {
        let model = image.model();
        let model = schedule.map_or(model, |schedule| model.with_schedule(schedule).expect("the model has no windows"));
        let what = format!("{what}, {}", model.numeric().name());
        for isa in Isa::available() {
            let outputs = hold(&what, &FusedModel::with_isa(&model, isa), rng, (calls, 1));
            assert!(outputs > 0, "{what}: no step had an output");
        }
    }
    images.len()
}

#[test]
fn streams_of_every_cell_have_the_bits_of_streams_alone() {
    let mut rng = Rng::new(61);
    let mut numerics = 0;
    for (name, model) in small_models() {
        numerics += hold_all(&name, &model, &mut rng, None, 9);
    }
    // Every model packs as f32 and f16, and the cells that have integer forms in three numerics more.
    assert!(numerics > 2 * small_models().len() + 60, "{numerics}");
}

#[test]
fn streams_of_layers_that_fill_vectors_and_blocks_have_the_bits_of_streams_alone() {
    let mut rng = Rng::new(62);
    let cells = [("lstm", &[][..]), ("gru", &["reset_after"]), ("gru", &[]), ("elman", &[]), ("lstm", &["masked"])];
    let schedules = [None, Some((7, 3)), Some((2, 5)), Some((4, 4))];
    for (round, (cell, options)) in cells.into_iter().cycle().take(12).enumerate() {
        let kind = Variant::plain(cell).kind;
        let (input, units) = ([3, 16, 33][round % 3], [16, 32, 21, 40][round % 4]);
        let mut cells = vec![(Variant::new(kind, options), units)];
        if round % 2 == 1 {
            cells.push((Variant::plain("dense"), 5));
        }
        let model = chain(&mut rng, input, &cells, DRAW);
        let schedule = schedules[round % 4].map(|(frames, every)| Schedule::Windows { frames, every });
        let what = format!("{cell} {options:?}, {input} to {units}, {schedule:?}");
        // Cells have an `i8` form only with the integers of an imported model.
        assert!(hold_all(&what, &model, &mut rng, schedule, 20) >= Numeric::ALL.len() - 1, "{what}");
    }
    for cell in ["lstm", "dense", "conv", "window_dense", "window_depthwise"] {
        let variants = Variant::all().into_iter().filter(|variant| variant.kind.spec().name == cell);
        for variant in variants {
            let model = chain(&mut rng, 9, &[(variant, 20), (Variant::plain("dense"), 11)], DRAW);
            // Not every option has a form in bytes.
            let image = pack_with(&in_bytes(model), Numeric::I8, &Ranges::default(), Layout::Portable);
            let Some(image) = image.ok().map(|bytes| AlignedBytes::new(&bytes)) else { continue };
            for isa in Isa::available() {
                let outputs = hold(cell, &FusedModel::with_isa(&image.model(), isa), &mut rng, (20, 1));
                assert!(outputs > 0, "{cell}: no step had an output");
            }
        }
    }
    let lstm = chain(&mut rng, 5, &[(Variant::plain("lstm"), 9)], DRAW);
    for (length, hop, partial, stateful) in [(3, 3, true, true), (5, 2, false, false)] {
        let model = over_windows(lstm.clone(), length, hop, partial, stateful);
        hold_all(&format!("windows of {length}"), &model, &mut rng, None, 24);
    }
}

#[test]
fn streams_of_the_shipped_models_have_the_bits_of_streams_alone() {
    let mut rng = Rng::new(63);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in [
        "assets/keywords/keywords.tgi",
        "core/examples/kws.tgi",
        "core/examples/one_to_many/gru.tgi",
        "core/examples/encoder_decoder/lstm.tgi",
        "core/examples/many_to_one/lstm.tgi",
        "core/examples/many_to_many/lstm.tgi",
    ] {
        let bytes =
            AlignedBytes::new(&std::fs::read(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")));
        let model = Model::parse(ImageBytes::new(bytes.get()).expect("the bytes are aligned")).expect(name);
        for isa in Isa::available() {
            let frames = match model.schedule() {
                Schedule::Windows { frames, .. } => frames as usize,
                Schedule::Endless => 8,
            };
            // A stream misses some calls before its first window is full.
            for (model, calls) in [(model, 2 * frames), (model.endless(), 8)] {
                let outputs = hold(name, &FusedModel::with_isa(&model, isa), &mut rng, (calls, frames));
                assert!(outputs > 0, "{name}: no step had an output");
            }
        }
    }
}

#[test]
fn integer_ports_have_the_integers_of_streams_alone() {
    let mut rng = Rng::new(64);
    let cells = [(Variant::plain("gru"), 18), (Variant::plain("dense"), 4)];
    let model = chain(&mut rng, 6, &cells, DRAW);
    let image = image(&mut rng, &model, Numeric::I8x16).expect("both have integer forms");
    for isa in Isa::available() {
        let fused = FusedModel::with_isa(&image.model(), isa);
        let mut pool = StreamPool::with_capacity(&fused, 30);
        let ids: Vec<StreamId> = (0..30).map(|_| pool.join()).collect();
        let mut alone: Vec<_> = ids.iter().map(|_| fused.stream()).collect();
        for _ in 0..5 {
            let x: Vec<i16> = (0..30 * 6).map(|_| (rng.bits() as i16).max(-i16::MAX)).collect();
            let mut y = vec![0; 30 * 4];
            pool.step_ports_i16(&ids, &[&x], &mut [&mut y]).expect("every length is right");
            for ((x, y), stream) in x.chunks(6).zip(y.chunks(4)).zip(&mut alone) {
                let mut expected = [0; 4];
                assert!(stream.step_i16(x, &mut expected).is_ok_and(tidegate::Step::has_output));
                assert_eq!(y, expected, "{isa}");
            }
        }
    }
}

#[test]
fn a_refused_call_steps_nothing_and_names_the_stream() {
    let mut rng = Rng::new(65);
    let image = AlignedBytes::pack(&chain(&mut rng, 2, &[(Variant::plain("lstm"), 3)], DRAW), Numeric::F32);
    let fused = FusedModel::new(&image.model());
    let (mut pool, mut other) = (StreamPool::new(&fused), StreamPool::new(&fused));
    let [a, b, c] = [(); 3].map(|()| pool.join());
    let stranger = other.join();
    let mut y = [0.0; 9];
    assert!(pool.step(&[a, b, c], &[0.5; 6], &mut y).is_ok());
    let before = [a, b, c].map(|id| words(&mut pool.state(id).expect("it is live")));
    let twice = pool.step(&[b, a, b], &[0.5; 6], &mut y);
    assert_eq!(twice, Err(PoolError::Twice(b)));
    assert_eq!(pool.step(&[a, a], &[0.5; 4], &mut y[..6]), Err(PoolError::Twice(a)));
    assert_eq!(pool.step(&[b, stranger], &[0.5; 4], &mut y[..6]), Err(PoolError::Unknown(stranger)));
    let short = pool.step(&[c, a], &[0.5; 3], &mut y[..6]);
    assert!(matches!(short, Err(PoolError::Step(StepError::Input(_)))), "{short:?}");
    let long = pool.step(&[c, a], &[0.5; 4], &mut y);
    assert!(matches!(long, Err(PoolError::Step(StepError::Output(_)))), "{long:?}");
    let no_integers = pool.step_ports_i16(&[a], &[&[0, 0]], &mut [&mut [0; 3]]);
    assert_eq!(no_integers, Err(PoolError::Step(StepError::FloatModel)));
    pool.leave(b).expect("it is live");
    assert_eq!(pool.step(&[c, b], &[0.5; 4], &mut y[..6]), Err(PoolError::Unknown(b)));
    assert_eq!(pool.leave(b), Err(PoolError::Unknown(b)));
    // The slot has a new stream, and the old id stays invalid.
    let d = pool.join();
    assert_eq!((d.slot(), pool.contains(b), pool.contains(d)), (b.slot(), false, true));
    let after = [a, d, c].map(|id| words(&mut pool.state(id).expect("it is live")));
    assert_eq!((&after[0], &after[2]), (&before[0], &before[2]));
    assert_ne!(after[1], before[1], "a joined stream starts at zero");
    // A refused call leaves no trace.
    assert!(pool.step(&[c, d, a], &[0.5; 6], &mut y).is_ok());
    assert_eq!(pool.step(&[], &[], &mut []), Ok(&[][..]));
}
