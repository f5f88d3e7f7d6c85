# SPDX-License-Identifier: Apache-2.0
"""COLMAP: features of pictures found and matched on the card, against its own code for the
processor, and depths by its stereo of many views, against the surface that was drawn."""

import tempfile
from pathlib import Path

import numpy as np
import pycolmap

from client import check, main

RNG = np.random.default_rng(3)
TEXTURE = RNG.random((64, 64))
PLACES = np.array([[0, 0, 0], [.12, 0, 0], [-.12, .02, 0], [.02, .12, 0]])
DEVICES = pycolmap.Device.cpu, pycolmap.Device.cuda


def height(x, y):
    return 2 + .12 * np.sin(2.2 * x) * np.cos(1.7 * y)


def brightness(x, y):
    total = 0
    for scale in (6, 17, 41):
        across, down = x * scale % 63, y * scale % 63
        i, j = across.astype(int), down.astype(int)
        a, b = across - i, down - j
        total = total + (TEXTURE[j, i] * (1 - a) * (1 - b) + TEXTURE[j, i + 1] * a * (1 - b) +
                         TEXTURE[j + 1, i] * (1 - a) * b + TEXTURE[j + 1, i + 1] * a * b)
    return total / 3


class Camera:
    def __init__(self, width, height_, focal):
        self.width, self.height, self.focal = width, height_, focal
        self.numbers = f"{focal},{focal},{width / 2},{height_ / 2}"

    def seen(self, place):
        """The picture from there, and how far away each pixel's piece of the surface is."""
        down, across = np.mgrid[:self.height, :self.width]
        x, y = (across + .5 - self.width / 2) / self.focal, (down + .5 - self.height / 2) / self.focal
        depth = np.full(x.shape, 1.5)
        for _ in range(60):
            depth += .7 * (height(place[0] + x * depth, place[1] + y * depth) - place[2] - depth)
        grey = brightness(place[0] + x * depth + 5, place[1] + y * depth + 5) * 255
        return np.stack([grey.astype(np.uint8)] * 3, -1), depth

    def draw(self, folder, count):
        folder.mkdir()
        for number, place in enumerate(PLACES[:count]):
            head = f"P6 {self.width} {self.height} 255\n".encode()
            (folder / f"{number}.ppm").write_bytes(head + self.seen(place)[0].tobytes())


def work(folder, device, database):
    options = pycolmap.ImageReaderOptions()
    options.camera_model, options.camera_params = "PINHOLE", Camera(320, 240, 300).numbers
    pycolmap.extract_features(database, folder, camera_mode=pycolmap.CameraMode.SINGLE,
                              reader_options=options, device=device)
    pycolmap.match_exhaustive(database, device=device)
    with pycolmap.Database.open(database) as found:
        points = [np.asarray(found.read_keypoints(image.image_id))[:, :2]
                  for image in sorted(found.read_all_images(), key=lambda image: image.name)]
        return points, found.num_inlier_matches()


@check
def features_and_matches():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        Camera(320, 240, 300).draw(folder / "images", 2)
        (host, host_matches), (card, card_matches) = (
            work(folder / "images", device, folder / f"{device.name}.db") for device in DEVICES)
    for wanted, got in zip(host, card):
        assert .9 * len(wanted) < len(got) < 1.1 * len(wanted), (len(wanted), len(got))
        away = np.sqrt(((got[:, None] - wanted[None]) ** 2).sum(-1)).min(1)
        assert (away < .5).mean() > .9, f"{(away < .5).mean():.2f} of them where the processor found them"
    assert host_matches > 500 and card_matches > .9 * host_matches, (host_matches, card_matches)


def model(folder, camera):
    """What COLMAP would have found of the cameras, and of some points, as its text files."""
    focal, middle = camera.focal, (camera.width / 2, camera.height / 2)
    points = [(x, y, height(x, y)) for x, y in RNG.uniform(-.6, .6, (150, 2))]
    tracks, images = [[] for _ in points], []
    for number, place in enumerate(PLACES):
        seen = []
        for name, point in enumerate(points):
            u, v = focal * (np.array(point[:2]) - place[:2]) / (point[2] - place[2]) + middle
            if 0 < u < camera.width and 0 < v < camera.height:
                tracks[name].append(f"{number + 1} {len(seen)}")
                seen.append(f"{u:.3f} {v:.3f} {name + 1}")
        x, y, z = -place
        images.append(f"{number + 1} 1 0 0 0 {x} {y} {z} 1 {number}.ppm\n{' '.join(seen)}\n")
    folder.mkdir()
    (folder / "cameras.txt").write_text(
        f"1 PINHOLE {camera.width} {camera.height} {camera.numbers.replace(',', ' ')}\n")
    (folder / "images.txt").write_text("".join(images))
    (folder / "points3D.txt").write_text("".join(
        f"{name + 1} {x} {y} {z} 128 128 128 0.5 {' '.join(tracks[name])}\n"
        for name, (x, y, z) in enumerate(points) if len(tracks[name]) > 1))


@check
def depths():
    camera = Camera(96, 72, 90)
    options = pycolmap.PatchMatchOptions()
    options.geom_consistency = options.filter = False
    options.num_iterations, options.window_radius = 2, 4
    options.depth_min, options.depth_max, options.cache_size = 1.2, 3, 1
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        camera.draw(folder / "images", len(PLACES))
        model(folder / "sparse", camera)
        for name in ("depth_maps", "normal_maps", "consistency_graphs"):
            (folder / "stereo" / name).mkdir(parents=True)
        (folder / "stereo" / "patch-match.cfg").write_text("0.ppm\n1.ppm, 2.ppm, 3.ppm\n")
        (folder / "stereo" / "fusion.cfg").write_text("0.ppm\n")
        pycolmap.patch_match_stereo(folder, options=options)
        data = (folder / "stereo" / "depth_maps" / "0.ppm.photometric.bin").read_bytes()
    got = np.frombuffer(data.split(b"&", 3)[3], np.float32).reshape(camera.height, camera.width)
    away = np.abs(got - camera.seen(PLACES[0])[1])[8:-8, 8:-8]
    assert np.median(away) < .03 and (away < .1).mean() > .9, (np.median(away), (away < .1).mean())


main(f"pycolmap {pycolmap.__version__}")
