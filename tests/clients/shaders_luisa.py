# SPDX-License-Identifier: Apache-2.0
"""LuisaCompute on a software card: functions of its Python front end, which it makes PTX
of by its own NVRTC and links with the device runtime, against NumPy.

Indirect dispatches are launches by a kernel: how many threads run is known on the card
only.
"""

import ctypes
import importlib.metadata

import numpy as np

from client import Skip, check, main

try:
    ctypes.CDLL("libvulkan.so.1")
    import luisa
    from luisa import *  # its functions are compiled by their names  # pylint: disable=wildcard-import,unused-wildcard-import,redefined-builtin
    from luisa.autodiff import backward, grad, requires_grad
    from luisa.autodiff import autodiff  # pylint: disable=unused-import
    from luisa.mathtypes import *  # pylint: disable=wildcard-import,unused-wildcard-import
    from luisa.types import uint, uint2, uint3
    luisa.init("cuda")
    MISSING = None
except OSError as words:
    MISSING = str(words)

RANDOM = np.random.default_rng(1)


def numbers(*shape):
    return RANDOM.random(shape).astype(np.float32)


def needed():
    if MISSING:
        raise Skip(f"{MISSING} (Debian: libvulkan1)")


def near(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@check
def element_by_element():
    needed()

    @luisa.func
    def elements(a, out):
        i = dispatch_id().x
        x = a.read(i)
        out.write(i, sin(x) * exp(-x) + sqrt(x) + atan2(x, 2.0) + pow(x, 1.5))
    values, out = numbers(1000), luisa.Buffer(1000, dtype=float)
    elements(luisa.Buffer.buffer(values), out, dispatch_size=1000)
    near(out.numpy(), np.sin(values) * np.exp(-values) + np.sqrt(values) + np.arctan2(values, 2)
         + values ** 1.5)


@check
def loops_and_callables():
    needed()

    @luisa.func
    def collatz(n):
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    @luisa.func
    def run(out):
        i = dispatch_id().x
        out.write(i, collatz(int(i) + 1))

    def plain(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps
    out = luisa.Buffer(300, dtype=int)
    run(out, dispatch_size=300)
    assert out.numpy().tolist() == [plain(n + 1) for n in range(300)]


@check
def atomics_and_shared_memory():
    needed()
    shared = luisa.SharedArrayType(64, float)

    @luisa.func
    def count(bins, largest):
        value = (dispatch_id().x * 2654435761) >> 24
        _ = bins.atomic_fetch_add(int(value & 63), 1)
        _ = largest.atomic_fetch_max(0, int(value))

    @luisa.func
    def turned(a, out):
        set_block_size(64, 1, 1)
        block = shared()
        at = thread_id().x
        block[at] = a.read(dispatch_id().x)
        sync_block()
        out.write(dispatch_id().x, block[63 - at])
    bins, largest = luisa.Buffer(64, dtype=int), luisa.Buffer(1, dtype=int)
    bins.copy_from(np.zeros(64, np.int32))
    largest.copy_from(np.zeros(1, np.int32))
    count(bins, largest, dispatch_size=5000)
    expected = ((np.arange(5000, dtype=np.uint64) * 2654435761) & 0xffffffff) >> 24
    assert (bins.numpy() == np.bincount((expected & 63).astype(int), minlength=64)).all()
    assert largest.numpy()[0] == expected.max()
    values, out = numbers(640), luisa.Buffer(640, dtype=float)
    turned(luisa.Buffer.buffer(values), out, dispatch_size=640)
    near(out.numpy(), values.reshape(10, 64)[:, ::-1].ravel(), 0)


@check
def vectors_and_matrices():
    needed()

    @luisa.func
    def determinants(a, out):
        i = dispatch_id().x
        m = float3x3(a.read(i * 9), a.read(i * 9 + 1), a.read(i * 9 + 2), a.read(i * 9 + 3),
                     a.read(i * 9 + 4), a.read(i * 9 + 5), a.read(i * 9 + 6), a.read(i * 9 + 7),
                     a.read(i * 9 + 8))
        v = normalize(float3(a.read(i * 9), a.read(i * 9 + 1), 1.0))
        out.write(i, determinant(m) + dot(v, v))
    values, out = numbers(50, 3, 3), luisa.Buffer(50, dtype=float)
    determinants(luisa.Buffer.buffer(values.ravel()), out, dispatch_size=50)
    near(out.numpy(), np.linalg.det(values) + 1)


@check
def images():
    needed()

    @luisa.func
    def blur(a, out):
        here = int2(dispatch_id().xy)
        total = float4(0.)
        for i in range(3):
            for j in range(3):
                there = here + int2(i - 1, j - 1)
                if there.x >= 0 and there.y >= 0 and there.x < 40 and there.y < 30:
                    total += a.read(uint2(there))
        out.write(dispatch_id().xy, total / 9.)
    values = numbers(30, 40, 4)
    image, out = luisa.Image2D(40, 30, 4, float), luisa.Image2D(40, 30, 4, float)
    image.copy_from(values)
    blur(image, out, dispatch_size=(40, 30, 1))
    padded = np.pad(values, ((1, 1), (1, 1), (0, 0)))
    near(out.numpy(), sum(padded[i:i + 30, j:j + 40] for i in range(3) for j in range(3)) / 9)


@check
def resources_by_number():
    needed()

    @luisa.func
    def look(heap, out):
        i = dispatch_id().x
        out.write(i, heap.buffer_read(float, int(i % 2), int(i))
                  + heap.texture2d_read(2, uint2(i, 0)).x)
    even, odd, pixels = numbers(100), numbers(100), numbers(1, 100, 4)
    image = luisa.Image2D(100, 1, 4, float)
    image.copy_from(pixels)
    buffers = [luisa.Buffer.buffer(even), luisa.Buffer.buffer(odd)]
    heap = luisa.BindlessArray(16)
    for number, resource in enumerate((*buffers, image)):
        heap.emplace(number, resource)
    heap.update()
    out = luisa.Buffer(100, dtype=float)
    look(heap, out, dispatch_size=100)
    near(out.numpy(), np.where(np.arange(100) % 2, odd, even) + pixels[0, :, 0])


@check
def slopes():
    needed()

    @luisa.func
    def slope(a, out):
        i = dispatch_id().x
        x = a.read(i)
        with autodiff():
            requires_grad(x)
            y = sin(x) * exp(x) + x * x
            backward(y)
            out.write(i, grad(x))
    values, out = numbers(100), luisa.Buffer(100, dtype=float)
    slope(luisa.Buffer.buffer(values), out, dispatch_size=100)
    near(out.numpy(), (np.cos(values) + np.sin(values)) * np.exp(values) + 2 * values)


@check
def dispatches_that_the_card_plans():
    """The block is launched by a kernel, and the next one reads what it wrote."""
    needed()

    @luisa.func
    def plan(dispatches, wanted):
        set_block_size(32, 1, 1)
        i = dispatch_id().x
        if i == 0:
            dispatches.set_dispatch_count(40)
        dispatches.set_kernel(i, uint3(64, 1, 1), uint3(wanted.read(i), 1, 1), i)

    @luisa.func
    def work(out):
        set_block_size(64, 1, 1)
        _ = out.atomic_fetch_add(int(kernel_id()), 1)

    @luisa.func
    def doubled(a, out):
        i = dispatch_id().x
        out.write(i, a.read(i) * 2)
    wanted = RANDOM.integers(0, 500, 40).astype(np.uint32)
    dispatches = luisa.IndirectDispatchBuffer(40)
    out, twice = luisa.Buffer(40, dtype=int), luisa.Buffer(40, dtype=int)
    source = luisa.Buffer(40, dtype=uint)
    source.copy_from(wanted)
    for _ in range(5):
        out.copy_from(np.zeros(40, np.int32))
        plan(dispatches, source, dispatch_size=40)
        work(out, dispatch_size=dispatches)
        doubled(out, twice, dispatch_size=40)
        assert (twice.numpy() == 2 * wanted).all()


main(f"luisa-python {importlib.metadata.version('luisa-python')}")
