# SPDX-License-Identifier: Apache-2.0
"""Cupoch: clouds of points, meshes, grids, images and registrations on the card, against NumPy."""

import importlib.metadata

import cupoch as cph
import numpy as np

from client import check, main

SHAPES, VECTORS, REGISTRATION = cph.geometry, cph.utility, cph.registration
RNG = np.random.default_rng(1)
POINTS = RNG.random((800, 3)).astype(np.float32)
# A hill, about which no direction is like another.
FLAT = RNG.random((1500, 2)) * 2 - 1
HILL = np.column_stack([FLAT, .3 * np.sin(2 * FLAT[:, 0]) + .2 * FLAT[:, 1] ** 2]).astype(np.float32)


def cloud(points=POINTS, colors=None):
    made = SHAPES.PointCloud()
    made.points = VECTORS.Vector3fVector(points)
    if colors is not None:
        made.colors = VECTORS.Vector3fVector(colors)
    return made


def plain(vector):
    return np.asarray(vector.cpu())


def in_order(values):
    return values[np.lexsort(values.T)]


def distances(one, other):
    return np.linalg.norm(one[:, None] - other[None], axis=2)


def turn(angle, axis=2):
    """A rotation about an axis and a step, four by four."""
    made = np.eye(4, dtype=np.float32)
    a, b = (i for i in range(3) if i != axis)
    made[a, a] = made[b, b] = np.cos(angle)
    made[a, b], made[b, a] = -np.sin(angle), np.sin(angle)
    made[:3, 3] = .02, -.03, .01
    return made


def moved(points, by):
    return points @ by[:3, :3].T + by[:3, 3]


@check
def memory():
    """Every way that it allocates memory."""
    for mode in (cph.CudaDefaultAllocation, cph.PoolAllocation, cph.CudaManagedMemory):
        cph.initialize_allocator(mode, 1 << 26)
        np.testing.assert_array_equal(plain(cloud().points), POINTS)


@check
def points():
    np.testing.assert_allclose(cloud().get_max_bound(), POINTS.max(0))
    np.testing.assert_allclose(cloud().get_min_bound(), POINTS.min(0))
    np.testing.assert_allclose(cloud().get_center(), POINTS.mean(0), rtol=1e-5)
    by = turn(.4)
    np.testing.assert_allclose(plain(cloud().transform(by).points), moved(POINTS, by), atol=1e-6)
    np.testing.assert_allclose(plain(cloud().translate([1, 2, 3]).points), POINTS + [1, 2, 3], atol=1e-6)
    box = SHAPES.AxisAlignedBoundingBox([.2, .2, .2], [.7, .8, .9])
    inside = ((POINTS >= [.2, .2, .2]) & (POINTS <= [.7, .8, .9])).all(1)
    np.testing.assert_array_equal(in_order(plain(cloud().crop(box).points)), in_order(POINTS[inside]))


@check
def cells():
    """The mean of the points of each cell, whose grid begins half a cell below the first point."""
    size = .25
    cell = np.floor((POINTS - (POINTS.min(0) - size / 2)) / size).astype(int)
    _, which, count = np.unique(cell, axis=0, return_inverse=True, return_counts=True)
    sums = np.zeros((len(count), 3))
    np.add.at(sums, which.ravel(), POINTS)
    card = plain(cloud().voxel_down_sample(size).points)
    assert len(card) == len(count)
    near = distances(card, sums / count[:, None])
    assert near.min(0).max() < 1e-5 and near.min(1).max() < 1e-5


@check
def neighbours():
    tree = SHAPES.KDTreeFlann(cloud())
    apart = distances(POINTS, POINTS) ** 2
    for i in (0, 17, 501):
        n, which, far = tree.search_knn_vector_3f(POINTS[i], 7)
        assert n == 7
        np.testing.assert_array_equal(np.asarray(which), np.argsort(apart[i])[:7])
        np.testing.assert_allclose(np.asarray(far), np.sort(apart[i])[:7], atol=1e-5)
    apart = np.sqrt(apart)
    lonely, _ = cloud().remove_radius_outlier(8, .12)[:2]
    many = (apart < .12).sum(1)
    kept = {tuple(point) for point in plain(lonely.points)}
    for point, n in zip(POINTS, many):
        if abs(n - 8.5) > 1.5:  # it is not said whether a point is its own neighbour
            assert (tuple(point) in kept) == (n > 8.5)


@check
def normals():
    """The direction in which the nearest points differ least."""
    made = cloud(HILL)
    made.estimate_normals(SHAPES.KDTreeSearchParamKNN(20))
    card = plain(made.normals)
    nearest = np.argsort(distances(HILL, HILL), axis=1)[:, :20]
    for i in range(0, len(HILL), 37):
        least = np.linalg.eigh(np.cov(HILL[nearest[i]].T))[1][:, 0]
        assert abs(abs(card[i] @ least) - 1) < 1e-3, f"point {i}: {card[i]} is not {least}"


