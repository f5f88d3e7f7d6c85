# SPDX-License-Identifier: Apache-2.0
"""FFmpeg: its filters for the card, against those for the processor, or a model where these do
something else.  Frames are noise, so that a wrong pixel shows."""

import os
import pathlib
import subprocess
import tempfile

import imageio_ffmpeg
import numpy as np

from client import check, main

FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
HOME = pathlib.Path(tempfile.mkdtemp(dir=os.environ["HOME"]))
WIDTH, HEIGHT, FRAMES = 176, 96, 5
RNG = np.random.default_rng(1)
NOISE = RNG.integers(0, 256, (FRAMES, 3, HEIGHT, WIDTH), np.uint8)
# What a camera sees: waves that wander.
SMOOTH = (128 + 90 * np.sin(np.arange(WIDTH) / 9 + np.arange(HEIGHT)[:, None] / 13 +
                            np.arange(FRAMES)[:, None, None, None] / 3 +
                            np.arange(3)[:, None, None])).astype(np.uint8)
INPUT = ["-f", "rawvideo", "-pixel_format", "yuv444p", "-video_size", f"{WIDTH}x{HEIGHT}",
         "-framerate", "25", "-i"]


def ffmpeg(frames, *words):
    """What it makes of @frames; bytes."""
    source, target = HOME / "in", HOME / "out"
    source.write_bytes(frames.tobytes())
    done = subprocess.run([FFMPEG, "-hide_banner", "-loglevel", "error", "-y", "-init_hw_device", "cuda=card",
                           "-filter_hw_device", "card", *INPUT, source, *words, "-f", "rawvideo", target],
                          check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return np.fromfile(target, np.uint8)


def filtered(frames, filters, layout="yuv444p", back=None):
    return ffmpeg(frames, "-vf", f"format={layout},{filters},format={back or layout}")


def on_card(frames, filters, layout="yuv444p", back=None):
    return filtered(frames, f"hwupload,{filters},hwdownload", layout, back)


def both(frames, card, host, layout="yuv444p", back=None, tolerance=0):
    one, other = on_card(frames, card, layout, back), filtered(frames, host, layout, back)
    np.testing.assert_allclose(one.astype(int), other.astype(int), atol=tolerance)
    assert one.std() > 0


def planes(values):
    return values.reshape(-1, 3, HEIGHT, WIDTH).astype(int)


@check
def frames_come_back():
    for layout in ("yuv444p", "yuv420p", "nv12", "p010le", "yuv444p16le", "bgr0"):
        both(NOISE, "null", "null", layout)


@check
def formats():
    for layout, other in (("yuv420p", "nv12"), ("nv12", "yuv420p"), ("yuv444p", "yuv444p16le"),
                          ("yuv420p", "p010le"), ("p010le", "yuv420p")):
        both(NOISE, f"scale_cuda=format={other}", "null", layout, other, 1)


@check
def the_nearest_pixel():
    for layout, size in (("yuv420p", "352:192"), ("yuv444p", "88:48"), ("nv12", "352:192"), ("bgr0", "528:96")):
        both(NOISE, f"scale_cuda={size}:interp_algo=nearest", f"scale={size}:flags=neighbor", layout)


@check
def interpolation():
    for method, size in (("bilinear", "88:48"), ("bicubic", "300:200"), ("lanczos", "352:192")):
        both(SMOOTH, f"scale_cuda={size}:interp_algo={method}", f"scale={size}:flags={method}", "yuv444p", None, 3)


@check
def turned_and_padded():
    for way in ("clock", "cclock", "clock_flip", "cclock_flip"):
        both(NOISE, f"transpose_cuda=dir={way}", f"transpose=dir={way}", "yuv420p")
    both(NOISE, "pad_cuda=200:120:10:20:black", "pad=200:120:10:20:black", "yuv420p")


@check
def one_picture_over_another():
    graph = ("[0:v]format=yuv420p,split[a][b];[b]crop=64:48:10:20,format={layout},{alpha}null[c];"
             "[a]{up}[below];[c]{up}[above];[below][above]overlay{card}=30:10{down},format=yuv420p")
    for layout, alpha, tolerance in (("yuv420p", "", 0), ("yuva420p", "colorchannelmixer=aa=0.5,format=yuva420p,", 2)):
        card, host = (ffmpeg(NOISE, "-filter_complex", graph.format(
            layout=layout, alpha=alpha, card=where, up="hwupload" if where else "null",
            down=",hwdownload" if where else "")) for where in ("_cuda", ""))
        np.testing.assert_allclose(card.astype(int), host.astype(int), atol=tolerance)


def between(plane):
    """Between four pixels, where chromakey_cuda and bilateral_cuda read: at corners, with interpolation."""
    wide = np.pad(plane, ((1, 0), (1, 0)), mode="edge")
    return (wide[:-1, :-1] + wide[1:, :-1] + wide[:-1, 1:] + wide[1:, 1:]) // 4


@check
def a_colour_becomes_transparent():
    """The left half is green, within 12 of 255."""
    green = np.array([80, 91, 81])[:, None, None] + RNG.integers(-12, 13, NOISE.shape)
    frames = np.where(np.arange(WIDTH) < WIDTH // 2, green, np.maximum(NOISE, 128)).astype(np.uint8)
    plain = filtered(frames, "null", "yuv420p").reshape(FRAMES, -1).astype(int)
    made = on_card(frames, "chromakey_cuda=green:0.1", "yuv420p", "yuva420p").reshape(FRAMES, -1).astype(int)
    for i in range(FRAMES):
        at = 0
        for shape in ((HEIGHT, WIDTH), (HEIGHT // 2, WIDTH // 2), (HEIGHT // 2, WIDTH // 2)):
            end = at + shape[0] * shape[1]
            np.testing.assert_allclose(made[i, at:end].reshape(shape), between(plain[i, at:end].reshape(shape)), atol=1)
            at = end
        opaque = made[i, at:].reshape(HEIGHT, WIDTH)
        assert not opaque[:, :WIDTH // 2 - 4].any() and (opaque[:, WIDTH // 2 + 4:] == 255).all()


@check
def ranges():
    both(SMOOTH, "colorspace_cuda=range=pc", "scale=in_range=tv:out_range=pc", tolerance=1)


@check
def the_frame_that_shows_most():
    both(NOISE, "thumbnail_cuda=5", "thumbnail=5", "yuv420p")


EDGE = 5


def rows(frame, by=0):
    """Its rows of odd numbers but for those near the edges, or what is @by below each."""
    return frame[:, EDGE + by:HEIGHT - EDGE + by:2]


def along_edges(frame):
    """Means along the direction in which the rows above and below are most alike, three pixels wide.
    Unlike yadif, yadif_cuda does not prefer straight down where two are."""
    above, below = rows(frame, -1), rows(frame, 1)

    def part(values, by):
        return values[..., 3 + by:WIDTH - 3 + by]

    def unlike(by):
        return sum(abs(part(above, i + by) - part(below, i - by)) for i in (-1, 0, 1))

    least, found = unlike(0), (part(above, 0) + part(below, 0)) // 2
    for way in (-1, 1):
        goes_on = np.full(least.shape, True)
        for by in (way, 2 * way):
            goes_on &= unlike(by) < least
            least = np.where(goes_on, unlike(by), least)
            found = np.where(goes_on, (part(above, by) + part(below, -by)) // 2, found)
    return np.pad(found, ((0, 0), (0, 0), (3, 3)))


def between_fields(earlier, later):
    """From two fields and the frame's own rows, as bwdif_cuda weighs them: it reads the fourth row
    above of the later one twice, and never the fourth below."""
    def both_of(*ways):
        return sum(rows(frame, by) for frame in (earlier, later) for by in ways)

    far = rows(earlier, -4) + rows(earlier, 4) + 2 * rows(later, -4)
    return (5570 * both_of(0) - 3801 * both_of(-2, 2) + 1016 * far) >> 2


def within_limits(found, now, earlier, later, change):
    """What the fields @earlier and @later allow a pixel to be."""
    above, below = rows(now, -1), rows(now, 1)
    middle = (rows(earlier) + rows(later)) // 2
    up, down = ((rows(earlier, by) + rows(later, by)) // 2 - row for by, row in ((-2, above), (2, below)))
    most = np.maximum.reduce([middle - below, middle - above, np.minimum(up, down)])
    least = np.minimum.reduce([middle - below, middle - above, np.maximum(up, down)])
    room = np.maximum.reduce([change, least, -most])
    return np.where(change == 0, middle, np.clip(found, middle - room, middle + room))


def changed(now, *others):
    return [(abs(rows(other, -1) - rows(now, -1)) + abs(rows(other, 1) - rows(now, 1))) // 2 for other in others]


def yadif(before, now, after):
    """Unlike that of yadif, the change in time counts whole."""
    change = np.maximum.reduce([abs(rows(before) - rows(now)), *changed(now, before, after)])
    return within_limits(along_edges(now), now, before, now, change)[..., 3:-3]


def bwdif(before, now, after):
    """Unlike those of bwdif, the fields are those before and after."""
    above, below = rows(now, -1), rows(now, 1)
    change = abs(rows(before) - rows(after))
    far = rows(now, -3) + rows(now, 3)
    found = np.where(abs(above - below) > change, between_fields(before, after) + 4309 * (above + below) - 213 * far,
                     5077 * (above + below) - 981 * far) >> 13
    change = np.maximum.reduce([change // 2, *changed(now, before)])
    return np.clip(within_limits(found, now, before, after, change), 0, 255)


@check
def fields_become_frames():
    source = planes(NOISE)
    for filters, model, inside in (("yadif_cuda", yadif, np.s_[..., 3:-3]), ("bwdif_cuda=0", bwdif, np.s_[...])):
        made = planes(on_card(NOISE, filters))
        for i in range(1, FRAMES - 1):
            np.testing.assert_array_equal(made[i][:, 0::2], source[i][:, 0::2])
            np.testing.assert_array_equal(rows(made[i])[inside], model(*source[i - 1:i + 2]))


@check
def edges_are_kept():
    """Bilateral: a pixel becomes a mean of its window, in which near ones of like colour weigh most."""
    steps = np.where(np.arange(WIDTH) < WIDTH // 2, 60, 180).astype(np.uint8)
    frames = np.broadcast_to(steps, NOISE.shape) + RNG.integers(0, 9, NOISE.shape, np.uint8)
    made = planes(on_card(frames, "bilateral_cuda=sigmaS=3:sigmaR=20:window_size=5"))
    inside = made[..., 8:-8, 8:-8]
    assert inside.std(axis=(2, 3)).mean() > 50, "the step is gone"
    left, right = inside[..., :WIDTH // 2 - 8], inside[..., WIDTH // 2 - 7:]
    assert 60 <= left.min() and left.max() <= 68 and 180 <= right.min() and right.max() <= 188
    assert left.std() < frames[..., :WIDTH // 2].std() / 2, "nothing was smoothed"


main(f"ffmpeg {imageio_ffmpeg.get_ffmpeg_version()}")
