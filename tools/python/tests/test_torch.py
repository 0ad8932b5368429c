"""Modules of PyTorch in memory give what the files of the same weights give, bit for bit."""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no PyTorch")
from compared import assert_same, parts  # noqa: E402
from torch import nn  # noqa: E402

import tidegate  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[3] / "tests" / "frameworks" / "torch.py"


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Every golden case that has a module: its file, options, module and recorded input and output."""
    pytest.importorskip("safetensors", reason="no PyTorch with safetensors")
    folder, found, modules, state_dict = tmp_path_factory.mktemp("torch"), [], {}, nn.Module.state_dict

    def remembering(module, *args, **options):
        state = state_dict(module, *args, **options)
        # The state is kept, so that no other one has its identity.
        modules[id(state)] = (module, state)
        return state

    def write(name, state, x, y, **options):
        scope["written"](name, state, x, y, **options)
        if id(state) in modules:
            # The script trains one of them later.
            found.append((name, copy.deepcopy(modules[id(state)][0]), x, y, options))

    scope = {"__name__": "golden", "__file__": str(SCRIPT), "write": write}
    nn.Module.state_dict, before = remembering, sys.argv
    sys.argv = [str(SCRIPT), str(folder)]
    try:
        source = SCRIPT.read_text().replace("\ndef write(", "\ndef written(")
        exec(compile(source, str(SCRIPT), "exec"), scope)
    finally:
        nn.Module.state_dict, sys.argv = state_dict, before
    return folder, found


def file_of(folder, name):
    return next(path for path in folder.glob(f"{name}.*") if path.suffix in (".pt", ".pth", ".safetensors") and "golden" not in path.name)


def test_every_golden_module_is_imported_as_its_file(cases):
    folder, found = cases
    for name, module, _, _, options in found:
        arch = folder / f"{name}.json"
        given = {"arch": arch if arch.exists() else None, "window": options.get("window")}
        of_file = tidegate.import_model(file_of(folder, name), **given)
        if arch.exists():
            assert_same(tidegate.import_model(module, **given), of_file)
            assert_same(tidegate.import_model(module, **{**given, "arch": json.loads(arch.read_text())}), of_file)
    assert len(found) >= 35, len(found)


OTHERWISE = {
    # The script runs these networks in another way than their `forward`, or they have none.
    "last", "both_directions_final", "both_directions_last", "embedding", "cells", "conv_last", "conv_last_uneven",
    "conv_padded", "mean", "flatten",
}  # fmt: skip


def test_every_golden_module_is_traced_to_what_its_file_has(cases):
    folder, found = cases
    same = 0
    for name, module, x, _, options in found:
        if name in OTHERWISE:
            continue
        arch, window = folder / f"{name}.json", options.get("window")
        of_file = tidegate.import_model(file_of(folder, name), arch=arch if arch.exists() else None, window=window)
        traced = tidegate.import_model(module, window=window, sample=x.float()[None] if "images" in name else None)
        assert parts(traced)[1:] == parts(of_file)[1:] or name == "plain", name
        given = x.float().numpy().reshape(len(x), -1)
        # A sequence that is shorter than the window has a row at its end.
        assert np.array_equal(traced.pack("f32").run(given), of_file.pack("f32").run(given)), name
        same += 1
    assert same >= 30, same


def close(module, x, model, atol=1e-5):
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(x)).numpy()
    got = model.pack("f32").run_batch(x)
    expected = expected.reshape(got.shape)
    assert np.abs(got - expected).max() <= atol, np.abs(got - expected).max()


class Gestures(nn.Module):
    def __init__(self, style):
        super().__init__()
        self.rnn = nn.GRU(6, 24, batch_first=True, num_layers=1, bidirectional=style == "both")
        self.fc = nn.Linear(48 if style == "both" else 24, 5)
        self.style = style

    def forward(self, x):
        rows, h = self.rnn(x)
        if self.style == "last":
            return self.fc(rows[:, -1])
        if self.style == "last of three":
            return self.fc(rows[:, -1, :])
        if self.style == "state":
            return self.fc(h[-1])
        if self.style == "squeezed":
            return self.fc(h.squeeze(0))
        if self.style == "both":
            return torch.softmax(self.fc(torch.cat([h[-2], h[-1]], -1)), -1)
        return self.fc(rows.mean(dim=1))


@pytest.mark.parametrize("style", ["last", "last of three", "state", "squeezed", "both", "mean"])
def test_a_module_with_one_output_for_each_sequence_becomes_windows(style):
    torch.manual_seed(3)
    module, x = Gestures(style), np.random.default_rng(3).standard_normal((4, 20, 6), np.float32)
    model = tidegate.import_model(module, sample=x)
    close(module, x, model)
    if style in ("last", "state"):
        assert model.architecture["schedule"] == {"windows": {"frames": 20, "every": 20}}


def test_the_last_state_of_an_lstm_is_taken():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(6, 8, batch_first=True)
            self.fc = nn.Linear(8, 2)

        def forward(self, x):
            _, (h, _) = self.rnn(x)
            return self.fc(torch.relu(h[-1]))

    net, x = Net(), np.random.default_rng(3).standard_normal((4, 9, 6), np.float32)
    close(net, x, tidegate.import_model(net, sample=x))


def test_a_sequential_network_and_one_call():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=-1))
    x = np.random.default_rng(1).standard_normal((4, 9, 6), np.float32)
    close(module, x, tidegate.import_model(module))
    image = tidegate.pack(Gestures("last"), sample=torch.from_numpy(x))
    assert image.numeric == "i8x16" and image.schedule == "9/9" and image.run_batch(torch.from_numpy(x)).shape == (4, 1, 5)


def refused(module, *said, **options):
    with pytest.raises(tidegate.Error) as caught:
        tidegate.import_model(module, **options)
    assert all(part in str(caught.value) for part in said) and "\n" not in str(caught.value), str(caught.value)


def test_what_a_trace_does_not_know_is_refused():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(6, 4)

        def forward(self, x):
            state = None
            for step in x:
                state = self.cell(step, state)
            return state[0]

    class Sine(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 4)

        def forward(self, x):
            return torch.sin(self.fc(x))

    class Started(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(6, 4, batch_first=True)

        def forward(self, x, h):
            return self.rnn(x, h)[0]

    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(6, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x):
            return self.rnn(x)[0]

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.gain = nn.Linear(6, 4), nn.Parameter(torch.ones(4))

        def forward(self, x):
            return self.fc(x) * self.gain

    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(6, 4, batch_first=True)

        def forward(self, x):
            return self.rnn(x)[0][:, 0]

    class Hooked(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(6, 4, batch_first=True)

        def forward(self, x):
            return self.rnn(x.flip(1))[0]

    refused(Loop(), "Loop: cannot be traced", "arch=")
    refused(Sine(), "sin", "not supported", "arch=")
    refused(Started(), "rnn: GRU is called with more than its input")
    refused(Unused(), "layers do not use tensor")
    refused(Scaled(), "gain", "not supported")
    refused(First(), "not supported")
    refused(Hooked(), "flip", "not supported")
    refused(nn.Sequential(nn.Linear(6, 4), nn.LogSoftmax(dim=-1)), "LogSoftmax")
    refused(nn.Sequential(nn.Linear(6, 4), nn.Softmax(dim=1)), "softmax over the axis 't'", sample=np.zeros((2, 5, 6)))
    refused(nn.Sequential(nn.Conv1d(6, 4, 3, padding_mode="circular"), nn.ReLU()), "padding_mode")


class ZeroState(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = getattr(nn, cell)(4, 8, batch_first=True)

    def forward(self, x):
        h = torch.zeros(1, x.size(0), 8, device=x.device)
        state = (h, torch.zeros_like(h)) if isinstance(self.cell, nn.LSTM) else h
        return self.cell(x, state)[0]


@pytest.mark.parametrize("cell", ["GRU", "LSTM"])
def test_a_state_of_zeros_is_the_start_of_every_sequence(cell):
    torch.manual_seed(1)
    module, x = ZeroState(cell), torch.randn(3, 5, 4)
    rows = tidegate.pack(module, numeric="f32").run_batch(x)
    assert np.abs(rows - module(x).detach().numpy()).max() < 1e-5


def test_another_state_is_refused():
    class Ones(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(4, 8, batch_first=True)

        def forward(self, x):
            return self.gru(x, torch.ones(1, x.size(0), 8))[0]

    with pytest.raises(tidegate.Error, match="ones of 1: not supported"):
        tidegate.pack(Ones(), numeric="f32")


def test_zeros_that_are_no_state_are_refused():
    class Added(nn.Module):
        def forward(self, x):
            return x + torch.zeros_like(x)

    with pytest.raises(tidegate.Error, match="only as the state of a recurrent layer"):
        tidegate.pack(Added(), numeric="f32", sample=np.zeros((2, 5, 4), "f4"))


def test_numbers_of_bfloat16_are_taken():
    module, x = nn.GRU(4, 8, batch_first=True), torch.randn(3, 5, 4).bfloat16()
    image = tidegate.pack(module, numeric="f32")
    assert np.array_equal(image.run_batch(x), image.run_batch(x.float()))


def test_a_sample_without_a_shape_is_refused():
    with pytest.raises(tidegate.Error, match="sample: a tuple; give an array"):
        tidegate.pack(nn.GRU(4, 8, batch_first=True), sample=(1, 2))
