"""Writes a network as the files that the drivers read."""

import json
import logging
import struct
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from networks import EPSILON, GATES

# Indices of our gates in the order of ONNX: LSTM i o f g, GRU z r n.
ONNX_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}


def write(network, folder, tidegate):
    """Writes all files of a case. `tidegate` is the path of the command that packs images."""
    case = network.case
    folder.mkdir(parents=True, exist_ok=True)
    if case.file:
        return _write_deployed(network, folder, tidegate)
    fields = {
        "cell": case.cell, "input": case.input, "hidden": case.hidden, "batch": case.batch, "steps": case.time,
        "layers": case.layers, "directions": case.directions, "output": case.output, "stream": int(case.stream),
        "normed": int(case.normed), "masked": int(case.masked),
        "scale": float(np.abs(network.calibration).max()),
    }
    (folder / "case.txt").write_text("".join(f"{name} {value}\n" for name, value in fields.items()))
    network.x.astype("<f4").tofile(folder / "x.f32")
    if network.mask is not None:
        network.mask.astype("<f4").tofile(folder / "mask.f32")
    names = ("input_weights", "recurrent_weights", "input_bias", "recurrent_bias")
    flat = [side[name].ravel() for layer in network.layers for side in layer for name in names]
    np.concatenate(flat).astype("<f4").tofile(folder / "weights.f32")
    model = onnx_stream(network) if case.stream else onnx_normed(network) if case.normed else onnx_sequence(network)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    if case.stream:
        _write_ports(model, folder)
    if any(run == "onnxruntime int8" for run in case.runs):
        # ONNX Runtime's quantizer: one scale for a weight tensor or for each of its rows, activations scaled at run time.
        from onnxruntime.quantization import QuantType, quantize_dynamic

        # Its warning recommends a preprocessing step that would split the LSTM into small operators.
        logging.disable(logging.WARNING)
        for name, per_channel in (("model-int8", False), ("model-int8-rows", True)):
            quantize_dynamic(folder / "model.onnx", folder / f"{name}.onnx", weight_type=QuantType.QInt8, per_channel=per_channel)
    (folder / "model.safetensors").write_bytes(canonical(network))
    for numeric in sorted({run.split()[1].split("-")[0] for run in case.runs if run.startswith("tidegate")}):
        command = [tidegate, "pack", folder / "model.safetensors", "-o", folder / f"model-{numeric}.tgi", "--numeric", numeric]
        if numeric.startswith("i"):
            np.save(folder / "calibration.npy", network.calibration[:, 0])
            command += ["--calibrate", folder / "calibration.npy"]
        _run(command)


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0].name} {command[1]}: {done.stderr.strip()}")


def _write_deployed(network, folder, tidegate):
    case, model = network.case, onnx.load(network.path)
    fields = {"input": case.input, "batch": 1, "steps": case.time, "output": network.y.shape[-1], "stream": 1, "masked": 0}
    (folder / "case.txt").write_text("".join(f"{name} {value}\n" for name, value in fields.items()))
    network.x.astype("<f4").tofile(folder / "x.f32")
    onnx.save(model, folder / "model.onnx")
    _write_ports(model, folder)
    _run([tidegate, "pack", folder / "model.onnx", "-o", folder / "model-f32.tgi", "--numeric", "f32"])


def _write_ports(model, folder):
    """The ports of a graph of one step: the frame, an output that is not a state, and the states, which are in the same order
    among inputs and outputs. An open dimension is 1."""
    def said(port):
        return port.name, ",".join(str(dim.dim_value or 1) for dim in port.type.tensor_type.shape.dim)

    (frame, *before), after = map(said, model.graph.input), [said(port) for port in model.graph.output]
    lines = ["frame " + " ".join(frame)]
    if len(after) > len(before):
        lines.append("output " + " ".join(after.pop(0)))
    lines += [f"state {name} {next_name} {shape}" for (name, shape), (next_name, _) in zip(before, after, strict=True)]
    (folder / "ports.txt").write_text("\n".join(lines) + "\n")


# ONNX


