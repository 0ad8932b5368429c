"""Times LSTM layers on a GPU: `tidegate-gpu` (through `tidegate-gpu-measure`) and PyTorch's `nn.LSTM`, both through
cuDNN, alternating on the same device.

    cargo build --release --locked -p tidegate-gpu-measure --features cudnn
    python3 tests/frameworks/torch_time.py target/release/tidegate-gpu-measure [OUT.json]

Needs a GPU, PyTorch with CUDA, numpy and safetensors. cuDNN and its dependencies come from PyTorch's wheels, unless
TIDEGATE_CUDA_PATH names others.

For each shape both run the same numbers once and must agree. Then they are timed in alternating rounds, in f32 and in
tf32: a forward pass (inference), and a training step (forward, gradients to the input and to all parameters). A further
column is the training step of PyTorch's `nn.LSTMCell`, cell by cell, in f32. Prints a line for each shape with the
medians of the rounds, and writes every round to OUT.json. The limits are 1.05 of PyTorch's time, and a sixth of the time
cell by cell. Exits with 1 if results differ or a limit is exceeded.

tests/data/measured/torch_time.json, for docs/training.md, is such an OUT.json.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# A module in this script's folder has the name of the package and would hide it.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402
from torch import nn  # noqa: E402

PROGRAM = sys.argv[1]
OUT = sys.argv[2] if len(sys.argv) > 2 else None
SIZES = [(1, 70, 512, 512), (64, 1000, 256, 126), (64, 1000, 256, 128), (128, 28, 28, 32)]
ROUNDS, CELL_ROUNDS = 21, 3
# Approximate duration of a round, long enough that clock resolution and waiting hardly matter.
ROUND_MS = 15.0
BAR, CELL_BAR = 1.05, 6.0
# Largest difference between two programs that call cuDNN with the same numbers, relative to the largest value; tf32
# rounds products to 11 bits, in an order that may differ.
AGREE = {"f32": 1e-4, "tf32": 2e-2}
# A dry run of everything but the timings, on a machine without a GPU.
DEVICE = os.environ.get("TORCH_TIME_DEVICE", "cuda")


def libraries():
    """Folders of the libraries that are part of PyTorch's wheels."""
    found = []
    for path in sys.path:
        nvidia = os.path.join(path, "nvidia")
        if os.path.isdir(nvidia):
            found += [os.path.join(nvidia, name, "lib") for name in sorted(os.listdir(nvidia))]
    found.append(os.path.join(os.path.dirname(torch.__file__), "lib"))
    given = os.environ.get("TIDEGATE_CUDA_PATH", "")
    return ":".join([given] * bool(given) + [path for path in found if os.path.isdir(path)])


class Ours:
    """The program, which answers each line with a line."""

    def __init__(self):
        environment = os.environ | dict.fromkeys(["LD_LIBRARY_PATH", "TIDEGATE_CUDA_PATH"], libraries())
        command = [PROGRAM, "time", "--serve"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise SystemExit(f"{' '.join(map(str, words))}: {answer or 'no answer'}")
        return answer


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(call, calls):
    """Milliseconds of a call."""
    wait()
    started = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - started) * 1e3 / calls


