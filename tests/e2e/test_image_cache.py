# SPDX-License-Identifier: Apache-2.0
"""Code images are sent to a host once: the next process sends their name."""

import random

from harness import Host

MIB = 1 << 20
TCP = {"GPUPOOL_TRANSPORT": "tcp"}


def big_image(case, seed=1, size=8 * MIB):
    """A PTX text of about @size bytes that runs and does not compress away."""
    ptx = (case.build / "tests" / "ptx" / "vecadd.ptx").read_bytes()
    noise = random.Random(seed).randbytes(size // 2).hex().encode()
    lines = b"".join(b"// " + noise[at:at + 4000] + b"\n"
                     for at in range(0, len(noise), 4000))
    path = case.folder / f"image-{seed}.ptx"
    path.write_bytes(ptx + b"\n" + lines)
    return path


class Cache(Host):
    """A host, and what its image cache says of itself."""

    def cache(self):
        return tuple(int(self.metric(f"image_cache_{name}")) for name in
                     ("hits_total", "misses_total", "images", "saved_bytes_total"))

    def load(self, path, env=None, kept=None):
        """Load it in a process and session of its own; the CUresult.  A worker hands its image
        over beside its calls, and has little time for that when its client is gone: the process
        stays until so many were @kept or evicted."""
        session = self.pool.session()
        shell = session.cudash({**TCP, **(env or {})}).begin()
        result = shell("load", path)[0]
        if kept:
            self.wait_kept(kept)
        shell.close()
        session.close()
        return result

    def link(self, path, kept=None):
        """The same as a linker's only input."""
        session = self.pool.session()
        shell = session.cudash(TCP).begin()
        result = shell("link", path)
        if kept:
            self.wait_kept(kept)
        shell.close()
        session.close()
        return result

    def wait_kept(self, count):
        self.case.wait_for(lambda: self.cache()[2] + self.metric("image_cache_evicted_total") >= count,
                           f"{count} images are kept")


def test_second_process_sends_the_name_only(case):
    host = Cache(case)
    image = big_image(case)
    case.equal(host.load(image, kept=1), 0, "first load")
    case.equal(host.cache(), (0, 1, 1, 0), "hits, misses, images, bytes saved")
    case.equal(host.load(image), 0, "second load")
    size = image.stat().st_size
    case.equal(host.cache(), (1, 1, 1, size), "hits, misses, images, bytes saved")
    case.equal(host.metric("image_cache_bytes"), size + 17, "bytes held, with a NUL and a note")


def test_killed_worker_leaves_the_cache_whole(case):
    host = Cache(case)
    image = big_image(case)
    for seed in range(2, 5):
        session = host.pool.session()
        shell = session.cudash(TCP).begin()
        shell.send("load", big_image(case, seed))
        host.pool.kill(host.pool.workers()[0])
        shell.answer()  # an error, unless the load was faster
        shell.close()
        session.close()
    case.equal(host.load(image, kept=host.cache()[2] + 1), 0, "a load afterwards")
    case.equal(host.load(image), 0, "the same again")
    case.equal(host.cache()[0], 1, "hits")


def test_cache_stays_within_its_bytes(case):
    host = Cache(case, "--image-cache", "3MiB")
    for seed in range(1, 5):
        case.equal(host.load(big_image(case, seed, MIB), kept=seed), 0, "load")
    case.check(host.metric("image_cache_bytes") <= 3 * MIB, "the cache holds more than 3 MiB")
    case.equal(host.metric("image_cache_evicted_total"), 2, "images that went")
    case.equal(host.load(big_image(case, 9, 4 * MIB)), 0, "one that is too large to keep")
    case.equal(host.cache()[2], 2, "images")


def test_cache_that_is_off_is_not_asked(case):
    host = Cache(case, "--image-cache", "off")
    image = big_image(case)
    for _ in range(2):
        case.equal(host.load(image), 0, "load")
    case.equal(host.cache(), (0, 0, 0, 0), "hits, misses, images, bytes saved")


def test_broken_image_is_not_kept(case):
    host = Cache(case)
    image = big_image(case)
    image.write_bytes(b".version 7.0\n.target sm_70\nnonsense!\n" + image.read_bytes())
    case.check(host.load(image) != 0, "a broken image was loaded")
    case.check(host.load(image) != 0, "a broken image was loaded")
    case.equal(host.cache(), (0, 2, 0, 0), "hits, misses, images, bytes saved")


def test_what_a_linker_is_given_is_sent_once(case):
    host = Cache(case)
    image = big_image(case)
    size = image.stat().st_size + 1  # a PTX input has its NUL counted
    case.equal(host.link(image, kept=2), [0, "-"], "first process")  # input and output
    case.equal(host.link(image), [0, "-"], "second process")
    hits, misses, images, saved = host.cache()
    case.equal((hits, misses, images), (2, 2, 2), "hits, misses, images")
    case.check(saved >= size, f"only {saved} of {size} bytes were saved")