def _const(name, array):
    return numpy_helper.from_array(np.ascontiguousarray(array, dtype=np.float32), name)


def _model(nodes, inputs, outputs, constants):
    port = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "case", [port(*i) for i in inputs], [port(*o) for o in outputs], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def _onnx_layer(network, layer, prefix):
    """Constants of one ONNX LSTM or GRU: W, R, B, for all directions."""
    case = network.case

    def ordered(rows):
        blocks = np.split(rows, GATES[case.cell])
        return np.concatenate([blocks[gate] for gate in ONNX_ORDER[case.cell]])

    w = np.stack([ordered(side["input_weights"]) for side in layer])
    r = np.stack([ordered(side["recurrent_weights"]) for side in layer])
    b = np.stack([np.concatenate([ordered(side["input_bias"]), ordered(side["recurrent_bias"])]) for side in layer])
    return [_const(prefix + "W", w), _const(prefix + "R", r), _const(prefix + "B", b)]


def _attributes(case):
    more = {"linear_before_reset": 1} if case.cell == "gru" else {}
    return {"hidden_size": case.hidden, "direction": "bidirectional" if case.bidirectional else "forward"} | more


def onnx_stream(network):
    """A graph of one step, with states as inputs and outputs."""
    case = network.case
    states = ["h", "c"][: 2 if case.cell == "lstm" else 1]
    node = helper.make_node(case.cell.upper(), ["x", "W", "R", "B", "", *(s + "0" for s in states)],
                            ["", *(s + "1" for s in states)], name="rnn", **_attributes(case))
    shape = [1, case.batch, case.hidden]
    return _model([node], [("x", [1, case.batch, case.input]), *((s + "0", shape) for s in states)],
                  [(s + "1", shape) for s in states], _onnx_layer(network, network.layers[0], ""))


def onnx_sequence(network):
    case = network.case
    nodes, constants, last = [], [numpy_helper.from_array(np.array([0, 0, -1]), "flat")], "x"
    if not case.bidirectional:
        constants = [numpy_helper.from_array(np.array([1]), "one")]
    for index, layer in enumerate(network.layers):
        prefix, out = f"l{index}", "y" if index + 1 == case.layers else f"y{index}"
        constants += _onnx_layer(network, layer, prefix)
        # The output is [time, directions, batch, hidden].
        nodes.append(helper.make_node(case.cell.upper(), [last, prefix + "W", prefix + "R", prefix + "B"],
                                      [prefix + "Y"], name=prefix, **_attributes(case)))
        if case.bidirectional:
            nodes.append(helper.make_node("Transpose", [prefix + "Y"], [prefix + "T"], perm=[0, 2, 1, 3]))
            nodes.append(helper.make_node("Reshape", [prefix + "T", "flat"], [out]))
        else:
            nodes.append(helper.make_node("Squeeze", [prefix + "Y", "one"], [out]))
        last = out
    return _model(nodes, [("x", [case.time, case.batch, case.input])], [("y", [case.time, case.batch, case.output])],
                  constants)