class Cells(nn.Module):
    """The same layers, cell by cell."""

    def __init__(self, lstm):
        super().__init__()
        self.directions = 2 if lstm.bidirectional else 1
        self.cells = nn.ModuleList()
        for layer in range(lstm.num_layers):
            for suffix in ["", "_reverse"][: self.directions]:
                names = [f"{name}_l{layer}{suffix}" for name in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]]
                weights = [getattr(lstm, name).detach().clone() for name in names]
                cell = nn.LSTMCell(weights[0].shape[1], lstm.hidden_size).to(weights[0].device)
                with torch.no_grad():
                    for own, weight in zip([cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh], weights):
                        own.copy_(weight)
                self.cells.append(cell)

    def forward(self, x):
        for layer in range(len(self.cells) // self.directions):
            outputs = []
            for direction in range(self.directions):
                cell, state, steps = self.cells[layer * self.directions + direction], None, []
                for step in x if direction == 0 else x.flip(0):
                    state = cell(step, state)
                    steps.append(state[0])
                outputs.append(torch.stack(steps if direction == 0 else steps[::-1]))
            x = torch.cat(outputs, 2)
        return x


def step(model, x, dy):
    """Forward and backward, with gradients that start unset."""
    x.grad = None
    model.zero_grad(set_to_none=True)
    output = model(x)
    (output[0] if isinstance(output, tuple) else output).backward(dy)


def parameters(lstm):
    """cuDNN's order: all matrices, then all biases, each layer by layer and direction by direction."""
    suffixes = [f"_l{k}{way}" for k in range(lstm.num_layers) for way in ["", "_reverse"][: 1 + lstm.bidirectional]]
    names = [[f"{name}_{side}{suffix}" for suffix in suffixes for side in ["ih", "hh"]] for name in ["weight", "bias"]]
    return [getattr(lstm, name) for part in names for name in part]


def flat(tensors):
    return np.concatenate([tensor.detach().float().cpu().numpy().reshape(-1) for tensor in tensors])


def apart(ours, theirs):
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def check(ours, shape, lstm, x, dy, folder):
    """Runs the same numbers with both. Returns our algorithms, and the largest difference relative to the largest
    value.
    """
    given, made = os.path.join(folder, "given.safetensors"), os.path.join(folder, "made.safetensors")
    numbers = {"params": flat(parameters(lstm)), "x": flat([x]), "to_outputs": flat([dy])}
    save_file(numbers, given)
    algorithms = ours.ask("check", *shape, given, made)
    found = load_file(made)
    with torch.no_grad():
        inference = lstm.eval()(x)[0]
    lstm.train()
    outputs = lstm(x)[0]
    step(lstm, x, dy)
    needed = {
        "inference": flat([inference]),
        "outputs": flat([outputs]),
        "to_input": flat([x.grad]),
        "to_params": flat([parameter.grad for parameter in parameters(lstm)]),
    }
    return algorithms, {name: apart(found[name], needed[name]) for name in needed}


def calls(once):
    return max(1, min(1000, round(ROUND_MS / max(once, 1e-3))))


def turns(ours, shape, lstm, x, dy):
    """Medians of each mode, ours and PyTorch's, in alternating rounds."""
    quiet = x.detach()

    def forward():
        with torch.no_grad():
            lstm(quiet)

    found = {}
    for mode, call in [("forward", forward), ("training", lambda: step(lstm, x, dy))]:
        lstm.train(mode == "training")
        timed(call, 3)
        count = calls(timed(call, 3))
        ours.ask("run", *shape, mode, 3)
        rounds = []
        for number in range(ROUNDS):
            # The order within a round alternates too.
            pair = [lambda: float(ours.ask("run", *shape, mode, count)), lambda: timed(call, count)]
            first = number % 2
            one, other = pair[first](), pair[1 - first]()
            rounds.append([one, other] if first == 0 else [other, one])
        mine, theirs = zip(*rounds)
        ratio = statistics.median(a / b for a, b in rounds)
        found[mode] = {"ours_ms": statistics.median(mine), "torch_ms": statistics.median(theirs), "ratio": ratio}
        found[mode]["rounds_ms"] = rounds
    return found


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch_time.py: PyTorch finds no GPU")
    torch.manual_seed(1)
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}", end="")
    print(f", {torch.cuda.get_device_name()}" if DEVICE == "cuda" else ", no GPU")
    print("ms: ours, PyTorch's, and ours by PyTorch's; the training step cell by cell, and that by ours; the largest difference")
    ours, rows, broken = Ours(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for math in ["f32", "tf32"]:
            torch.backends.cudnn.allow_tf32 = math == "tf32"
            torch.backends.cuda.matmul.allow_tf32 = math == "tf32"
            for batch, steps, inputs, hidden in SIZES:
                for layers in [1, 2]:
                    for directions in [1, 2]:
                        shape = [batch, steps, inputs, hidden, layers, directions, math]
                        lstm = nn.LSTM(inputs, hidden, layers, bidirectional=directions == 2).to(DEVICE)
                        x = torch.rand(steps, batch, inputs, device=DEVICE).mul_(2).sub_(1).requires_grad_()
                        dy = torch.rand(steps, batch, hidden * directions, device=DEVICE).mul_(2).sub_(1)
                        algorithms, far = check(ours, shape, lstm, x, dy, folder)
                        row = {"shape": shape, "algorithms": algorithms, "apart": far} | turns(ours, shape, lstm, x, dy)
                        row["holds"] = max(far.values()) <= AGREE[math]
                        row["holds"] &= row["forward"]["ratio"] <= BAR and row["training"]["ratio"] <= BAR
                        if math == "f32":
                            cells = Cells(lstm)
                            timed(lambda: step(cells, x, dy), 1)
                            took = statistics.median(timed(lambda: step(cells, x, dy), 1) for _ in range(CELL_ROUNDS))
                            row["cells_ms"], row["cells_ratio"] = took, took / row["training"]["ours_ms"]
                            row["holds"] &= row["cells_ratio"] >= CELL_BAR
                        broken += not row["holds"]
                        rows.append(row)
                        print(line(row), flush=True)
                        if OUT:
                            write(rows)
    print(f"{len(rows)} shapes, {broken} exceed a limit")
    return broken > 0


def rounded(value):
    """Four significant digits of each number, in place of seventeen."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list | tuple) else value


def write(rows):
    """One line for each shape, with every round."""
    made_by = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}"
    lines = ",\n".join(json.dumps(rounded(row)) for row in rows)
    with open(OUT, "w") as out:
        out.write(f'{{"made_by": "{made_by}", "rows": [\n{lines}\n]}}\n')


def line(row):
    text = " ".join(f"{word:>4}" for word in row["shape"])
    for mode in ["forward", "training"]:
        found = row[mode]
        text += f" | {mode} {found['ours_ms']:8.3f} {found['torch_ms']:8.3f} {found['ratio']:5.2f}"
    if "cells_ms" in row:
        text += f" | {row['cells_ms']:8.1f} {row['cells_ratio']:5.1f}"
    return text + f" | {max(row['apart'].values()):.0e} {row['algorithms']}" + ("" if row["holds"] else " BROKEN")


sys.exit(main())
