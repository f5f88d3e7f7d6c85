# SPDX-License-Identifier: Apache-2.0
"""A program of the fuzzer as C that compiles and does the same: with replay_*.c, which has the calls.

    gcc -I tests/apifuzz -I proto -I common -I build/gen PROGRAM.c \\
        $(ls tests/apifuzz/replay_*.c | grep -v main) -pthread -lcuda
"""

import sys

CALLS = {
    "ctx": "cuCtxCreate_v2(&ctx[{0}], {1}, {2})", "ctxd": "cuCtxDestroy_v2(ctx[{0}])",
    "cur": "cuCtxSetCurrent(ctx[{0}])", "push": "cuCtxPushCurrent_v2(ctx[{0}])",
    "pop": "cuCtxPopCurrent_v2(&ctx[31])", "pret": "cuDevicePrimaryCtxRetain(&ctx[{0}], {1})",
    "prel": "cuDevicePrimaryCtxRelease_v2({1})", "prst": "cuDevicePrimaryCtxReset_v2({1})",
    "csync": "cuCtxSynchronize()",
    "st": "cuStreamCreate(&stream[{0}], {1})", "std": "cuStreamDestroy_v2(stream[{0}])",
    "sts": "cuStreamSynchronize(stream[{0}])", "stq": "cuStreamQuery(stream[{0}])",
    "sti": "cuStreamIsCapturing(stream[{0}], &status)",
    "ev": "cuEventCreate(&event[{0}], {1})", "evd": "cuEventDestroy_v2(event[{0}])",
    "evr": "cuEventRecord(event[{0}], stream[{1}])", "evs": "cuEventSynchronize(event[{0}])",
    "evq": "cuEventQuery(event[{0}])", "evw": "cuStreamWaitEvent(stream[{0}], event[{1}], 0)",
    "da": "cuMemAlloc_v2(&dev[{0}], {1})",
    "dm": "cuMemAllocManaged(&dev[{0}], {1}, CU_MEM_ATTACH_GLOBAL)",
    "daa": "cuMemAllocAsync(&dev[{0}], {1}, stream[{2}])", "df": "cuMemFree_v2(dev[{0}])",
    "past": "cuMemcpyDtoH_v2(word, dev[{0}] + size - 4, 8)",
    "dfa": "cuMemFreeAsync(dev[{0}], stream[{1}])",
    "dasks": "cuMemGetAddressRange_v2(&base, &size, dev[{0}] + {1})",
    "ha": "cuMemHostAlloc((void **)&host[{0}], {1}, {2})", "hf": "cuMemFreeHost(host[{0}])",
    "hr": "cuMemHostRegister_v2(host[{0}], host_size[{0}], {1})",
    "hu": "cuMemHostUnregister(host[{0}])", "hasks": "cuMemHostGetFlags(&flags, host[{0}])",
    "set8": "cuMemsetD8Async(dev[{0}] + {1}, {3}, {2}, stream[{4}])",
    "set32": "cuMemsetD32Async(dev[{0}] + {1}, {3}, {2}, stream[{4}])",
    "h2d": "cuMemcpyHtoDAsync_v2(dev[{0}] + {1}, host[{2}] + {3}, {4}, stream[{5}])",
    "d2h": "cuMemcpyDtoHAsync_v2(host[{2}] + {3}, dev[{0}] + {1}, {4}, stream[{5}])",
    "d2d": "cuMemcpyDtoDAsync_v2(dev[{0}] + {1}, dev[{2}] + {3}, {4}, stream[{5}])",
    "uni": "cuMemcpyAsync(dev[{0}] + {1}, (CUdeviceptr)(host[{2}] + {3}), {4}, stream[{5}])",
    "ard": "cuArrayDestroy(array[{0}])",
    "h2a": "cuMemcpyHtoA_v2(array[{0}], {1}, host[{2}] + {3}, {4})",
    "a2h": "cuMemcpyAtoH_v2(host[{2}] + {3}, array[{0}], {1}, {4})",
    "h2aa": "cuMemcpyHtoAAsync_v2(array[{0}], {1}, host[{2}] + {3}, {4}, stream[{5}])",
    "a2ha": "cuMemcpyAtoHAsync_v2(host[{2}] + {3}, array[{0}], {1}, {4}, stream[{5}])",
    "hfn": "cuLaunchHostFunc(stream[{0}], say, (void *){2})",
    "hwr": "cuLaunchHostFunc(stream[{0}], fill, host[{1}])",
    "cb": "cuStreamAddCallback(stream[{0}], say_too, (void *){2}, 0)",
    "stv": "cuStreamWaitValue32_v2(stream[{0}], dev[{1}], {2}, CU_STREAM_WAIT_VALUE_EQ)",
    "cap": "cuStreamBeginCapture_v2(stream[{0}], {1})",
    "cape": "cuStreamEndCapture(stream[{0}], &graph[{1}])",
    "gnew": "cuGraphCreate(&graph[{0}], {1})", "gd": "cuGraphDestroy(graph[{0}])",
    "gcl": "cuGraphClone(&graph[{0}], graph[{1}])",
    "gasks": "cuGraphGetNodes(graph[{0}], NULL, &size)",
    "gnd": "cuGraphDestroyNode(node[{0}])",
    "inst": "cuGraphInstantiateWithFlags(&exec[{0}], graph[{1}], 0)",
    "upd": "cuGraphExecUpdate_v2(exec[{0}], graph[{1}], &info)",
    "gl": "cuGraphLaunch(exec[{0}], stream[{1}])", "xd": "cuGraphExecDestroy(exec[{0}])",
    "pl": "cuMemPoolCreate(&pool[{0}], card {1})", "pld": "cuMemPoolDestroy(pool[{0}])",
    "pla": "cuMemAllocFromPoolAsync(&dev[{0}], {1}, pool[{2}], stream[{3}])",
    "plhigh": "cuMemPoolSetAttribute(pool[{0}], CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none)",
    "plset": "cuDeviceSetMemPool(card {1}, pool[{0}])",
    "pltrim": "cuMemPoolTrimTo(pool[{0}], {1})", "vm": "cuMemMap(dev[{0}], {1}) on card {2}",
    "vmd": "cuMemUnmap(dev[{0}])", "adv": "cuMemAdvise(dev[{0}] + {1}, {2}, {3}, card {4})",
    "pre": "cuMemPrefetchAsync(dev[{0}] + {1}, {2}, card {3}, stream[{4}])",
}