@check
def groups():
    """DBSCAN: three balls that are far from each other, and one point alone."""
    balls = np.concatenate([RNG.normal(size=(60, 3)) * .05 + where for where in np.eye(3) * 2] +
                           [[[9, 9, 9]]]).astype(np.float32)
    order = RNG.permutation(len(balls))
    card = plain(cloud(balls[order]).cluster_dbscan(.3, 5))
    for ball in range(3):
        assert len(set(card[(order >= ball * 60) & (order < ball * 60 + 60)])) == 1
    assert len(set(card)) == 4 and card[order == 180] == -1


@check
def planes():
    wall = np.column_stack([RNG.random((400, 2)), np.full(400, .5)]).astype(np.float32)
    wall[:, 2] += .2 * wall[:, 0]
    plane, inliers = cloud(np.concatenate([wall, RNG.random((80, 3)) + [0, 0, 2]]).astype(np.float32)) \
        .segment_plane(.001, 3, 200)
    wanted = np.array([.2, 0, -1, .5])
    plane = np.asarray(plane) * wanted[2] / plane[2]
    np.testing.assert_allclose(plane, wanted, atol=5e-3)
    assert len(plain(inliers)) >= 390


@check
def registrations():
    by, start = turn(.06), np.eye(4, dtype=np.float32)
    target = cloud(moved(HILL, by).astype(np.float32))
    target.estimate_normals(SHAPES.KDTreeSearchParamKNN(20))
    for way in (REGISTRATION.TransformationEstimationPointToPoint(),
                REGISTRATION.TransformationEstimationPointToPlane()):
        found = REGISTRATION.registration_icp(cloud(HILL), target, .2, start, way,
                                              REGISTRATION.ICPConvergenceCriteria(1e-7, 1e-7, 60))
        np.testing.assert_allclose(found.transformation, by, atol=2e-3)
        assert found.fitness > .99


@check
def meshes():
    """A ring: create_sphere() writes more triangles than it has made room for."""
    ring = SHAPES.TriangleMesh.create_torus(1, .25, 30, 20)
    corners, faces = plain(ring.vertices), plain(ring.triangles)
    ring.compute_triangle_normals()
    sides = [corners[faces[:, i]] - corners[faces[:, 0]] for i in (1, 2)]
    across = np.cross(*sides)
    size = np.linalg.norm(across, axis=1)
    np.testing.assert_allclose(ring.get_surface_area(), size.sum() / 2, rtol=1e-5)
    real = size > 1e-6
    np.testing.assert_allclose(plain(ring.triangle_normals)[real], (across / np.maximum(size, 1e-9)[:, None])[real],
                               atol=1e-4)
    on_it = plain(ring.sample_points_uniformly(2000).points)
    assert len(on_it) == 2000
    away = np.hypot(np.hypot(on_it[:, 0], on_it[:, 1]) - 1, on_it[:, 2])
    assert .23 < away.min() and away.max() < .256 and abs(on_it.mean(0)).max() < .08
    twice = SHAPES.TriangleMesh()
    twice.vertices = VECTORS.Vector3fVector(np.concatenate([corners, corners[:50]]))
    twice.triangles = VECTORS.Vector3iVector(faces)
    twice.remove_duplicated_vertices()
    assert len(plain(twice.vertices)) == len(np.unique(corners, axis=0))


@check
def grids():
    grid = SHAPES.VoxelGrid.create_from_point_cloud(cloud(), .1)
    wanted = np.unique(np.floor((POINTS - (POINTS.min(0) - .05)) / .1).astype(int), axis=0)
    assert len(grid.voxels) == len(wanted)


@check
def depth_images():
    """A picture turned round gives the points of the other side."""
    deep = (RNG.random((48, 64)) * 2 + 1).astype(np.float32)
    lens = cph.camera.PinholeCameraIntrinsic(64, 48, 60., 58., 31.3, 23.7)
    for turned, made in ((deep, lambda image: image), (deep[:, ::-1], lambda image: image.flip_horizontal()),
                         (deep[::-1], lambda image: image.flip_vertical())):
        seen = SHAPES.PointCloud.create_from_depth_image(made(SHAPES.Image(deep)), lens)
        down, across = np.mgrid[:48, :64]
        wanted = np.stack([(across - 31.3) * turned / 60, (down - 23.7) * turned / 58, turned], axis=2).reshape(-1, 3)
        np.testing.assert_allclose(plain(seen.points), wanted, atol=1e-5)


main(f"cupoch {importlib.metadata.version('cupoch')}")
