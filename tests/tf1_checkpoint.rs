//! TensorFlow checkpoints: their names and notes, handwritten ones, and damaged ones. `frameworks.rs` compares the
//! outputs of the checkpoints that TensorFlow wrote.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use tidegate_model::canonical::Canonical;
use tidegate_model::error::ImportError;
use tidegate_model::format::checkpoint::{self, import_parts};
use tidegate_model::format::{Description, Imported, Options, import, import_with};
use tidegate_tests::checkpoint::{
    Entry, Pair, Place, assert_line, block, by_hand, flag, header, import_checkpoint, length, table, written,
};
use tidegate_tests::corpus::Corpus;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/tf1_checkpoint")
}

/// The names of the models in a folder.
fn models(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let name = |file: fs::DirEntry| Some(file.file_name().to_str()?.strip_suffix(".ckpt.index")?.to_owned());
    let mut names: Vec<String> = files.filter_map(|file| name(file.expect("the folder can be read"))).collect();
    names.sort();
    names
}

#[test]
fn the_names_of_cudnn_determine_the_architecture() {
    for name in models(&sample()).iter().filter(|name| name.starts_with("cudnn")) {
        let described = sample().join(format!("{name}.json")).is_file();
        assert_eq!(described, name.contains("classifier"), "{name}");
    }
    // Both directions need the whole sequence, and only the user knows its length.
    let error = import(&sample().join("cudnn_lstm_2_bidirectional.ckpt")).unwrap_err();
    assert!(error.to_string().contains("whole sequence") && error.advice().contains("--window"), "{error}");
}

#[test]
fn a_checkpoint_is_found_by_prefix_index_shard_or_folder() {
    let folder = tempfile::tempdir().unwrap();
    for end in [".index", ".data-00000-of-00001"] {
        fs::copy(sample().join(format!("cudnn_lstm_1.ckpt{end}")), folder.path().join(format!("m.ckpt-7{end}")))
            .unwrap();
    }
    let latest = folder.path().join("checkpoint");
    fs::write(&latest, "model_checkpoint_path: \"/gone/train/m.ckpt-7\"\nall_model_checkpoint_paths: \"m.ckpt-7\"\n")
        .unwrap();
    fs::write(folder.path().join("m.ckpt-7.meta"), "a graph").unwrap();
    let names = ["m.ckpt-7", "m.ckpt-7.index", "m.ckpt-7.data-00000-of-00001", "m.ckpt-7.meta", "checkpoint", ""];
    let models = names.map(|name| {
        import(&folder.path().join(name)).unwrap_or_else(|error| panic!("{name:?}: {error}")).to_bytes().unwrap()
    });
    assert!(models.iter().all(|model| *model == models[0]));
    fs::remove_file(folder.path().join("m.ckpt-7.data-00000-of-00001")).unwrap();
    let error = import(&latest).unwrap_err();
    assert!(error.to_string().contains("\"m.ckpt-7.data-00000-of-00001\", and there is no such file"), "{error}");
}

fn arch(json: &str) -> Options {
    let description: Description = serde_json::from_str(json).expect("the description is valid");
    Options { description: Some(description), ..Options::default() }
}

fn from_parts(index: &[u8], shard: &[u8], options: &Options) -> Result<Imported, ImportError> {
    import_parts(index, "made", options, |_, _| Ok(Cursor::new(shard)))
}

/// The index and the only shard of a sample model.
fn parts(name: &str) -> (Vec<u8>, Vec<u8>) {
    let read = |end: &str| fs::read(sample().join(format!("{name}.ckpt{end}"))).expect("the file is readable");
    (read(".index"), read(".data-00000-of-00001"))
}

fn options(name: &str) -> Options {
    let path = sample().join(format!("{name}.json"));
    Options::new(Some(path.as_path()).filter(|path| path.is_file()), None).expect("the description is valid")
}

