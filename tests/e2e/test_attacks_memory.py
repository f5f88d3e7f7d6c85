# SPDX-License-Identifier: Apache-2.0
"""A client with a ticket and no stub tries to read its worker's own memory: by graph
copies from addresses of the worker, by handles in unions, and by asking for addresses."""

import struct
from pathlib import Path

from harness.raw import RETAIN, Client, handle

HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4
MEMCPY_NODE = 1

ALLOC, DOWN = 0x080b, 0x0a1f
GRAPH_CREATE, ADD_COPY, SET_COPY, EXEC_SET_COPY = 0x0e0a, 0x0e06, 0x0e18, 0x0e22
INSTANTIATE, LAUNCH, GET_NODES, COPY_OF = 0x0e3e, 0x0e16, 0x0e0f, 0x0e17
CHILD_GRAPH, ADD_ANY, STAGE_NODE, POOL_CREATE = 0x0e08, 0x0e52, 0xe007, 0x1007
STREAM_CREATE, STREAM_SET = 0x0c01, 0x0c1a
GRAPH, EXEC, NODE, STREAM, POOL = 7, 8, 9, 5, 16

LENGTH = 64
# Of CUdevResource: bytes, CU_DEV_RESOURCE_TYPE_SM, and what a software card writes in it.
RESOURCE, SM_RESOURCE, SOFTGPU_RESOURCE, RESDESC = 144, 1, b"uMgS", 25


def copy(src_type, src, dst_type, dst, src_host=0):
    """CUDA_MEMCPY3D of one row."""
    src_side = (0, 0, 0, 0, src_type, src_host if src_type == HOST else 0,
                src if src_type != HOST else 0, 0, 0, LENGTH, 1)
    dst_side = (0, 0, 0, 0, dst_type, dst if dst_type == HOST else 0,
                dst if dst_type != HOST else 0, 0, 0, LENGTH, 1)
    return struct.pack("<25Q", *src_side, *dst_side, LENGTH, 1, 1)


def of_worker(kind, address, to):
    """A copy from @address of the worker's process, called host or unified memory."""
    return copy(kind, address, DEVICE, to, src_host=address)


class Attack(Client):
    """A client with 4 KiB on the card and a graph, and what it knows of its worker."""

    def __init__(self, case, pool, session):
        before = set(pool.workers())
        super().__init__(case, session)
        self.worker, = set(pool.workers()) - before
        self.must(RETAIN, struct.pack("<II", 0, 0))
        self.ctx = 1
        self.memory, = struct.unpack("<Q", self.must(ALLOC, struct.pack("<Q", 4096)))
        self.made = 0

    def new(self, kind):
        self.made += 1
        return handle(kind, self.made)

    def graph(self):
        graph = self.new(GRAPH)
        self.must(GRAPH_CREATE, struct.pack("<QQ", graph, 0))
        return graph

    def good_node(self, graph):
        """A copy within the card."""
        node = self.new(NODE)
        good = copy(DEVICE, self.memory + 1024, DEVICE, self.memory)
        self.must(ADD_COPY, struct.pack("<QQQ", node, graph, 0) + good + bytes(8))
        return node

    def ready(self, graph):
        executable = self.new(EXEC)
        result, _ = self.ask(INSTANTIATE, struct.pack("<QQQ", executable, graph, 0))
        return executable if result == 0 else 0

    def launched(self, executable):
        """What is on the card when the graph has run."""
        if executable:
            self.ask(LAUNCH, struct.pack("<QQ", executable, 0))
        return self.down(self.memory)

    def down(self, address):
        reply = self.must(DOWN, struct.pack("<QQQ", address, LENGTH, 0))
        return reply[8:8 + LENGTH]

    def target(self):
        """The first bytes of the worker's own program, as a secret that we can tell."""
        for line in open(f"/proc/{self.worker}/maps", encoding="ascii"):
            if "gpupool-worker" in line and "r--p 00000000" in line:
                return int(line.partition("-")[0], 16)
        return self.case.fail("the worker's program is not in its address space")