# The form without a stream, by the number that is the stream.
SYNC = {"set8": (4, "cuMemsetD8_v2"), "set32": (4, "cuMemsetD32_v2"), "h2d": (5, "cuMemcpyHtoD_v2"),
        "d2h": (5, "cuMemcpyDtoH_v2"), "d2d": (5, "cuMemcpyDtoD_v2"), "uni": (5, "cuMemcpy")}


def call(name, numbers):
    """What the driver is asked; nothing for lines that are more than one call."""
    text = CALLS.get(name)
    if not text:
        return ""
    at, short = SYNC.get(name, (0, ""))
    text = text.format(*numbers, *["0"] * 8)
    if short and numbers[at] == "-1":
        text = short + text[text.index("("):text.rindex(", stream[")] + ")"
    return " /* " + text.replace("stream[-1]", "NULL").replace("ctx[-1]", "NULL") + " */"


def as_c(lines):
    body = [f'    "{line}\\n"{call(line.split()[1], line.split()[2:])}' for line in lines]
    return "\n".join(['#include "replay.h"', "", "/* THREAD NAME NUMBER..., see replay_program.c */",
                      "static const char program[] =", *body, "    ;", "",
                      "int", "main(void)", "{", "    return replay_text(program);", "}"])


if __name__ == "__main__":
    print(as_c([line.strip() for line in sys.stdin if line.strip() and line[0] != "#"]))