#[test]
fn blocks_may_be_compressed_by_snappy() {
    for name in ["cudnn_lstm_2", "multi_mixed", "partitioned"] {
        let (index, shard) = parts(name);
        let mut pairs: Vec<Pair> = Vec::new();
        checkpoint::table::read(&index, |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            Ok(())
        })
        .unwrap();
        let bytes = |model: Canonical| model.to_bytes().unwrap();
        let plain = bytes(from_parts(&index, &shard, &options(name)).unwrap().model);
        for (per_block, snappy) in [(1, false), (1, true), (5, true), (1000, true)] {
            let again = table(&pairs, per_block, snappy);
            assert_eq!(bytes(from_parts(&again, &shard, &options(name)).unwrap().model), plain, "{name}");
        }
    }
}

#[test]
fn a_missing_name_is_refused_with_the_nearest() {
    let (index, shard) = parts("lstm");
    let wrong = r#"{"inputs": [{"name": "x", "size": 3}], "layers": [{"name": "rnn", "class": "LSTMCell", "prefix": "rnn/lstm_cells"}],
        "unused": ["rnn"]}"#;
    let error = from_parts(&index, &shard, &arch(wrong)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"rnn/lstm_cells/kernel\" is missing; the nearest are rnn/lstm_cell/kernel"), "{text}");
    assert!(error.advice().contains("--arch"), "{}", error.advice());
}

#[test]
fn a_checkpoint_with_ambiguous_names_yields_a_draft_description() {
    for name in ["lstm", "multi_mixed", "classifier", "layers_apart", "bidirectional_stack"] {
        let (index, shard) = parts(name);
        let text = from_parts(&index, &shard, &Options::default()).unwrap_err().to_string();
        assert!(text.contains("its names do not determine the arguments of its layers"), "{text}");
        let draft = &text[text.find('{').expect("the error has a description")..];
        let draft = Options { window: name.starts_with("bi").then_some(4), ..arch(draft) };
        from_parts(&index, &shard, &draft).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let (index, shard) = parts("cudnn_lstm_classifier_bidirectional");
    let text = from_parts(&index, &shard, &Options::default()).unwrap_err().to_string();
    let draft = &text[text.find('{').expect("the error has a description")..];
    let with_window = Options { window: Some(5), ..arch(draft) };
    from_parts(&index, &shard, &with_window).expect("the description is complete");
}

#[test]
fn the_draft_description_contains_the_layers_around_the_cells() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/tf1_checkpoint_contrib");
    for (name, cells) in [
        ("conv_gru", &["window", "conv", "scale", "gru"][..]),
        ("separable_conv", &["window", "depthwise_conv", "conv", "gru"]),
        ("embedding", &["embedding", "lstm", "dense"]),
        ("raw_variables", &["lstm", "dense"]),
        ("contrib_layers", &["gru", "scale", "dense", "dense"]),
        ("layer_normalization", &["gru", "layer_norm", "layer_norm"]),
    ] {
        let index = folder.join(format!("{name}.ckpt"));
        let text = import_with(&index, &Options::default()).unwrap_err().to_string();
        let draft = &text[text.find('{').expect("the error has a description")..];
        let Imported { model, .. } =
            import_with(&index, &arch(draft)).unwrap_or_else(|error| panic!("{name}: {error}: {draft}"));
        let found: Vec<&str> = model.architecture.nodes.iter().map(|node| node.cell.as_str()).collect();
        assert_eq!(found, cells, "{draft}");
    }
}

#[test]
fn the_order_of_a_partitioned_table_must_be_given() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/tf1_checkpoint_contrib");
    let model = folder.join("embedding_partitioned.ckpt");
    let said = fs::read_to_string(folder.join("embedding_partitioned.json")).expect("the file is readable");
    import_with(&model, &arch(&said)).expect("the description gives the order");
    let mut silent: Description = serde_json::from_str(&said).expect("the description is valid");
    silent.layers[0].args.clear();
    let error = import_with(&model, &Options { description: Some(silent), ..Options::default() }).unwrap_err();
    assert!(error.to_string().contains("layer \"words\" looks up rows of \"table\", which is partitioned"), "{error}");
    assert!(error.advice().contains("partition_strategy"), "{}", error.advice());
}

