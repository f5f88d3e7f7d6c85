# SPDX-License-Identifier: Apache-2.0
"""What TLS costs over TCP: calls beside calls in clear text, copies beside raw TLS by
OpenSSL, and attachments.

The two sides of a ratio follow each other at once and take turns in going first; the
median of the ratios is reported.
"""

import statistics

AIMS = {
    "tls_sync_ratio": ("synchronous call over TCP, TLS / clear", 1.25, True),
    "tls_bulk_ratio": ("64 MiB over our TLS / raw TLS by OpenSSL, worse way", 0.9, False),
    "tls_bulk_up_ratio": ("64 MiB up", None, False),
    "tls_bulk_down_ratio": ("64 MiB down", None, False),
    "attach_per_s": ("attachments per second, TLS, processes included", None, False),
    "attach_per_s_clear": ("the same in clear text", None, False),
}


def fast(bench, tls, only):
    return bench.run(bench.build / "bench" / "fast", "--beside=0", f"--only={only}", tls=tls)


def in_turns(number, first, second):
    """What both give, in this order, whichever ran first."""
    if number % 2:
        after = second()
        return first(), after
    return first(), second()


def calls(bench, number):
    tls, clear = in_turns(number, lambda: fast(bench, "require", "sync_call"),
                          lambda: fast(bench, "off", "sync_call"))
    return tls["sync_call_us"], clear["sync_call_us"]


def copies(bench, number):
    ours, raw = in_turns(number, lambda: fast(bench, "require", "copy_cost"),
                         lambda: bench.run(bench.build / "bench" / "raw_tls"))
    return {"tls_up_64mib_gbps": ours["h2d_64mib_gbps"],
            "tls_down_64mib_gbps": ours["d2h_64mib_gbps"],
            "tls_bulk_up_ratio": ours["h2d_64mib_gbps"] / raw["raw_tls_up_64mib_gbps"],
            "tls_bulk_down_ratio": ours["d2h_64mib_gbps"] / raw["raw_tls_down_64mib_gbps"],
            **raw}


def attachments(bench, number):
    program = bench.build / "bench" / "attach"
    tls, clear = in_turns(number, lambda: bench.run(program, tls="require"),
                          lambda: bench.run(program, tls="off"))
    return tls["attach_per_s"], clear["attach_per_s"]


def measure(bench, progress):
    sync, bulk, attach = [], [], []
    for number in range(bench.args.rounds * 2 + 1):
        progress(f"tls: round {number + 1} of {bench.args.rounds * 2 + 1}")
        sync.append(calls(bench, number))
        bulk.append(copies(bench, number))
        attach.append(attachments(bench, number))
    found = bench.collect(bulk)
    found["tls_bulk_ratio"] = min(found["tls_bulk_up_ratio"], found["tls_bulk_down_ratio"])
    found["tls_sync_call_us"] = statistics.median(tls for tls, _ in sync)
    found["clear_sync_call_us"] = statistics.median(clear for _, clear in sync)
    found.update(bench.collect([{"tls_sync_ratio": tls / clear} for tls, clear in sync]))
    found["attach_per_s"] = statistics.median(tls for tls, _ in attach)
    found["attach_per_s_clear"] = statistics.median(clear for _, clear in attach)
    # Whether OpenSSL could hand its records to this kernel.
    found["kernel_tls"] = bench.run(bench.build / "bench" / "raw_tls",
                                    "--ktls=1")["raw_tls_kernel"]
    return found