def add(a, bad):
    graph = a.graph()
    node = a.new(NODE)
    result, _ = a.ask(ADD_COPY, struct.pack("<QQQ", node, graph, 0) + bad + bytes(8))
    return result, a.launched(a.ready(graph))


def set_params(a, bad):
    graph = a.graph()
    result, _ = a.ask(SET_COPY, struct.pack("<Q", a.good_node(graph)) + bad)
    return result, a.launched(a.ready(graph))


def set_in_executable(a, bad):
    graph = a.graph()
    node = a.good_node(graph)
    executable = a.ready(graph)
    result, _ = a.ask(EXEC_SET_COPY, struct.pack("<QQ", executable, node) + bad + bytes(8))
    return result, a.launched(executable)


def add_any(a, bad):
    graph = a.graph()
    params = struct.pack("<i3i", MEMCPY_NODE, 0, 0, 0) + struct.pack("<iiQ", 0, 0, 0) + bad
    body = struct.pack("<QQQ", a.new(NODE), graph, 0) + params.ljust(256, b"\0") + \
        struct.pack("<QIIII", 0, 0, 0, 0, 0)
    result, _ = a.ask(ADD_ANY, body)
    return result, a.launched(a.ready(graph))


def test_no_graph_copy_reads_the_worker(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB", options=["--processes", 16])
    for way in (add, set_params, set_in_executable, add_any):
        for kind in (HOST, UNIFIED):
            a = Attack(case, pool, session)
            result, seen = way(a, of_worker(kind, a.target(), a.memory))
            case.check(b"ELF" not in seen, f"{way.__name__}, memory type {kind}: a client has "
                       f"read its worker's program: {seen!r}")
            if kind == HOST:
                case.check(result != 0, f"{way.__name__}: host memory was accepted")
            a.sock.close()


def test_no_answer_holds_an_address_of_the_worker(case):
    """A staged copy is a graph of the worker's with a buffer of the worker's."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    a = Attack(case, pool, session)
    graph = a.graph()
    node = a.new(NODE)
    named = 0x123456789000  # the client's own
    staged = copy(HOST, 0, DEVICE, a.memory, src_host=named)
    a.must(STAGE_NODE, struct.pack("<QQQ", node, graph, 0) + staged +
           struct.pack("<QQQ", 0, 77, 78))
    told = struct.unpack("<25Q", a.must(COPY_OF, struct.pack("<Q", node)))
    case.equal(told[5], named, "the client is told its own address")
    result, reply = a.ask(CHILD_GRAPH, struct.pack("<Q", node))
    if result == 0:  # as far as it was possible once
        inner, = struct.unpack("<Q", reply)
        nodes = a.must(GET_NODES, struct.pack("<QQII", inner, 8, 1, 0))
        for at in range(16, len(nodes), 8):
            inside, = struct.unpack_from("<Q", nodes, at)
            result, reply = a.ask(COPY_OF, struct.pack("<Q", inside)) if inside else (1, b"")
            if result == 0:
                case.equal(struct.unpack("<25Q", reply)[5], 0, "the source of the inner copy")
    case.check(result != 0, "the graph behind a staged copy is the client's to look into")


def test_handles_in_unions_are_looked_up(case):
    """The event of a stream's attribute is no number of the client's choice."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    a = Attack(case, pool, session)
    stream = a.new(STREAM)
    a.must(STREAM_CREATE, struct.pack("<QII", stream, 0, 0))
    for attribute in (7, 12):  # programmatic event, launch completion event
        value = struct.pack("<Q", a.target()).ljust(64, b"\0")
        result, _ = a.ask(STREAM_SET, struct.pack("<Q", stream) + value +
                          struct.pack("<ii", attribute, 0))
        case.equal(result, 400, f"attribute {attribute} with an address for an event")
    result, _ = a.ask(STREAM_SET, struct.pack("<Q64xii", stream, 1000, 0))
    case.equal(result, 1, "an attribute that nobody knows")


def test_pools_of_the_servers_own_memory_are_refused(case):
    """The null driver makes a pool of anything."""
    pool = case.pool(servers=1, cards=1, driver="null")
    session = pool.session(core=20, memory="128MiB")
    a = Attack(case, pool, session)
    for kind in (2, 3, 4):  # host, a node of the host, the current node
        props = struct.pack("<iiiiQQHH52x", 1, 0, kind, 0, 0, 1 << 20, 0, 0)
        result, _ = a.ask(POOL_CREATE, struct.pack("<Q", a.new(POOL)) + props)
        case.equal(result, 801, f"a pool at location type {kind}")


PTX = b""".version 7.0
.target sm_50
.address_size 64
.visible .entry k() { ret; }
\0"""
MODULE, FUNC, LINK = 2, 4, 18


def test_functions_end_with_their_module(case):
    """A driver frees both; the id of a function that outlived its module would lead there.
    The null driver believes every handle."""
    pool = case.pool(servers=1, cards=1, driver="null")
    session = pool.session(core=20, memory="128MiB")
    a = Attack(case, pool, session)
    module, func = a.new(MODULE), a.new(FUNC)
    image = PTX + bytes(-len(PTX) % 8)
    a.must(calls("cuModuleLoadDataEx"), struct.pack("<QIIIIQ", module, 0, 0, 0, 0, len(PTX)) + image)
    name = b"k\0".ljust(8, b"\0")
    a.must(calls("cuModuleGetFunction"), struct.pack("<QQII", func, module, 2, 0) + name)
    a.must(calls("gp_func_info"), struct.pack("<Q", func))
    a.must(calls("cuModuleUnload"), struct.pack("<Q", module))
    result, _ = a.ask(calls("gp_func_info"), struct.pack("<Q", func))
    case.equal(result, 400, "a function of a module that is gone")


def calls(name):
    """The number of a call, from the wire contract."""
    contract = Path(__file__).resolve().parents[2] / "proto" / "wire.lock"
    return next(int(line.split()[0], 16) for line in contract.read_text("ascii").splitlines()
                if line.split()[1] == name)


def test_a_wrapper_is_no_input_of_the_linker(case):
    """It is pointers, which the driver would follow in the worker."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    a = Attack(case, pool, session)
    wrapper = struct.pack("<IIQQ", 0x466243b1, 1, a.target(), 0)
    for kind in range(6):
        link = a.new(LINK)
        a.must(calls("cuLinkCreate_v2"), struct.pack("<QII", link, 0, 0))
        result, _ = a.ask(calls("cuLinkAddData_v2"),
                          struct.pack("<QiIIIQ", link, kind, 0, 2, 0, len(wrapper)) + wrapper +
                          b"x\0".ljust(8, b"\0"))
        case.equal(result, 200, f"a wrapper as input of type {kind}")


def test_resources_of_a_card_hold_no_bytes_of_the_driver(case):
    """And one that a client has changed does not reach it."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    a = Attack(case, pool, session)
    resource = a.must(calls("cuDeviceGetDevResource"), struct.pack("<ii", 0, SM_RESOURCE))[:RESOURCE]
    case.check(SOFTGPU_RESOURCE not in resource, "the driver's own bytes are shown")

    def describe(*resources):
        body = struct.pack("<QII", a.new(RESDESC), len(resources), 0) + b"".join(resources)
        return a.ask(calls("cuDevResourceGenerateDesc"), body)[0]

    case.equal(describe(resource), 0, "the resource as it was told")
    for at in (4, 12, 20, 95, 96, 100, 140):
        changed = bytearray(resource)
        changed[at] ^= 1
        case.equal(describe(bytes(changed)), 915, f"byte {at} changed")
        case.equal(describe(resource, bytes(changed)), 915, f"byte {at} of the second changed")


def test_textures_that_do_not_exist_do_not_reach_the_driver(case):
    """The null driver believes every number."""
    pool = case.pool(servers=1, cards=1, driver="null")
    session = pool.session(core=20, memory="128MiB")
    a = Attack(case, pool, session)
    for name in ("cuTexObjectGetResourceDesc", "cuTexObjectGetTextureDesc",
                 "cuTexObjectGetResourceViewDesc", "cuSurfObjectGetResourceDesc"):
        result, _ = a.ask(calls(name), struct.pack("<Q", a.target()))
        case.equal(result, 1, name)
