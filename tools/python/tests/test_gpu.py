"""Modules on a GPU are imported, packed and trained with the results of those on the CPU. Skipped without a GPU."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no PyTorch")
from torch import nn  # noqa: E402

import tidegate  # noqa: E402
import tidegate.torch as aware  # noqa: E402

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = getattr(nn, kind)(6, 24, num_layers=2, batch_first=True)
        self.fc = nn.Linear(24, 5)

    def forward(self, x):
        return self.fc(torch.tanh(self.rnn(x)[0][:, -1]))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_module_on_a_gpu_is_packed_as_that_on_the_cpu(kind):
    torch.manual_seed(1)
    net, x = Net(kind), torch.randn(16, 30, 6)
    expected = tidegate.import_model(net, sample=x).pack(numeric="i8x16", calibrate=x)
    image = tidegate.import_model(net.cuda(), sample=x.cuda()).pack(numeric="i8x16", calibrate=x.cuda())
    assert image.to_bytes() == expected.to_bytes()
    assert np.array_equal(image.run_batch(x.cuda()), image.run_batch(x))


@pytest.mark.parametrize("numeric", ["i8x16", "i4x16"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_integers_are_those_of_the_cpu_and_gradients_differ_by_rounding(kind, numeric):
    torch.manual_seed(2)
    on_cpu = Net(kind)
    x, loss = torch.randn(16, 30, 6), torch.randn(16, 5)
    on_gpu = aware.quantize(copy.deepcopy(on_cpu).cuda(), numeric, sample=x.cuda())
    aware.quantize(on_cpu, numeric, sample=x)
    rows, given = on_cpu(x), on_gpu(x.cuda())
    assert given.is_cuda and torch.equal(given.cpu(), rows)
    (rows * loss).sum().backward()
    (given * loss.cuda()).sum().backward()
    for (name, weight), other in zip(on_cpu.named_parameters(), on_gpu.parameters(), strict=True):
        assert other.grad.is_cuda
        # Sums of 30 steps of 16 sequences, in another order: 480 roundings of half a unit in the last place.
        bound = 480 * 2**-24 * float(weight.grad.abs().max())
        assert (other.grad.cpu() - weight.grad).abs().max() <= bound, name
    assert tidegate.pack(on_gpu).to_bytes() == tidegate.pack(on_cpu).to_bytes()


def test_training_on_a_gpu_wins_back_what_rounding_loses():
    torch.manual_seed(3)
    teacher, x, others = Net("GRU").cuda(), torch.randn(256, 20, 6).cuda(), torch.randn(256, 20, 6).cuda()
    y, y_others = teacher(x).detach(), teacher(others).detach()
    module = aware.quantize(copy.deepcopy(teacher), "i4x16", sample=x)

    def loss():
        with torch.no_grad():
            return float((module.eval()(others) - y_others).square().mean())

    before = loss()
    optimizer = torch.optim.Adam(module.parameters(), 5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 220)
    for _ in range(220):
        optimizer.zero_grad()
        (module.train()(x) - y).square().mean().backward()
        optimizer.step()
        schedule.step()
    assert loss() < before / 2
    image = tidegate.pack(module)
    rows = module.eval()(others).detach().cpu().numpy()
    assert np.array_equal(image.run_batch(others).reshape(rows.shape), rows)
