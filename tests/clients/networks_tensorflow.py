# SPDX-License-Identifier: Apache-2.0
"""TensorFlow on the null driver: eager operations, functions, XLA, a network that Keras
trains.  Nothing is computed there: every call must be carried, every program must reach
its end, and what is only copied must come back.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

import numpy as np
import tensorflow as tf

from client import check, main


def some(*shape, dtype=np.float32):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@check
def card_is_listed():
    cards = tf.config.list_physical_devices("GPU")
    assert len(cards) == 1, cards
    details = tf.config.experimental.get_device_details(cards[0])
    assert "null card" in details["device_name"], details
    assert details["compute_capability"] == (8, 6), details


@check
def tensors_go_up_and_come_back():
    with tf.device("/GPU:0"):
        for shape in ((17,), (1 << 20,), (3, 5, 7, 11)):
            host = some(*shape)
            on_card = tf.identity(tf.constant(host))
            assert "GPU" in on_card.device, on_card.device
            assert np.array_equal(on_card.numpy(), host), shape


@check
def operations_run():
    with tf.device("/GPU:0"):
        x = tf.constant(some(512, 512))
        tf.reduce_sum(tf.where(x > 0, tf.sin(x), x * 2)).numpy()
        tf.cumsum(tf.transpose(x)).numpy()
        tf.random.normal((1000, 100)).numpy()
        tf.concat([tf.gather(x, [3, 1, 2]), x[:5]], axis=0).numpy()


@check
def cublas_multiplies():
    with tf.device("/GPU:0"):
        for dtype in (np.float32, np.float64, np.float16):
            assert tf.matmul(some(384, 512, dtype=dtype),
                             some(512, 256, dtype=dtype)).numpy().shape == (384, 256)
        tf.matmul(some(4, 64, 96), some(4, 96, 32)).numpy()


@check
def cudnn_convolves():
    with tf.device("/GPU:0"):
        x, w = tf.constant(some(8, 32, 32, 16)), tf.Variable(some(3, 3, 16, 32))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.conv2d(x, w, 1, "SAME"))
        assert tape.gradient(loss, w).numpy().shape == (3, 3, 16, 32)


@check
def cufft_transforms():
    with tf.device("/GPU:0"):
        tf.signal.irfft2d(tf.signal.rfft2d(some(64, 64))).numpy()


@check
def function_is_compiled_by_xla():
    @tf.function(jit_compile=True)
    def step(x, w):
        return tf.nn.softmax(tf.nn.relu(x @ w) @ tf.transpose(w))
    with tf.device("/GPU:0"):
        for _ in range(3):
            assert step(some(128, 64), some(64, 256)).numpy().shape == (128, 64)


@check
def network_trains():
    # Without its shape Keras makes the variables later, if a kernel says that they lack.
    network = tf.keras.Sequential([
        tf.keras.Input((16, 16, 3)), tf.keras.layers.Conv2D(8, 3, activation="relu"),
        tf.keras.layers.BatchNormalization(), tf.keras.layers.MaxPool2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax")])
    network.compile("adam", "sparse_categorical_crossentropy")
    x, y = some(64, 16, 16, 3), np.arange(64) % 10
    network.fit(x, y, batch_size=16, epochs=2, verbose=0)
    assert network.predict(x, verbose=0).shape == (64, 10)


@check
def memory_is_counted():
    with tf.device("/GPU:0"):
        before = tf.config.experimental.get_memory_info("GPU:0")["current"]
        block = tf.zeros((16 << 20,), tf.uint8)
        during = tf.config.experimental.get_memory_info("GPU:0")["current"]
        assert during >= before + (16 << 20), (before, during)
        del block


build = tf.sysconfig.get_build_info()
main(f"TensorFlow {tf.__version__}, CUDA {build.get('cuda_version')}, "
     f"cuDNN {build.get('cudnn_version')}")
