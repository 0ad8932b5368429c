//! The work that `core` counts from the descriptions of cells is that of the oracle, which counts what it computes.

use std::collections::BTreeSet;
use std::path::Path;

use tidegate::{ImageError, Limit, Limits, Model, Numeric, Work};
use tidegate_model::canonical::Canonical;
use tidegate_tests::golden::Case;
use tidegate_tests::images::{AlignedBytes, whole};
use tidegate_tests::oracle::{Bounded, Oracle, count};

/// Cells whose work depends on the input or on positions that a formula of sizes does not know: taps in the padding of
/// an image or of a spectrum are not computed; synapses of `ltc` add a shift, which `core` counts with the matrices.
const AT_MOST: [&str; 8] =
    ["conv", "depthwise_conv", "conv_lstm", "grid_lstm", "time_freq_lstm", "ltc", "attention_lstm", "embedding"];

/// The greatest work of a step of the oracle, until there is an output.
fn counted(model: &Canonical) -> [u64; 2] {
    let oracle = Oracle::new(model);
    let mut state = vec![Bounded::default(); oracle.state_len()];
    let inputs: Vec<Vec<f32>> = model.architecture.inputs.iter().map(|port| vec![0.5; port.size]).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut most = [0; 2];
    for _ in 0..200 {
        count::taken();
        let output = oracle.step(&mut state, &inputs);
        most = [0, 1].map({
            let found = count::taken();
            move |index| found[index].max(most[index])
        });
        if output.is_some() {
            break;
        }
    }
    most
}

#[test]
fn the_work_of_every_golden_network_is_what_the_oracle_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let (mut equal, mut wrong) = (0, Vec::new());
    for path in files.map(|entry| entry.expect("the folder can be read").path()) {
        if path.extension().is_none_or(|extension| extension != "safetensors") {
            continue;
        }
        let Some(canonical) = Case::open(&path).try_model() else { continue };
        let image = AlignedBytes::pack(&canonical, Numeric::F32);
        let Work { macs, curves, .. } = image.model().endless().work();
        let cells: BTreeSet<&str> = canonical.architecture.nodes.iter().map(|node| node.cell.as_str()).collect();
        let [found_macs, found_curves] = counted(&canonical);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if cells.iter().all(|cell| !AT_MOST.contains(cell)) {
            equal += 1;
            if [macs, curves] != [found_macs, found_curves] {
                wrong.push(format!("{name} {cells:?}: {macs} {curves}, not {found_macs} {found_curves}"));
            }
        } else if macs < found_macs || curves < found_curves {
            wrong.push(format!("{name} {cells:?}: {macs} {curves}, less than {found_macs} {found_curves}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal > 100, "{equal} networks");
}

/// The rows are padded to blocks of four.
#[test]
fn the_bytes_of_a_step_are_those_of_its_tensors_for_each_state_of_the_schedule() {
    let image = AlignedBytes::pack(&whole(), Numeric::F32);
    let model = image.model();
    // Elman over 2 features, then LSTM, r and z of the GRU, n of the GRU, and dense over 3: rows, columns and the bias.
    let rows = [(4, 2 + 3 + 1), (12, 3 + 3 + 1), (8, 3 + 3 + 1), (4, 3 + 3 + 1), (4, 3 + 1)];
    let bytes: u64 = rows.iter().map(|(rows, cols)| 4 * rows * cols).sum();
    let of_one = model.endless().work();
    assert_eq!(of_one.bytes, bytes);
    let states = u64::from(model.schedule().states());
    assert_eq!(states, 2);
    let Work { macs, curves, moves, bytes } = of_one;
    let all = Work { macs: 2 * macs, curves: 2 * curves, moves: 2 * moves, bytes: 2 * bytes };
    assert_eq!(model.work(), all);
}

#[test]
fn each_limit_refuses_a_model_that_needs_one_more() {
    let image = AlignedBytes::pack(&whole(), Numeric::F32);
    let model = image.model();
    let work = model.work();
    let exact = Limits { work, nodes: 5, state_words: model.state_words(), scratch_words: model.scratch_words() };
    assert!(Model::parse_within(image.image(), &exact).is_ok());
    let less = |work: Work| Limits { work, ..exact };
    for (limit, limits, needed) in [
        (Limit::Macs, less(Work { macs: work.macs - 1, ..work }), work.macs),
        (Limit::Curves, less(Work { curves: work.curves - 1, ..work }), work.curves),
        (Limit::Moves, less(Work { moves: work.moves - 1, ..work }), work.moves),
        (Limit::Bytes, less(Work { bytes: work.bytes - 1, ..work }), work.bytes),
        (Limit::Nodes, Limits { nodes: 4, ..exact }, 5),
        (Limit::StateWords, Limits { state_words: exact.state_words - 1, ..exact }, exact.state_words as u64),
        (Limit::ScratchWords, Limits { scratch_words: exact.scratch_words - 1, ..exact }, exact.scratch_words as u64),
    ] {
        let refused = Model::parse_within(image.image(), &limits).map(drop);
        assert_eq!(refused, Err(ImageError::OverLimit { limit, needed, given: needed - 1 }));
    }
}
