# SPDX-License-Identifier: Apache-2.0
"""A program that builds graphs of every kind of node that the null driver keeps, and
looks at what their launches did to memory: `ok WHAT` for each promise."""

import ctypes
from ctypes import byref, c_size_t, c_uint, c_ulonglong, c_void_p

SIZE = 4096
ON_DEVICE = 2
KERNEL, COPY, FILL, HOST, GRAPH, EMPTY = range(6)
cuda = ctypes.CDLL("libcuda.so.1")
HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)


class Side(ctypes.Structure):
    _fields_ = [("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("lod", c_size_t),
                ("type", c_uint), ("host", c_void_p), ("device", c_ulonglong),
                ("array", c_void_p), ("reserved", c_void_p), ("pitch", c_size_t),
                ("height", c_size_t)]


class Box(ctypes.Structure):
    _fields_ = [("src", Side), ("dst", Side), ("width", c_size_t), ("rows", c_size_t),
                ("depth", c_size_t)]


class Fill(ctypes.Structure):
    _fields_ = [("dst", c_ulonglong), ("pitch", c_size_t), ("value", c_uint),
                ("size", c_uint), ("width", c_size_t), ("rows", c_size_t)]


class Kernel(ctypes.Structure):
    _fields_ = [("func", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3),
                ("shared", c_uint), ("params", c_void_p), ("extra", c_void_p),
                ("kern", c_void_p), ("ctx", c_void_p)]


class HostParams(ctypes.Structure):
    _fields_ = [("fn", HOST_FUNCTION), ("data", c_void_p)]


def ok(result):
    assert result == 0, result


def memory():
    at = c_ulonglong()
    ok(cuda.cuMemAlloc_v2(byref(at), c_size_t(SIZE)))
    ok(cuda.cuMemsetD8_v2(at, 0, c_size_t(SIZE)))
    return at.value


def holds(at):
    host = (ctypes.c_ubyte * SIZE)()
    ok(cuda.cuMemcpyDtoH_v2(host, c_ulonglong(at), c_size_t(SIZE)))
    return bytes(host)


def graph():
    made = c_void_p()
    ok(cuda.cuGraphCreate(byref(made), 0))
    return made


def add(kind, to, behind, *params):
    node, deps = c_void_p(), (c_void_p * max(len(behind), 1))(*behind)
    ok(getattr(cuda, f"cuGraphAdd{kind}")(byref(node), to, deps, c_size_t(len(behind)), *params))
    return node


def launched(exec_):
    ok(cuda.cuGraphLaunch(exec_, None))
    ok(cuda.cuStreamSynchronize(None))


def fill_of(at, value, size=1):
    return Fill(at, 0, value, size, SIZE // size, 1)


def copy_of(dst, src):
    def side(at):
        return Side(type=ON_DEVICE, device=at, pitch=SIZE, height=1)
    return Box(side(src), side(dst), SIZE, 1, 1)


def nodes_of(of, call="cuGraphGetNodes"):
    n = c_size_t()
    ok(getattr(cuda, call)(of, None, byref(n)))
    nodes = (c_void_p * n.value)()
    ok(getattr(cuda, call)(of, nodes, byref(n)))
    return list(nodes)


ok(cuda.cuInit(0))
context = c_void_p()
ok(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))
first, second, third = memory(), memory(), memory()

g, called = graph(), []
fill = add("MemsetNode", g, [], byref(fill_of(first, 0x11)), context)
copy = add("MemcpyNode", g, [fill], byref(copy_of(second, first)), context)
inner = graph()
add("MemsetNode", inner, [], byref(fill_of(third, 0x22334455, 4)), context)
child = add("ChildGraphNode", g, [copy], inner)
empty = add("EmptyNode", g, [copy, child])
assert len(nodes_of(g)) == 4 and nodes_of(g, "cuGraphGetRootNodes") == [fill.value]
kinds = [c_uint() for _ in range(4)]
for node, kind in zip(nodes_of(g), kinds):
    ok(cuda.cuGraphNodeGetType(c_void_p(node), byref(kind)))
assert [kind.value for kind in kinds] == [FILL, COPY, GRAPH, EMPTY], kinds
assert nodes_of(empty, "cuGraphNodeGetDependencies") == [copy.value, child.value]
print("ok nodes")

instance = c_void_p()
ok(cuda.cuGraphInstantiateWithFlags(byref(instance), g, c_ulonglong(0)))
assert holds(first) == bytes(SIZE), "nothing before the launch"
launched(instance)
assert holds(first) == holds(second) == b"\x11" * SIZE
assert holds(third) == b"\x55\x44\x33\x22" * (SIZE // 4)
print("ok launch")

ok(cuda.cuGraphExecMemsetNodeSetParams(instance, fill, byref(fill_of(first, 0x66)), context))
ok(cuda.cuGraphNodeSetEnabled(instance, copy, 0))
launched(instance)
assert (holds(first)[0], holds(second)[0]) == (0x66, 0x11), "one changed, one disabled"
ok(cuda.cuGraphNodeSetEnabled(instance, copy, 1))
launched(instance)
assert holds(second)[0] == 0x66
print("ok changes")

ok(cuda.cuGraphMemsetNodeSetParams(fill, byref(fill_of(first, 0x77))))
launched(instance)
assert holds(first)[0] == 0x66, "an instance does not follow its graph by itself"
info = (c_ulonglong * 3)()
ok(cuda.cuGraphExecUpdate_v2(instance, g, info))
launched(instance)
assert holds(first)[0] == 0x77, "until it is updated"
other = graph()
add("EmptyNode", other, [])
assert cuda.cuGraphExecUpdate_v2(instance, other, info) == 910, "to one of another shape"
print("ok update")

clone = c_void_p()
ok(cuda.cuGraphClone(byref(clone), g))
ok(cuda.cuGraphDestroyNode(empty))
assert (len(nodes_of(g)), len(nodes_of(clone))) == (3, 4)
print("ok clone")

module, function = c_void_p(), c_void_p()
ok(cuda.cuModuleLoadData(byref(module), b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry f() { ret; }
"""))
ok(cuda.cuModuleGetFunction(byref(function), module, b"f"))
kernel = Kernel(func=function, grid=(2, 1, 1), block=(32, 1, 1))
node = add("KernelNode_v2", g, [child], byref(kernel))


@HOST_FUNCTION
def call(_):
    called.append(True)


add("HostNode", g, [node], byref(HostParams(call, None)))
ok(cuda.cuGraphInstantiateWithFlags(byref(instance), g, c_ulonglong(0)))
ok(cuda.cuGraphExecKernelNodeSetParams_v2(instance, node, byref(kernel)))
ok(cuda.cuGraphLaunch(instance, None))
while not called:
    ok(cuda.cuCtxSynchronize())
print("ok kernels and functions")

stream = c_void_p()
ok(cuda.cuStreamCreate(byref(stream), 1))
ok(cuda.cuStreamBeginCapture_v2(stream, 0))
ok(cuda.cuMemsetD8Async(c_ulonglong(first), 1, c_size_t(SIZE), stream))
captured = c_void_p()
ok(cuda.cuStreamEndCapture(stream, byref(captured)))
assert nodes_of(captured), "what was captured is not nothing"
print("ok capture")