def onnx_normed(network):
    """A Scan over the steps, because no runtime's LSTM has layer normalization and masks. The input product comes before it."""
    case, t = network.case, network.layers[0][0]
    float_port = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    norm = lambda x, gain, bias, y: helper.make_node("LayerNormalization", [x, gain, bias], [y], axis=-1, epsilon=EPSILON)
    make = helper.make_node
    state = [case.batch, case.hidden]
    body = helper.make_graph(
        [
            make("MatMul", ["h", "R"], ["from_h"]),
            norm("from_h", "recurrent_gain", "zero", "normed_h"),
            make("Add", ["p", "normed_h"], ["sums"]),
            make("Split", ["sums"], ["i", "f", "g", "o"], axis=-1),
            make("Sigmoid", ["i"], ["si"]), make("Sigmoid", ["f"], ["sf"]), make("Sigmoid", ["o"], ["so"]),
            make("Tanh", ["g"], ["tg"]),
            make("Mul", ["sf", "c"], ["kept"]), make("Mul", ["si", "tg"], ["entered"]), make("Add", ["kept", "entered"], ["raw"]),
            norm("raw", "cell_gain", "cell_bias", "new_c"),
            make("Tanh", ["new_c"], ["tc"]), make("Mul", ["so", "tc"], ["new_h"]),
            make("Cast", ["m"], ["counts"], to=TensorProto.BOOL),
            make("Where", ["counts", "new_h", "h"], ["h_out"]), make("Where", ["counts", "new_c", "c"], ["c_out"]),
            make("Identity", ["h_out"], ["y_t"]),
        ],
        "step",
        [float_port("h", state), float_port("c", state), float_port("p", [case.batch, 4 * case.hidden]),
         float_port("m", [case.batch, 1])],
        [float_port("h_out", state), float_port("c_out", state), float_port("y_t", state)],
    )
    nodes = [
        make("MatMul", ["x", "W"], ["from_x"]),
        norm("from_x", "input_gain", "bias", "projected"),
        make("Scan", ["start", "start", "projected", "mask"], ["h_end", "c_end", "y"], body=body, num_scan_inputs=2),
    ]
    constants = [
        _const("W", t["input_weights"].T), _const("R", t["recurrent_weights"].T), _const("input_gain", t["input_gain"]),
        _const("bias", t["input_bias"] + t["recurrent_bias"]), _const("recurrent_gain", t["recurrent_gain"]),
        _const("zero", np.zeros(4 * case.hidden)), _const("cell_gain", t["cell_gain"]), _const("cell_bias", t["cell_bias"]),
        _const("start", np.zeros(state)),
    ]
    return _model(nodes, [("x", [case.time, case.batch, case.input]), ("mask", [case.time, case.batch, 1])],
                  [("y", [case.time, case.batch, case.hidden])], constants)


# Tidegate's canonical model: safetensors with the architecture in its metadata.


def canonical(network):
    case = network.case
    nodes, tensors, sources, features = [], {}, ["input"], case.input
    if case.bidirectional:
        nodes.append({"name": "window", "cell": "window", "inputs": ["input"], "input_size": case.input,
                      "hidden_size": case.input * case.time, "output_size": case.input * case.time,
                      "extents": {"length": case.time, "hop": case.time}})
        sources = ["window"]
    for index, layer in enumerate(network.layers):
        names = []
        for direction, side in enumerate(layer):
            name = f"{case.cell}_{index}_{direction}"
            node = {"name": name, "cell": case.cell, "inputs": sources, "input_size": features + int(case.masked),
                    "hidden_size": case.hidden, "output_size": case.hidden}
            options = (["reset_after"] if case.cell == "gru" else []) + (["masked"] if case.masked else [])
            if case.normed:
                options += ["joint_norm", "cell_norm"]
                node["params"] = {"epsilon": EPSILON}
            if options:
                node["options"] = options
            if case.bidirectional:
                node["unroll"] = {"steps": case.time, "read_backwards": direction == 1, "write_backwards": direction == 1}
            nodes.append(node)
            names.append(name)
            for tensor, value in side.items():
                if tensor == "input_weights" and case.masked:
                    # The mask is an additional feature, with zero weights for all gates.
                    value = np.pad(value, ((0, 0), (0, 1)))
                tensors[f"{name}.{tensor}"] = value
        sources, features = names, case.output
    last = sources[0]
    if case.bidirectional:
        last = "both"
        nodes.append({"name": last, "cell": "identity", "inputs": sources, "input_size": features, "hidden_size": features,
                      "output_size": features, "unroll": {"steps": case.time}})
    size = case.output * (case.time if case.bidirectional else 1)
    architecture = {"version": 1, "source": f"tools/compare {case.name}",
                    "inputs": [{"name": "input", "size": case.input + int(case.masked)}], "nodes": nodes,
                    "outputs": [{"name": "output", "size": size, "from": last}]}
    header, data = {"__metadata__": {"tidegate": json.dumps(architecture)}}, b""
    for name in sorted(tensors):
        value = np.ascontiguousarray(tensors[name], dtype="<f4")
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data
