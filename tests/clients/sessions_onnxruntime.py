# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's CUDA provider on the null driver: sessions of small networks.

Nothing is computed there: every call must be carried, and every node must be the
provider's (the processor's is not allowed to take its place).
"""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from client import check, main

ort.preload_dlls()
ort.set_default_logger_severity(3)


def weights(name, *shape, dtype=np.float32):
    values = np.random.default_rng(len(name)).standard_normal(shape).astype(dtype)
    return numpy_helper.from_array(values * 0.1, name)


def model(nodes, inputs, outputs, constants, kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes, "network",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs],
        constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 9
    onnx.checker.check_model(made)
    return made.SerializeToString()


def convolutions(dtype=np.float32):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    return model(nodes, [("x", [4, 3, 16, 16])], [("y", [4, 10])],
                 [weights("w1", 8, 3, 3, 3, dtype=dtype), weights("b1", 8, dtype=dtype),
                  weights("w2", 512, 10, dtype=dtype), weights("b2", 10, dtype=dtype)], kind)


def transformer():
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s", "o"], ["n"]),
        helper.make_node("MatMul", ["n", "wq"], ["q"]),
        helper.make_node("MatMul", ["n", "wk"], ["k"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["a"]),
        helper.make_node("Softmax", ["a"], ["p"]),
        helper.make_node("MatMul", ["p", "n"], ["v"]),
        helper.make_node("Add", ["v", "x"], ["h"]),
        helper.make_node("ReduceMean", ["h"], ["m"], axes=[1], keepdims=0),
        helper.make_node("Gather", ["m", "which"], ["y"], axis=1),
    ]
    which = numpy_helper.from_array(np.array([3, 1, 2], np.int64), "which")
    return model(nodes, [("x", [2, 32, 64])], [("y", [2, 3])],
                 [weights("s", 64), weights("o", 64), weights("wq", 64, 64),
                  weights("wk", 64, 64), which])


def session(network, **options):
    settings = ort.SessionOptions()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    made = ort.InferenceSession(network, settings,
                                providers=[("CUDAExecutionProvider", options)])
    assert made.get_providers()[0] == "CUDAExecutionProvider", made.get_providers()
    return made


def some(*shape, dtype=np.float32):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@check
def provider_is_there():
    assert "CUDAExecutionProvider" in ort.get_available_providers()


@check
def values_go_up_and_come_back():
    host = some(1000, 333)
    value = ort.OrtValue.ortvalue_from_numpy(host, "cuda", 0)
    assert value.device_name().lower() == "cuda", value.device_name()
    assert np.array_equal(value.numpy(), host)


@check
def convolutions_run():
    for dtype in (np.float32, np.float16):
        for search in ("DEFAULT", "HEURISTIC", "EXHAUSTIVE"):
            run = session(convolutions(dtype), cudnn_conv_algo_search=search)
            for _ in range(3):
                out, = run.run(None, {"x": some(4, 3, 16, 16, dtype=dtype)})
                assert out.shape == (4, 10) and out.dtype == dtype


@check
def attention_runs():
    out, = session(transformer()).run(None, {"x": some(2, 32, 64)})
    assert out.shape == (2, 3)


@check
def outputs_stay_on_the_card():
    run = session(transformer())
    binding = run.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(some(2, 32, 64), "cuda", 0))
    binding.bind_output("y", "cuda")
    run.run_with_iobinding(binding)
    assert binding.get_outputs()[0].device_name().lower() == "cuda"


@check
def graph_is_captured_and_replayed():
    run = session(convolutions(), enable_cuda_graph="1")
    x = ort.OrtValue.ortvalue_from_numpy(some(4, 3, 16, 16), "cuda", 0)
    y = ort.OrtValue.ortvalue_from_shape_and_type([4, 10], np.float32, "cuda", 0)
    binding = run.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    for _ in range(3):
        run.run_with_iobinding(binding)
    assert y.numpy().shape == (4, 10)


main(f"ONNX Runtime {ort.__version__}")
