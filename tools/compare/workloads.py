"""The workloads, the runtimes for each, and the bars for Tidegate. Data only."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Case:
    """A network and its input of `time` steps. A call is a step of a stream, or the whole batch of sequences."""

    name: str
    row: str
    cell: str = "lstm"
    input: int = 64
    hidden: int = 64
    batch: int = 1
    time: int = 64
    layers: int = 1
    bidirectional: bool = False
    normed: bool = False
    masked: bool = False
    stream: bool = False
    pixels: bool = False
    # A network from its authors: its ONNX file, and the tensors of `deployed/reference.safetensors` that it reads and writes.
    file: str = ""
    tensors: tuple = ()
    runs: tuple = ()

    @property
    def directions(self):
        return 2 if self.bidirectional else 1

    @property
    def output(self):
        return self.hidden * self.directions


@dataclass(frozen=True)
class Bar:
    """In the case `case`, `ours` must be at least `factor` times as fast as the fastest of `against`."""

    row: str
    case: str
    ours: str
    against: tuple
    factor: float
    # Whether `factor` is the most that the ratio of our time to theirs may be.
    at_most: bool = False
    # Whether the error must also be below that of all others.
    more_exact: bool = False


OURS = ("tidegate f32", "tidegate f16", "tidegate i8x16")
RTNEURAL = ("rtneural", "rtneural xsimd")
STREAM_PEERS = ("onnxruntime", "tract", *RTNEURAL)
SIZES = (16, 32, 64, 128, 256, 512)
ROW_OF = {16: "S1", 32: "S1", 64: "S2", 128: "S2", 256: "S3", 512: "S3"}


def _streams(cell):
    for size in SIZES:
        row = ROW_OF[size] if cell == "lstm" else "S4"
        yield Case(f"stream-{cell}-{size}", row, cell, size, size, stream=True, runs=OURS + STREAM_PEERS)


_W2 = Case("w2", "W2", input=256, hidden=126, batch=64, time=1000)


def _deployed(name, row, folder, file, input, tensors):
    return Case(name, row, input=input, time=300, stream=True, file=f"{folder}/{file}", tensors=tensors,
                runs=("tidegate f32", "onnxruntime", "tract"))


_DEPLOYED = (
    _deployed("dtln-1", "D1", "dtln", "model_1.onnx", 257, ("dtln/mag", "dtln/mask")),
    _deployed("dtln-2", "D1", "dtln", "model_2.onnx", 512, ("dtln/block_in", "dtln/block_out")),
    _deployed("gtcrn", "D2", "gtcrn", "gtcrn_simple.onnx", 514, ("gtcrn/mix", "gtcrn/enh")),
)
_INT8_PEERS = ("onednn int8", "onnxruntime int8", "onnxruntime int8-rows")
_INT8 = ("tidegate i8x16", *_INT8_PEERS)

_NATIVE = (
    *_streams("lstm"),
    *_streams("gru"),
    Case("w1", "W1", input=512, hidden=512, time=70, runs=OURS + ("onnxruntime", "openvino", "onednn", "tract")),
    replace(_W2, runs=("tidegate f32", "tidegate f32-2threads", "onnxruntime", "openvino", "onednn", "tract")),
    replace(_W2, name="w2-normed", row="W2n", normed=True, masked=True, runs=("tidegate f32", "onnxruntime", "openvino")),
    Case("w3", "W3", input=28, hidden=32, batch=128, time=28, pixels=True,
         runs=("tidegate f32", "onnxruntime", "openvino", "onednn", "tract")),
    Case("w6", "W6", input=80, hidden=256, batch=8, time=200, layers=2, bidirectional=True,
         runs=("tidegate f32", "onnxruntime", "openvino", "onednn", "tract")),
    *(Case(f"w7-{size}", "W7", input=size, hidden=size, stream=True, runs=_INT8) for size in (64, 128, 256)),
    *_DEPLOYED,
)

# The small cases of `--quick`, one of each kind. They have no bars.
_QUICK = (
    Case("quick-lstm", "S2", input=64, hidden=64, stream=True, runs=OURS + STREAM_PEERS),
    Case("quick-gru", "S4", "gru", input=64, hidden=64, stream=True, runs=OURS + STREAM_PEERS),
    Case("quick-w1", "W1", input=64, hidden=64, time=20, runs=OURS + ("onnxruntime", "openvino", "onednn", "tract")),
    Case("quick-w2", "W2", input=32, hidden=30, batch=8, time=50,
         runs=("tidegate f32", "tidegate f32-2threads", "onnxruntime", "openvino", "onednn", "tract")),
    Case("quick-w2-normed", "W2n", input=32, hidden=30, batch=8, time=50, normed=True, masked=True,
         runs=("tidegate f32", "onnxruntime", "openvino")),
    Case("quick-w3", "W3", input=28, hidden=32, batch=16, time=28, pixels=True,
         runs=("tidegate f32", "onnxruntime", "openvino", "onednn", "tract")),
    Case("quick-w6", "W6", input=20, hidden=24, batch=4, time=20, layers=2, bidirectional=True,
         runs=("tidegate f32", "onnxruntime", "openvino", "onednn", "tract")),
    Case("quick-w7", "W7", input=64, hidden=64, stream=True, runs=_INT8),
)


# The cases of each `--isa`. Where other runtimes are held to an instruction set, the floor of the core is measured too.
def _held(cases):
    held = (case if case.file else replace(case, runs=(*case.runs, "floor")) for case in cases)
    return {"native": cases, "avx2": tuple(held)}


CASES, QUICK = _held(_NATIVE), _held(_QUICK)


def _stream_bars():
    against = {"S1": RTNEURAL, "S2": (*RTNEURAL, "tract", "onnxruntime"), "S3": (*RTNEURAL, "onnxruntime")}
    f32 = {16: 1.5, 32: 1.1, 64: 1.0, 128: 1.0, 256: 1.2, 512: 1.0}
    f16, i8x16 = {"S2": 1.5, "S3": 1.7}, {"S2": 2.0, "S3": 3.0}
    for cell in ("lstm", "gru"):
        for size in SIZES:
            like = ROW_OF[size]
            row, case = like if cell == "lstm" else "S4", f"stream-{cell}-{size}"
            yield Bar(row, case, "tidegate f32", against[like], f32[size])
            if like in f16:
                yield Bar(row, case, "tidegate f16", against[like], f16[like])
                yield Bar(row, case, "tidegate i8x16", against[like], i8x16[like])


# Our time a frame is at most 0.7 of theirs.
_DEPLOYED_BARS = tuple(Bar(case.row, case.name, "tidegate f32", case.runs[1:], round(1 / 0.7, 3)) for case in _DEPLOYED)

_NATIVE_BARS = (
    *_stream_bars(),
    Bar("W1", "w1", "tidegate f32", ("onnxruntime", "openvino"), 1.0),
    Bar("W1", "w1", "tidegate f16", ("onnxruntime", "openvino"), 1.7),
    Bar("W1", "w1", "tidegate i8x16", ("onnxruntime", "openvino"), 3.0),
    Bar("W2", "w2", "tidegate f32", ("openvino", "onednn"), 1.1),
    Bar("W2", "w2", "tidegate f32-2threads", ("tidegate f32",), 1.8),
    Bar("W2n", "w2-normed", "tidegate f32", ("openvino",), 1.5),
    # The bars against plain W2 and for loading are in `report.py`.
    Bar("W3", "w3", "tidegate f32", ("onednn", "openvino"), 1.2),
    Bar("W6", "w6", "tidegate f32", ("onnxruntime",), 1.2),
    Bar("W7", "w7-64", "tidegate i8x16", _INT8_PEERS, 4.0, more_exact=True),
    Bar("W7", "w7-128", "tidegate i8x16", _INT8_PEERS, 3.0, more_exact=True),
    Bar("W7", "w7-256", "tidegate i8x16", _INT8_PEERS, 2.0, more_exact=True),
    *_DEPLOYED_BARS,
)

# A row within this factor of its measured floor is met.
FLOOR = 1.05


def _avx2_bars():
    """Those of f16 and integers are the others' less 15 %."""
    for cell in ("lstm", "gru"):
        for size in SIZES:
            row = ROW_OF[size] if cell == "lstm" else "S4"
            yield Bar(row, f"stream-{cell}-{size}", "tidegate f32", RTNEURAL, 1.15 if size < 64 else 1.1)
    for bar in _NATIVE_BARS:
        if bar.ours in OURS[1:] and bar.case.startswith("stream"):
            yield replace(bar, against=RTNEURAL, factor=round(0.85 * bar.factor, 3))
        elif bar.ours in OURS[1:]:
            held = [name for name in bar.against if name.startswith("onednn")]
            yield replace(bar, against=tuple(held) or ("onednn",), factor=round(0.85 * bar.factor, 3))
    for row, case, factor, floor in (("W1", "w1", 1.35, None), ("W2", "w2", 1.6, 1.4), ("W3", "w3", 1.8, 2.1), ("W6", "w6", 1.3, 1.4)):
        yield Bar(row, case, "tidegate f32", ("onednn",), factor)
        if floor:
            yield Bar(row, case, "tidegate f32", ("floor",), floor, at_most=True)
    yield from _DEPLOYED_BARS


BARS = {"native": _NATIVE_BARS, "avx2": tuple(_avx2_bars())}

# Bars of W2 with layer normalization and masks: maximum time relative to our plain W2, and maximum time of loading and the
# first call beyond a median call.
NORMED_TO_PLAIN = {"native": 1.25, "avx2": 1.1}
LOADING_SECONDS = 0.050

# Maximum difference from the reference in f64. Beyond it a result is wrong, and its time is not compared.
TOLERANCE = {"f32": 1e-4, "f16": 5e-3, "i8x16": 2e-2, "int8": 2e-1}
