# SPDX-License-Identifier: Apache-2.0
"""ASTRA: projections and reconstructions on the card, through textures of two and three dimensions,
against ASTRA's own code for the processor where there is such a thing."""

import astra
import numpy as np

from client import check, main

SIDE, VOXELS = 64, 32
RNG = np.random.default_rng(1)
ROWS, COLUMNS = np.mgrid[:SIDE, :SIDE]
SLICE = np.zeros((SIDE, SIDE), np.float32)
SLICE[(COLUMNS - 30) ** 2 + (ROWS - 34) ** 2 < 400] = 1
SLICE[(COLUMNS - 24) ** 2 + (ROWS - 30) ** 2 < 60] = 2.5
PLANE = astra.create_vol_geom(SIDE, SIDE)
PARALLEL = astra.create_proj_geom("parallel", 1.0, 96, np.linspace(0, np.pi, 60, False))
FAN = astra.create_proj_geom("fanflat", 1.5, 96, np.linspace(0, 2 * np.pi, 60, False), 200, 100)
BODY = astra.create_vol_geom(VOXELS, VOXELS, VOXELS)
ANGLES = np.linspace(0, np.pi, 24, False)


def projector(name, rays):
    return astra.create_projector(name, rays, PLANE)


def projected(name, rays, plane=SLICE):
    return astra.create_sino(plane, projector(name, rays))[1]


def reconstructed(algorithm, name, rays, lines, turns, start=0, **options):
    place = astra.data2d.create("-vol", PLANE, start)
    config = astra.astra_dict(algorithm)
    config.update(ProjectorId=projector(name, rays), ReconstructionDataId=place, option=options,
                  ProjectionDataId=astra.data2d.create("-sino", rays, lines))
    astra.algorithm.run(astra.algorithm.create(config), turns)
    return astra.data2d.get(place)


def near(got, wanted, part):
    assert np.isfinite(got).all()
    error = np.abs(got - wanted).max() / np.abs(wanted).max()
    assert error <= part, f"off by {error:.3g} of the largest"


@check
def projections():
    """The card interpolates with 8 bits of the place between two values."""
    near(projected("cuda", PARALLEL), projected("linear", PARALLEL), 2e-3)
    vectors = astra.geom_2vec(PARALLEL)
    near(projected("cuda", vectors), projected("linear", vectors), 2e-3)
    # A fan's rays are of another width on the processor.
    near(projected("cuda", FAN), projected("line_fanflat", FAN), .08)


@check
def backprojections():
    """They are the transposed of projections but for the interpolation."""
    for rays in (PARALLEL, FAN):
        lines = projected("cuda", rays)
        back = reconstructed("BP_CUDA", "cuda", rays, lines, 1)
        np.testing.assert_allclose((back * SLICE).sum(dtype=float), (lines * lines).sum(dtype=float),
                                   rtol=.01)


@check
def reconstructions():
    lines = projected("linear", PARALLEL)
    for name, turns in (("SIRT", 20), ("CGLS", 8)):
        near(reconstructed(f"{name}_CUDA", "cuda", PARALLEL, lines, turns),
             reconstructed(name, "linear", PARALLEL, lines, turns), .06)


@check
def bounds_and_masks():
    lines = projected("cuda", PARALLEL)
    inside = ((COLUMNS - 31.5) ** 2 + (ROWS - 31.5) ** 2 < 900).astype(np.float32)
    got = reconstructed("SIRT_CUDA", "cuda", PARALLEL, lines, 40, MinConstraint=0, MaxConstraint=2,
                        ReconstructionMaskId=astra.data2d.create("-vol", PLANE, inside))
    assert got.min() >= 0 and got.max() <= 2 and (got[inside == 0] == 0).all() and got.std() > .3


@check
def likelihood():
    got = reconstructed("EM_CUDA", "cuda", FAN, projected("cuda", FAN), 60, start=1)
    assert np.sqrt(((got - SLICE) ** 2).mean()) < .12


@check
def volumes():
    body = RNG.random((VOXELS, VOXELS, VOXELS)).astype(np.float32)
    rays = astra.create_proj_geom("parallel3d", 1, 1, VOXELS, 48, ANGLES)
    lines = astra.create_sino3d_gpu(body, rays, BODY)[1]
    flat = astra.create_proj_geom("parallel", 1, 48, ANGLES)
    line = astra.create_projector("linear", flat, astra.create_vol_geom(VOXELS, VOXELS))
    for z in (0, 3, 16, 31):
        near(lines[z], astra.create_sino(body[z, ::-1].copy(), line)[1], 2e-3)


@check
def cones():
    body = np.zeros((VOXELS, VOXELS, VOXELS), np.float32)
    body[8:12, 10:20, 12:14] = 2
    body[16:24, 8:24, 8:20] += 1
    rays = astra.create_proj_geom("cone", 1.2, 1.2, 40, 48, 2 * ANGLES, 150, 60)
    which, lines = astra.create_sino3d_gpu(body, rays, BODY)
    back = astra.create_backprojection3d_gpu(lines, rays, BODY)[1]
    np.testing.assert_allclose((back * body).sum(dtype=float), (lines * lines).sum(dtype=float), rtol=.01)
    for name, turns, most in (("SIRT3D_CUDA", 30, .15), ("CGLS3D_CUDA", 10, .12)):
        place = astra.data3d.create("-vol", BODY)
        config = astra.astra_dict(name)
        config.update(ProjectionDataId=which, ReconstructionDataId=place)
        astra.algorithm.run(astra.algorithm.create(config), turns)
        assert np.sqrt(((astra.data3d.get(place) - body) ** 2).mean()) < most


main(f"astra {astra.__version__}")
