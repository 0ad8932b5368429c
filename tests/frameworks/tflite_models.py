"""Writes TFLite models and records the outputs of LiteRT's interpreter.

    pip install -r tests/frameworks/tflite.requirements.txt
    python tests/frameworks/tflite_models.py write                     the files in tests/frameworks/tflite
    python tests/frameworks/tflite_models.py check --seed 1 --count 20 --tidegate target/release/tidegate
    python tests/frameworks/tflite_models.py check --only integer_conv --seed 2 --count 100 --tidegate target/release/tidegate

A case is NAME.tflite beside NAME.in.safetensors and NAME.out.safetensors: `input` is [sequences, steps, features] and
`output` [sequences, rows, classes]; for an integer model both are TFLite's integers. Each sequence starts from reset
variables. `write` records the micro_speech model on 20 seeded inputs, and a sample of random networks that TensorFlow's
converter makes from Keras LSTMs and convolutions, with weights, inputs and calibration from a seed. `check` generates
other networks and runs each through `tidegate run`: integers must be bit-identical, and floats within 1e-5, relative to
the largest value if that exceeds 1.

The interpreter runs the reference kernels (`BUILTIN_REF`), without delegates. Since LiteRT 1.3, `FULLY_CONNECTED` rounds
once; before, it rounded twice. `integer_dense` has enough values to tell.
"""

import argparse
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf
import tf_keras as keras
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from safetensors.numpy import load_file, save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tflite")
TOLERANCE = 1e-5
SAMPLE_SEED = 9
MICRO_SPEECH_SEED, MICRO_SPEECH_INPUTS = 20, 20
SEQUENCES = 3

# By name: layers before the LSTM, output of the LSTM, layers behind it, whether in integers.
SAMPLE = [
    ("integer_whole", dict(integer=True, head="whole")),
    ("integer_last", dict(integer=True, head="last")),
    ("integer_per_step", dict(integer=True, head="per_step")),
    ("integer_stacked", dict(integer=True, head="last", layers=2)),
    ("integer_float_ports", dict(integer=True, head="whole", float_ports=True)),
    ("integer_one_step", dict(integer=True, head="last", steps=1)),
    ("float_last", dict(integer=False, head="last")),
    ("float_per_step", dict(integer=False, head="per_step")),
    ("float_conv", dict(integer=False, head="whole", conv=True)),
    ("float_half", dict(integer=False, head="last", half=True)),
    ("integer_conv", dict(integer=True, head="whole", conv="alone")),
    ("integer_conv_groups", dict(integer=True, head="whole", conv="alone", groups=2)),
    ("integer_conv_before", dict(integer=True, head="last", conv="before")),
    ("integer_conv_behind", dict(integer=True, head="whole", conv="behind")),
    ("integer_conv_28x20", dict(integer=True, head="whole", conv="behind", steps=28, units=20)),
    ("integer_conv_49x80", dict(integer=True, head="last", conv="before", steps=49, features=80)),
    ("float_conv_alone", dict(integer=False, head="whole", conv="alone")),
    ("integer_dense", dict(integer=True, head="whole", conv="none", steps=4, features=16, classes=300, sequences=12)),
]


def convolved(rng, x, groups=1):
    """The rows as an image, a convolution over it, and a second convolution."""
    x = keras.layers.Reshape((x.shape[1], x.shape[2], 1))(x)
    for layer in range(2):
        kernel = [int(rng.integers(1, min(size, 4) + 1)) for size in x.shape[1:3]]
        # Strides reduce large images.
        strides = [int(rng.integers(1, 4)) if size < 20 else 4 for size in x.shape[1:3]]
        dilations = [1, 1]
        if rng.integers(3) == 0 and max(x.shape[1:3]) < 20:
            strides, dilations = [1, 1], [int(rng.integers(1, 4)) for _ in kernel]
        fits = all((k - 1) * d < size for k, d, size in zip(kernel, dilations, x.shape[1:3]))
        x = keras.layers.Conv2D(
            2 * int(rng.integers(1, 5)) if groups > 1 else int(rng.integers(1, 10)),
            kernel,
            strides=strides,
            dilation_rate=dilations,
            padding="valid" if fits and rng.integers(2) else "same",
            activation=[None, "relu", "relu6"][rng.integers(3)],
            use_bias=bool(rng.integers(4)),
            groups=groups if layer else 1,
        )(x)
    x = keras.layers.Reshape((x.shape[1], x.shape[2] * x.shape[3]))(x)
    # Behind a reshape, an activation is a separate operator.
    return [x, keras.layers.ReLU()(x), keras.layers.ReLU(6.0)(x)][rng.integers(3)]


