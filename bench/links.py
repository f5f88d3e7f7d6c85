# SPDX-License-Identifier: Apache-2.0
"""What is done for links that are not loopback, and what it costs where they are:
compression, further connections, images by name.

Each pair of runs differs in one setting only and follows the other at once; a ratio is
formed within a pair, the median of the pairs is reported.
"""

import statistics

SLOW = (250, "--rate=25")       # 0.5 ms round trip, 25 MB/s
LONG = (10000, "--window=512")  # 20 ms, half a MiB of each connection under way
GIGABIT = (100, "--rate=125")

AIMS = {
    "compress_auto_of_off_text_up": ("text up at 25 MB/s, compression auto / off", 1.5, False),
    "compress_auto_of_off_text_down": ("text down at 25 MB/s, compression auto / off", 1.5, False),
    "compress_auto_of_off_noise_up": ("noise up at 25 MB/s, auto / off", 0.98, False),
    "compress_auto_of_off_noise_down": ("noise down at 25 MB/s, auto / off", 0.98, False),
    "compress_auto_of_off_loopback_up": ("text up on loopback, auto / off", 0.98, False),
    "compress_auto_of_off_loopback_down": ("text down on loopback, auto / off", 0.98, False),
    "connections_five_of_one_up": ("noise up, 20 ms, 512 KiB windows: 5 connections / 1", 2.0, False),
    "connections_five_of_one_down": ("noise down, the same", 2.0, False),
    "image_second_of_first": ("200 MiB module at 1 Gbit/s: second process / first", 0.25, True),
}


def transfer(bench, link, data, mib, repeats, **env):
    """{up_mbps, down_mbps} of one process behind @link (None: loopback)."""
    before = [bench.build / "bench" / "delay_proxy", *link] if link else []
    bench.env.update(env)
    try:
        return bench.run(*before, bench.build / "bench" / "transfer", f"--mib={mib}",
                         f"--repeats={repeats}", f"--only={data}")
    finally:
        for key in env:
            del bench.env[key]


def ratios(bench, link, data, mib, repeats, setting, on, off):
    """([up ratios], [down ratios]): with @setting @on, to @off."""
    up, down = [], []
    for number in range(bench.args.rounds):
        pair = [transfer(bench, link, data, mib, repeats, **{setting: word})
                for word in ((on, off) if number % 2 else (off, on))]
        with_it, without = pair if number % 2 else reversed(pair)
        up.append(with_it[f"{data}_up_mbps"] / without[f"{data}_up_mbps"])
        down.append(with_it[f"{data}_down_mbps"] / without[f"{data}_down_mbps"])
    return up, down


def measure(bench, progress):
    found = {}

    def pair(name, *args):
        progress(f"links: {name}")
        up, down = ratios(bench, *args)
        found.update(bench.collect([{f"{name}_up": a, f"{name}_down": b}
                                    for a, b in zip(up, down)]))

    compress = ("GPUPOOL_COMPRESS", "auto", "off")
    pair("compress_auto_of_off_text", SLOW, "text", 8, 3, *compress)
    pair("compress_auto_of_off_noise", SLOW, "noise", 8, 3, *compress)
    pair("compress_auto_of_off_loopback", None, "text", 64, 9, *compress)
    pair("connections_five_of_one", LONG, "noise", 16, 5, "GPUPOOL_CONNECTIONS", "auto", "1")
    found.update(images(bench, progress))
    return found


def images(bench, progress):
    """Attach and load, by a first and by a second process; new content each round."""
    found = {}
    for name, link in (("loopback", None), ("gigabit", GIGABIT)):
        before = [bench.build / "bench" / "delay_proxy", *link] if link else []
        first, again = [], []
        for number in range(bench.args.rounds):
            progress(f"links: images, {name}: round {number + 1} of {bench.args.rounds}")
            for times in (first, again):
                times.append(bench.run(*before, bench.build / "bench" / "image",
                                       f"--seed={number + (50 if link else 1)}")["image_ms"])
        found[f"image_first_ms_{name}"] = statistics.median(first)
        found[f"image_again_ms_{name}"] = statistics.median(again)
    found["image_second_of_first"] = found["image_again_ms_gigabit"] / found["image_first_ms_gigabit"]
    return found