#[test]
fn a_tensor_named_in_the_description_must_exist_and_fit() {
    let variables: [(&str, &[u64], &[f32]); 3] =
        [("W", &[2, 3], &[0.5; 6]), ("b", &[3], &[0.25; 3]), ("out/kernel", &[2, 3], &[0.5; 6])];
    let (index, shard) = written(&variables, false);
    let with = |tensors: &str, unused: &str| {
        let json = format!(
            r#"{{"inputs": [{{"name": "x", "size": 2}}], "layers": [{{"name": "out", "class": "Dense", "tensors": {tensors}}}],
                "unused": {unused}}}"#
        );
        from_parts(&index, &shard, &arch(&json)).map(|imported| imported.model.architecture.nodes.len())
    };
    assert_eq!(with(r#"{"kernel": "W", "bias": "b"}"#, r#"["out"]"#).unwrap(), 1);
    for (tensors, unused, expected) in [
        (r#"{"kernel": "V", "bias": "b"}"#, r#"["out", "W"]"#, "tensor \"V\" is missing; the nearest are W, b"),
        (r#"{"kernel": "b", "bias": "b"}"#, r#"["W"]"#, "tensor \"kernel\" of layer \"out\" is within its prefix too"),
        (r#"{"kernel": "b", "bias": "b"}"#, r#"["*"]"#, "kernel is 3, but it must be a matrix"),
        (r#"{"kernel": "W"}"#, r#"["*"]"#, "tensor \"out/bias\" is missing"),
        ("{}", r#"["*"]"#, "list \"unused\" has tensor \"out/kernel\", which the layer needs"),
        (r#"{"kernel": "W", "bias": "b", "gain": "b"}"#, r#"["*"]"#, "tensor \"gain\" of Dense is not supported"),
        (r#"{"kernel": "W"}"#, r#"["out"]"#, "layers do not use tensor \"b\""),
    ] {
        let text = with(tensors, unused).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}, not {expected}");
    }
}

/// The prefix of a cell with one unit over one feature.
const CUDNN: &str = "cudnn_lstm/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell";

#[test]
fn claims_of_an_index_are_not_trusted() {
    let kernel = format!("{CUDNN}/kernel");
    let bias = format!("{CUDNN}/bias");
    let good: [(&str, &[u64], &[f32]); 2] = [(&bias, &[4], &[0.5; 4]), (&kernel, &[2, 4], &[0.25; 8])];
    let (index, shard) = written(&good, true);
    from_parts(&index, &shard, &Options::default()).expect("the checkpoint is valid");
    let values = |len: usize| vec![0; len];
    let crc = |len: usize| crc32c::crc32c(&vec![0; len]);
    let whole = Entry { dtype: 1, dims: vec![2, 4], size: 32, crc: crc(32), ..Entry::default() };
    let refused = |entry: Entry, expected: &str| {
        let pairs = [header(1), (kernel.clone().into_bytes(), entry.encode())];
        let error = from_parts(&table(&pairs, 4, false), &values(32), &Options::default()).unwrap_err();
        assert_line(&error);
        assert!(error.to_string().contains(expected), "{error}, not {expected}");
    };
    refused(Entry { size: 36, ..whole.clone() }, "is 2 x 4, which does not make 36 bytes");
    refused(Entry { dims: vec![1 << 40, 1 << 40], ..whole.clone() }, "more values than can be counted");
    refused(Entry { dims: vec![1 << 38], size: 1 << 40, ..whole.clone() }, "of shard 0, which has 32");
    refused(Entry { offset: 4, ..whole.clone() }, "has 32 bytes at byte 4 of shard 0, which has 32");
    refused(Entry { offset: u64::MAX, ..whole.clone() }, "its place is negative");
    refused(Entry { dims: vec![u64::MAX], ..whole.clone() }, "a dimension is not known");
    refused(Entry { dims: vec![1; 9], ..whole.clone() }, "it has 9 dimensions");
    refused(Entry { shard: 1, ..whole.clone() }, "it has 1 shards, but names shard 1");
    refused(Entry { crc: 1, ..whole.clone() }, "the checksum of");
    refused(Entry { slices: vec![vec![(0, 2), (0, 4)]], ..whole.clone() }, "a slice of the partitioned variable");
    refused(
        Entry { slices: vec![vec![(0, 2), (0, 3)]], ..whole.clone() },
        "its slices do not cover the whole variable",
    );
    refused(Entry { slices: vec![vec![(0, 2), (0, 5)]], ..whole.clone() }, "a slice exceeds its shape");
    refused(
        Entry { slices: vec![vec![(0, 2), (0, 4)]; 257], ..whole.clone() },
        "it has more than 256 slices of a variable",
    );
    // Every variable of this bomb shares the same bytes of the shard.
    let entry = whole.encode();
    let mut pairs: Vec<Pair> = (0..1000).map(|k| (format!("v{k:04}").into_bytes(), entry.clone())).collect();
    pairs.insert(0, header(1));
    let error = from_parts(&table(&pairs, 50, true), &values(32), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("overlaps another variable"), "{error}");
    // Names that share a prefix take more memory than file.
    let long = "x".repeat(4000);
    let mut pairs: Vec<Pair> = (0..2000).map(|k| (format!("{long}{k:04}").into_bytes(), entry.clone())).collect();
    pairs.insert(0, header(1));
    let error = from_parts(&table(&pairs, 50, true), &values(32), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("bytes of names"), "{error}");
    let pairs = [header(300)];
    let error = from_parts(&table(&pairs, 4, true), &[], &Options::default()).unwrap_err();
    assert!(error.to_string().contains("300 shards"), "{error}");
}

/// The checksums are correct, so that each table has only the tested defect.
#[test]
fn a_hostile_table_is_refused() {
    let good = block(&[header(1)]);
    let refused = |blocks: &[(u8, Vec<u8>)], listed: &dyn Fn(&[Place], Place) -> Vec<Place>, expected: &str| {
        let error = from_parts(&by_hand(blocks, listed), &[], &Options::default()).unwrap_err();
        assert_line(&error);
        assert!(error.to_string().contains(expected), "{error}, not {expected}");
    };
    let as_they_are = |places: &[Place], _: Place| places.to_vec();
    let pairs = [header(1), (b"v".to_vec(), Entry { dtype: 1, ..Entry::default() }.encode())];
    refused(&[(0, block(&pairs))], &as_they_are, "which does not make 0 bytes");
    // Circular handles: the index refers to itself, or repeatedly to one block.
    refused(&[(0, good.clone())], &|_, own| vec![own], "an entry of its index is damaged");
    refused(&[(0, good.clone())], &|places, own| vec![places[0], own, own], "is damaged");
    refused(&[(0, good.clone())], &|places, _| vec![places[0]; 200], "names a block at byte 0 twice");
    refused(&[(0, good.clone()), (0, good.clone())], &|places, _| vec![places[1], places[0]], "twice");
    refused(&[(0, good.clone()), (0, good.clone())], &as_they_are, "the keys of its index are not in order");
    // Impossible sizes.
    for place in [(u64::MAX, 9), (0, u64::MAX), (u64::MAX, u64::MAX), (1 << 40, 1 << 40), (0, 1 << 30)] {
        refused(&[(0, good.clone())], &|_, _| vec![place], "it is cut off, or not an index");
    }
    refused(&[(7, good.clone())], &as_they_are, "has compression 7");
    refused(&[(0, vec![0; 3])], &as_they_are, "more restarts than bytes");
    refused(&[(0, vec![0xff; 4])], &as_they_are, "more restarts than bytes");
    let entry = |head: &[u8]| [head, &[0; 4], &1_u32.to_le_bytes()].concat();
    refused(&[(0, entry(&[9, 0, 0]))], &as_they_are, "a key of its index shares 9 bytes with the previous key");
    refused(&[(0, entry(&[0, 0xff, 0x7f, 0]))], &as_they_are, "and has 16383 more");
    let endless = [&[0, 0][..], &[0xff; 9], &[1]].concat();
    refused(
        &[(0, entry(&endless))],
        &as_they_are,
        "an entry of its index needs 18446744073709551615 bytes, 0 are left",
    );
    refused(&[(0, entry(&[0xff; 11]))], &as_they_are, "is cut off or longer than 64 bits");
    // Snappy bombs: the claimed size, and the actual size.
    let claims = |len: u64| [&length(len)[..], &[0; 6]].concat();
    for len in [1 << 31, (1 << 32) - 1, 4 << 20, 1000] {
        refused(&[(1, claims(len))], &as_they_are, &format!("claims {len} bytes"));
    }
    refused(&[(1, claims(1 << 40))], &as_they_are, "the block at byte 0 of its index: snappy");
    refused(&[(1, claims(100))], &as_they_are, "the block at byte 0 of its index: snappy");
    let bomb = snap::raw::Encoder::new().compress_vec(&vec![0; (4 << 20) + 1]).unwrap();
    refused(&[(1, bomb)], &as_they_are, "claims 4194305 bytes");
    // Any number of large blocks is allowed, since only one is in memory at a time; these are refused only for their
    // keys.
    let largest = snap::raw::Encoder::new().compress_vec(&vec![0; 4 << 20]).unwrap();
    refused(&vec![(1, largest); 100], &as_they_are, "the keys of its index are not in order");
}

#[test]
fn variables_that_are_not_weights_are_skipped_by_name() {
    let (kernel, bias) = (format!("{CUDNN}/kernel"), format!("{CUDNN}/bias"));
    let slot = format!("{CUDNN}/kernel/Adam_1");
    let variables: [(&str, &[u64], &[f32]); 4] = [
        (&bias, &[4], &[0.5; 4]),
        (&kernel, &[2, 4], &[0.25; 8]),
        (&slot, &[2, 4], &[0.25; 8]),
        ("train/beta1_power_1", &[], &[0.9]),
    ];
    let (index, shard) = written(&variables, false);
    let Imported { model, notes, .. } = from_parts(&index, &shard, &Options::default()).unwrap();
    assert_eq!(model.architecture.nodes.len(), 1);
    assert_eq!(notes[0], "not used: 2 variables of an optimizer (Adam_1, beta1_power_1)");
    assert_eq!(notes[1], "found from the names: CudnnLSTM of 1 layers forward");
}

#[test]
fn a_dense_layer_behind_the_cells_is_recognized_by_its_names() {
    let (kernel, bias) = (format!("{CUDNN}/kernel"), format!("{CUDNN}/bias"));
    let variables: [(&str, &[u64], &[f32]); 4] = [
        (&bias, &[4], &[0.5; 4]),
        (&kernel, &[2, 4], &[0.25; 8]),
        ("logits/bias", &[3], &[0.5; 3]),
        ("logits/kernel", &[1, 3], &[1.0, 2.0, 3.0]),
    ];
    let (index, shard) = written(&variables, false);
    let Imported { model, notes, .. } = from_parts(&index, &shard, &Options::default()).unwrap();
    let cells: Vec<&str> = model.architecture.nodes.iter().map(|node| node.cell.as_str()).collect();
    assert_eq!(cells, ["lstm", "dense"]);
    assert!(notes[0].ends_with("-> logits Dense, no activation behind"), "{notes:?}");
    // The importer does not guess a layer that does not fit.
    let mut variables = variables;
    variables[3] = ("logits/kernel", &[3, 3], &[1.0; 9]);
    let (index, shard) = written(&variables, false);
    let error = from_parts(&index, &shard, &Options::default()).unwrap_err();
    assert!(matches!(error, ImportError::NeedsArchitecture { .. }), "{error}");
}

#[test]
fn damaged_checkpoints_never_panic() {
    for name in ["cudnn_gru_2", "partitioned", "multi_mixed"] {
        let (index, shard) = parts(name);
        let options = options(name);
        for end in 0..index.len() {
            let error = from_parts(&index[..end], &shard, &options).expect_err("an index that is cut off is refused");
            assert_line(&error);
        }
        for end in 0..shard.len() {
            let error = from_parts(&index, &shard[..end], &options).expect_err("a shard that is cut off is refused");
            assert_line(&error);
        }
        for (at, bit) in (0..index.len()).flat_map(|at| [(at, 1_u8), (at, 0x80)]) {
            let mut bytes = index.clone();
            bytes[at] ^= bit;
            if let Err(error) = from_parts(&bytes, &shard, &options) {
                assert_line(&error);
            }
            // Mutations with recomputed checksums.
            let len = (bytes.len() as u16).to_le_bytes();
            import_checkpoint(&[&[flag::SEALED][..], &len, &bytes, &shard].concat());
        }
    }
}

fn corpus() -> Corpus {
    Corpus { target: "import_checkpoint", seeds: seeds() }
}

#[test]
fn the_corpus_of_import_checkpoint_passes() {
    corpus().passes(0, import_checkpoint);
}

/// Samples, and lists of variables from which checkpoints are generated.
fn seeds() -> BTreeMap<String, Vec<u8>> {
    let mut seeds = BTreeMap::new();
    for name in ["cudnn_lstm_1", "cudnn_gru_2"] {
        let (index, shard) = parts(name);
        for (kind, flags) in [("raw", flag::RAW), ("sealed", flag::SEALED)] {
            let len = (index.len() as u16).to_le_bytes();
            seeds.insert(format!("{name}_{kind}"), [&[flags][..], &len, &index, &shard].concat());
        }
    }
    let made = |flags: u8, variables: &[(&str, &[u8])]| {
        let mut bytes = vec![flag::MADE | flags];
        for (name, dims) in variables {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
            bytes.extend([1, dims.len() as u8]);
            bytes.extend(*dims);
            bytes.push(0x3e);
        }
        bytes
    };
    let (kernel, bias) = (format!("{CUDNN}/kernel"), format!("{CUDNN}/bias"));
    let cudnn: [(&str, &[u8]); 2] = [(&bias, &[8]), (&kernel, &[5, 8])];
    seeds.insert("made_cudnn".into(), made(flag::SNAPPY, &cudnn));
    let peepholes = ["w_f_diag", "w_i_diag", "w_o_diag"].map(|name| format!("rnn/{name}"));
    let mut lstm: Vec<(&str, &[u8])> = vec![("rnn/bias", &[8]), ("rnn/kernel", &[5, 8]), ("a/b", &[1])];
    lstm.extend(peepholes.iter().map(|name| (name.as_str(), &[2_u8][..])));
    seeds.insert("made_lstm".into(), made(flag::ARCH, &lstm));
    let gru: [(&str, &[u8]); 6] = [
        ("rnn/candidate/bias", &[2]),
        ("rnn/candidate/kernel", &[5, 2]),
        ("rnn/gates/bias", &[4]),
        ("rnn/gates/kernel", &[5, 4]),
        ("dense/bias", &[3]),
        ("dense/kernel", &[2, 3]),
    ];
    seeds.insert("made_gru".into(), made(flag::ARCH | 1 << 4, &gru));
    let conv: [(&str, &[u8]); 8] = [
        ("a/bias", &[4]),
        ("a/kernel", &[3, 3, 4]),
        ("b/beta", &[4]),
        ("b/gamma", &[4]),
        ("b/moving_mean", &[4]),
        ("b/moving_variance", &[4]),
        ("dense/bias", &[2]),
        ("dense/kernel", &[4, 2]),
    ];
    seeds.insert("made_conv".into(), made(flag::ARCH | 0x80, &conv));
    let image: [(&str, &[u8]); 6] = [
        ("a/bias", &[3]),
        ("a/kernel", &[2, 1, 2, 3]),
        ("rnn/candidate/bias", &[2]),
        ("rnn/candidate/kernel", &[5, 2]),
        ("rnn/gates/bias", &[4]),
        ("rnn/gates/kernel", &[5, 4]),
    ];
    seeds.insert("made_image".into(), made(flag::ARCH | 0x90, &image));
    let embedding: [(&str, &[u8]); 5] =
        [("W", &[5, 3]), ("a/b", &[3]), ("a/w", &[3, 3]), ("n/beta", &[3]), ("n/gamma", &[3])];
    seeds.insert("made_embedding".into(), made(flag::ARCH | 0xa0, &embedding));
    let separable: [(&str, &[u8]); 6] = [
        ("fully_connected/biases", &[2]),
        ("fully_connected/weights", &[3, 2]),
        ("l/gamma", &[3]),
        ("s/bias", &[3]),
        ("s/depthwise_kernel", &[2, 2, 2]),
        ("s/pointwise_kernel", &[1, 4, 3]),
    ];
    seeds.insert("made_separable".into(), made(flag::ARCH | 0xb0, &separable));
    seeds
}

#[test]
#[ignore = "records the digests of the seeds and writes the seeds to target/fuzz"]
fn regenerate() {
    corpus().regenerate();
}
