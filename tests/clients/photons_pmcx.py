# SPDX-License-Identifier: Apache-2.0
"""Monte Carlo eXtreme: light in turbid matter, against the same random walk in NumPy, which has other
random numbers and so agrees within what chance allows.  Its runtime is one of CUDA 9."""

import importlib.metadata

import numpy as np
import pmcx

from client import check, main

SIDE, PHOTONS, PERIOD = 20, 20000, 5e-9  # millimetres, per run, seconds
MATTER = np.array([[0, 0, 1, 1], [.005, 1, .2, 1.37], [.05, 2, 0, 1.37]])  # absorbs, scatters per mm; g; n
PLAIN = np.ones((SIDE,) * 3, np.uint8)
LAYERS = PLAIN.copy()
LAYERS[:, :, 5:] = 2
DETECTOR = [10, 14, 0, 2]  # a disk: where, its radius


def run(volume, seed=42, **settings):
    done = pmcx.run({"nphoton": PHOTONS, "vol": volume, "tstart": 0, "tend": PERIOD, "tstep": PERIOD,
                     "srcpos": [10, 10, 0], "srcdir": [0, 0, 1], "prop": MATTER, "issrcfrom0": 1,
                     "isreflect": 0, "seed": seed, "nthread": 1024, "blocksize": 64, "autopilot": 0,
                     **settings})
    return done, np.squeeze(done["flux"]) * MATTER[volume, 0] * PERIOD  # what each voxel has absorbed


def turned(way, cosine, around):
    """Unit vectors that make these angles with those of @way."""
    sine, across = np.sqrt(1 - cosine ** 2), np.sqrt(np.maximum(1 - way[:, 2] ** 2, 1e-12))
    x, y, z = way.T
    made = np.stack([sine * (x * z * np.cos(around) - y * np.sin(around)) / across + x * cosine,
                     sine * (y * z * np.cos(around) + x * np.sin(around)) / across + y * cosine,
                     -sine * np.cos(around) * across + z * cosine], axis=1)
    straight = across < 1e-4
    made[straight] = np.stack([sine * np.cos(around), sine * np.sin(around), cosine * np.sign(z)], axis=1)[straight]
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def scattered(rng, g):
    """Cosines as Henyey and Greenstein give them."""
    u = rng.random(g.shape)
    safe = np.where(g == 0, 1, g)
    return np.where(g == 0, 2 * u - 1,
                    (1 + safe ** 2 - ((1 - safe ** 2) / (1 - safe + 2 * safe * u)) ** 2) / (2 * safe))


def walk(volume, photons=PHOTONS, seed=1):
    """What each voxel absorbs of @photons of weight 1, by steps that end at the next wall between voxels;
    where they leave, and with which weight."""
    rng = np.random.default_rng(seed)
    place = np.tile([10., 10, 1e-6], (photons, 1))
    way = np.tile([0., 0, 1], (photons, 1))
    weight, left = np.ones(photons), rng.exponential(size=photons)
    absorbed, exits = np.zeros(volume.shape), []
    while len(place):
        cell = tuple(np.clip(place.astype(int), 0, SIDE - 1).T)
        absorbs, scatters, g, _ = MATTER[volume[cell]].T
        with np.errstate(divide="ignore"):
            walls = np.where(way > 0, np.floor(place) + 1 - place, np.ceil(place) - 1 - place) / way
        wall = np.where(way == 0, np.inf, walls).min(axis=1) + 1e-9
        free = left / scatters
        step = np.minimum(wall, free)
        lost = weight * (1 - np.exp(-absorbs * step))
        np.add.at(absorbed, cell, lost)
        weight, place, left = weight - lost, place + way * step[:, None], left - step * scatters
        hit = free <= wall
        way[hit] = turned(way[hit], scattered(rng, g[hit]), rng.random(hit.sum()) * 2 * np.pi)
        left[hit] = rng.exponential(size=hit.sum())
        inside = ((place > 0) & (place < SIDE)).all(axis=1)
        exits.append(np.column_stack([place, weight])[~inside])
        place, way, weight, left = place[inside], way[inside], weight[inside], left[inside]
    return absorbed, np.concatenate(exits)


@check
def energy_is_kept():
    done, absorbed = run(PLAIN)
    stat = done["stat"]
    assert stat["nphoton"] == PHOTONS == stat["energytot"]
    np.testing.assert_allclose(absorbed.sum(), stat["energyabs"] / PHOTONS, rtol=1e-4)


@check
def one_medium():
    _, card = run(PLAIN)
    host, _ = walk(PLAIN)
    host /= PHOTONS
    np.testing.assert_allclose(card.sum(), host.sum(), rtol=.02)
    for axis in ((0, 1), (0, 2), (1, 2)):
        np.testing.assert_allclose(card.sum(axis=axis), host.sum(axis=axis), rtol=.12)


@check
def layers():
    _, card = run(LAYERS)
    host, _ = walk(LAYERS)
    host /= PHOTONS
    assert card[:, :, 5:].sum() > .1
    np.testing.assert_allclose(card.sum(axis=(0, 1))[:12], host.sum(axis=(0, 1))[:12], rtol=.12)


@check
def detected_light():
    done, _ = run(PLAIN, detpos=[DETECTOR], issavedet=1, savedetflag="dpx")
    which, path, _, *places = done["detp"]  # the detector, the way in each medium, the place
    places = np.stack(places, axis=1)
    assert (which == 1).all()
    np.testing.assert_array_less(np.linalg.norm(places[:, :2] - DETECTOR[:2], axis=1), 2 + 1e-3)
    assert abs(places[:, 2]).max() < 1e-2
    assert (path >= np.linalg.norm(places - [10, 10, 0], axis=1) - 1e-3).all(), "shorter than a straight line"
    _, exits = walk(PLAIN)
    wanted = np.count_nonzero((exits[:, 2] <= 0) & (np.hypot(exits[:, 0] - 10, exits[:, 1] - 14) < 2))
    assert abs(len(path) - wanted) < 4 * np.sqrt(2 * wanted), f"{len(path)} photons, not about {wanted}"


@check
def seeds():
    """The order of atomic additions is the only chance that is left."""
    (first, again, other) = (run(PLAIN, seed)[1] for seed in (7, 7, 8))
    np.testing.assert_allclose(first, again, rtol=1e-4, atol=1e-9)
    assert abs(first - other).max() > 1e-5


main(f"pmcx {importlib.metadata.version('pmcx')}")