def network(rng, head, steps, features, units, classes, layers=1, conv=False, relu=False, groups=1):
    x = inputs = keras.Input((steps, features), batch_size=1)
    if conv in ("alone", "before"):
        x = convolved(rng, x, groups)
    if conv is True:
        x = keras.layers.Reshape((steps, features, 1))(x)
        x = keras.layers.Conv2D(4, (3, 2), strides=(2, 1), padding="same", activation="relu")(x)
        x = keras.layers.Reshape((x.shape[1], x.shape[2] * x.shape[3]))(x)
    for layer in range(0 if conv in ("alone", "none") else layers):
        x = keras.layers.LSTM(units, return_sequences=layer + 1 < layers or head != "last")(x)
    if conv == "behind":
        x = convolved(rng, x, groups)
    if head == "whole":
        x = keras.layers.Flatten()(x)
    if relu:
        x = keras.layers.Dense(classes + 1, activation="relu")(x)
    # A softmax would hide differences of small values.
    shown = isinstance(conv, str) or head == "per_step"
    x = keras.layers.Dense(classes, activation=None if shown else "softmax")(x)
    model = keras.Model(inputs, x)
    fan = lambda shape: np.prod(shape[:-1]) if isinstance(conv, str) and len(shape) == 4 else shape[0]
    draw = lambda shape: rng.normal(0, 1.5 / np.sqrt(max(fan(shape), 4)), shape).astype("f4")
    model.set_weights([draw(w.shape) for w in model.get_weights()])
    return model


def converted(rng, integer, head, float_ports=False, half=False, steps=None, sequences=SEQUENCES, **more):
    steps = steps or int(rng.integers(2, 9))
    shape = dict(features=int(rng.integers(2, 20)), units=int(rng.integers(2, 25)), classes=int(rng.integers(2, 6)))
    shape.update({name: more.pop(name) for name in list(shape) if name in more})
    model = network(rng, head, steps, relu=bool(rng.integers(2)), **shape, **more)
    scale, middle = rng.uniform(0.2, 4), rng.uniform(-1, 1)
    draw = lambda count: rng.normal(middle, scale, (count, steps, shape["features"])).astype("f4")
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if integer or half:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if half:
        converter.target_spec.supported_types = [tf.float16]
    if integer:
        seen = draw(40)
        converter.representative_dataset = lambda: ([row[None]] for row in seen)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        if not float_ports:
            converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert(), draw(sequences)


def interpreter(content):
    made = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    made.allocate_tensors()
    return made


def quantized(values, detail):
    scale, zero_point = detail["quantization"]
    if detail["dtype"] != np.int8:
        return values
    return np.clip(np.round(values / np.float32(scale)) + zero_point, -128, 127).astype(np.int8)


def outputs(made, inputs):
    """The outputs of each sequence alone: [sequences, rows, classes]."""
    source, target = made.get_input_details()[0], made.get_output_details()[0]
    rows = []
    for sequence in inputs:
        made.reset_all_variables()
        made.set_tensor(source["index"], sequence[None])
        made.invoke()
        rows.append(made.get_tensor(target["index"])[0])
    rows = np.array(rows)
    return rows.reshape(len(rows), -1, rows.shape[-1])


