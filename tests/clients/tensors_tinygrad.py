# SPDX-License-Identifier: Apache-2.0
"""tinygrad: lazily built kernels, a gradient, a small network that learns.

DEV=CUDA compiles with NVRTC (the packages' one, wherever the toolkit lies),
DEV=CUDA:PTX writes PTX by itself.
"""

import importlib.metadata
import os

# The headers of the packages, whatever toolkit is on this machine.
HEADER = next(file.locate() for file in importlib.metadata.files("nvidia-cuda-runtime")
              if file.name == "cuda_fp16.h")
os.environ["CUDA_PATH"] = str(HEADER.parent.parent)

import numpy as np  # noqa: E402
from tinygrad import Context, Device, Tensor, TinyJit, dtypes, nn  # noqa: E402

from client import check, main  # noqa: E402

RENDERERS = {"CUDA": "CUDARenderer", "CUDA:PTX": "PTXRenderer"}


@check
def runs_on_the_card_as_asked():
    assert Device.DEFAULT.split(":")[0] == "CUDA", Device.DEFAULT
    renderer = type(Device[Device.DEFAULT].renderer).__name__
    assert renderer == RENDERERS[os.environ["DEV"]], renderer


@check
def arrays_add():
    x = np.arange(3000, dtype=np.float32)
    out = (Tensor(x) + Tensor(2 * x)).numpy()
    np.testing.assert_array_equal(out, 3 * x)


@check
def reductions():
    x = np.random.default_rng(1).random((60, 70), dtype=np.float32)
    np.testing.assert_allclose(Tensor(x).sum().numpy(), x.sum(), rtol=1e-5)
    np.testing.assert_allclose(Tensor(x).max(axis=0).numpy(), x.max(axis=0))
    np.testing.assert_allclose(Tensor(x).softmax(axis=1).sum(axis=1).numpy(),
                               np.ones(60), rtol=1e-5)


@check
def matrices_multiply():
    a, b = np.random.default_rng(2).random((2, 64, 64), dtype=np.float32)
    np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a @ b, rtol=1e-4)


@check
def half_precision_multiplies():
    a, b = (np.random.default_rng(3).random((2, 32, 32)) - 0.5).astype(np.float16)
    out = Tensor(a).matmul(Tensor(b), dtype=dtypes.float).numpy()
    np.testing.assert_allclose(out, a.astype(np.float32) @ b.astype(np.float32), atol=1e-2)


@check
def convolution():
    x = np.random.default_rng(4).random((1, 2, 12, 12), dtype=np.float32)
    w = np.random.default_rng(5).random((3, 2, 3, 3), dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(1, 2))
    expected = np.einsum("chwij,ocij->ohw", windows, w)
    np.testing.assert_allclose(Tensor(x).conv2d(Tensor(w)).numpy()[0], expected, rtol=1e-4)


@check
def gradient():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    (x * x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * x.numpy() ** 2, rtol=1e-5)


@check
def captured_function_repeats():
    @TinyJit
    def step(x):
        return (x * 2 + 1).realize()

    for k in range(5):
        x = Tensor.full((100,), float(k)).contiguous().realize()
        np.testing.assert_array_equal(step(x).numpy(), np.full(100, 2 * k + 1))


@check
def small_network_learns():
    rng = np.random.default_rng(6)
    x = rng.random((32, 4), dtype=np.float32)
    y = x @ np.array([[1.0], [-2.0], [3.0], [0.5]], dtype=np.float32)
    layer = nn.Linear(4, 1)
    optimizer = nn.optim.SGD([layer.weight, layer.bias], lr=0.3)
    losses = []
    with Context(TRAINING=1):
        for _ in range(10):
            optimizer.zero_grad()
            loss = (layer(Tensor(x)) - Tensor(y)).square().mean().backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses


main(f"tinygrad {importlib.metadata.version('tinygrad')}, DEV={os.environ['DEV']}")
