"""Writes the models in tests/frameworks/onnx that Keras 3 exports through tf2onnx, with the outputs of ONNX Runtime.

    pip install -r tests/frameworks/onnx_keras.requirements.txt
    python tests/frameworks/onnx_keras.py

tf2onnx writes a GRU and a simple recurrent layer as a `Loop` over the steps. The files of a case are those of
onnx_models.py. ONNX Runtime must agree with Keras within the tolerance.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx")
TOLERANCE = 1e-6
SEED = 1
STEPS, FEATURES = 7, 3
WORDS = 5
L = keras.layers


def chain(*layers, inputs=1):
    sources = [keras.Input((STEPS, FEATURES), name=f"x{k}" if inputs > 1 else "x") for k in range(inputs)]
    x = L.Concatenate()(sources) if inputs > 1 else sources[0]
    for layer in layers:
        x = layer(x)
    return keras.Model(sources if inputs > 1 else sources[0], x)


def words(*layers):
    """Keras declares the indices of words as floats."""
    x = source = keras.Input((STEPS,), name="x")
    for layer in layers:
        x = layer(x)
    return keras.Model(source, x)


def cases():
    """By name."""
    every = dict(return_sequences=True)
    return dict(
        gru=chain(L.GRU(4, **every), L.Dense(2)),
        gru_reset_before=chain(L.GRU(4, reset_after=False), L.Dense(2)),
        gru_other=chain(L.GRU(4, activation="softsign", recurrent_activation="hard_sigmoid", use_bias=False, **every)),
        rnn=chain(L.SimpleRNN(4, **every), L.SimpleRNN(3, activation="relu", **every)),
        bidirectional=chain(L.Bidirectional(L.GRU(3, **every)), L.Conv1D(2, 3), L.GlobalMaxPooling1D()),
        conv=chain(L.Conv1D(4, 3, strides=2, activation="relu"), L.GRU(4), L.Dense(2, activation="softmax")),
        lstm=chain(L.LSTM(4, **every), L.GRU(3, **every)),
        two=chain(L.GRU(4, **every), inputs=2),
        stacked=chain(L.RNN([L.GRUCell(4), L.SimpleRNNCell(3)], **every)),
        words=words(L.Embedding(WORDS, 4), L.GRU(4, **every), L.Dense(2)),
    )


def main():
    keras.utils.set_random_seed(SEED)
    rng = np.random.default_rng(SEED)
    for name, model in cases().items():
        drawn = [rng.normal(0, 1 / np.sqrt(w.shape[0]) if w.ndim > 1 else 0.4, w.shape) for w in model.get_weights()]
        model.set_weights([w.astype("f4") for w in drawn])
        given = {x.name: rng.normal(0, 1, (1, *x.shape[1:])).astype("f4") for x in model.inputs}
        if len(model.inputs[0].shape) == 2:
            given = {"x": rng.integers(0, WORDS, (1, STEPS)).astype("f4")}
        values = list(given.values())
        y = np.array(model(values if len(values) > 1 else values[0]))
        path = os.path.join(FOLDER, f"keras_{name}.onnx")
        model.export(path, format="onnx", verbose=False)
        # The documentation of the operators takes most of the file.
        exported = onnx.load(path)
        for node in exported.graph.node:
            node.doc_string = ""
        onnx.save(exported, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        output = session.get_outputs()[0].name
        there = session.run([output], given)[0]
        assert np.abs(there - y).max() <= TOLERANCE, name
        save_file(given, path.replace(".onnx", ".in.safetensors"))
        source = f"Keras {keras.__version__}, {exported.producer_name} {exported.producer_version}".strip()
        save_file({output: y}, path.replace(".onnx", ".out.safetensors"), {"tolerance": str(TOLERANCE), "source": source})
        loops = sum(node.op_type == "Loop" for node in exported.graph.node)
        print(name, os.path.getsize(path), y.shape, f"{loops} loops")


main()