def case(rng, options):
    content, inputs = converted(rng, **options)
    made = interpreter(content)
    inputs = quantized(inputs, made.get_input_details()[0])
    return content, made, inputs, outputs(made, inputs)


def save(name, content, inputs, given):
    with open(os.path.join(FOLDER, f"{name}.tflite"), "wb") as file:
        file.write(content)
    save_file({"input": np.ascontiguousarray(inputs)}, os.path.join(FOLDER, f"{name}.in.safetensors"))
    save_file({"output": np.ascontiguousarray(given)}, os.path.join(FOLDER, f"{name}.out.safetensors"))


def write():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "micro_speech_lstm.tflite"), "rb") as file:
        content = file.read()
    made = interpreter(content)
    shape = tuple(made.get_input_details()[0]["shape"][1:])
    rng = np.random.default_rng(MICRO_SPEECH_SEED)
    # Spectra of all loudness levels, with most bins far below the loudest.
    loudness = rng.uniform(0.1, 1.0, (MICRO_SPEECH_INPUTS, 1, 1))
    inputs = np.clip(rng.exponential(40, (MICRO_SPEECH_INPUTS, *shape)) * loudness - 128, -128, 127).astype(np.int8)
    save("micro_speech_lstm", content, inputs, outputs(made, inputs))
    for index, (name, options) in enumerate(SAMPLE):
        content, _, inputs, given = case(np.random.default_rng([SAMPLE_SEED, index]), options)
        save(name, content, inputs, given)
        print(name, len(content), inputs.shape, given.shape)


def run(tidegate, content, made, inputs, count, at_once):
    """The outputs of `tidegate run` for the same inputs, as real values."""
    source = made.get_input_details()[0]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model, there, back = (os.path.join(folder, name) for name in ("x.tflite", "in.npy", "out.npy"))
        with open(model, "wb") as file:
            file.write(content)
        for sequence in inputs:
            scale, zero_point = source["quantization"]
            real = sequence.astype("f4")
            if source["dtype"] == np.int8:
                real = (real - zero_point) * np.float32(scale)
            np.save(there, real.reshape(1, -1) if at_once else real)
            subprocess.run([tidegate, "run", model, "--input", there, "--output", back], check=True)
            # As one endless run: TFLite's output at the end of a sequence is available at every step.
            rows.append(np.load(back)[-count:])
    return np.array(rows)


def check(seed, count, tidegate, only):
    worst, values = 0.0, 0
    sample = [of for of in SAMPLE if of[0].startswith(only)]
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        name, options = sample[index % len(sample)]
        content, made, inputs, given = case(rng, options)
        target = made.get_output_details()[0]
        # Without an LSTM there are no steps.
        got = run(tidegate, content, made, inputs, given.shape[1], options.get("conv") in ("alone", "none"))
        values += given.size
        if target["dtype"] == np.int8:
            scale, zero_point = target["quantization"]
            given = (given.astype("f4") - zero_point) * np.float32(scale)
        if options["integer"]:
            if not np.array_equal(got, given):
                sys.exit(f"seed {seed}, {index} ({name}): {np.sum(got != given)} of {got.size} differ")
            continue
        off = np.abs(got - given).max() / max(1.0, np.abs(given).max())
        worst = max(worst, off)
        if off > TOLERANCE:
            sys.exit(f"seed {seed}, {index} ({name}): off by {off:e}")
    print(f"{count} models of seed {seed}, {values} values: integers the same, floats within {worst:.1e}")


parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command", required=True)
commands.add_parser("write")
checked = commands.add_parser("check")
checked.add_argument("--seed", type=int, default=1)
checked.add_argument("--count", type=int, default=20)
checked.add_argument("--only", default="", help="only models whose names begin with this")
checked.add_argument("--tidegate", required=True)
given = parser.parse_args()
if given.command == "write":
    write()
else:
    check(given.seed, given.count, given.tidegate, given.only)
