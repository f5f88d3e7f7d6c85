# SPDX-License-Identifier: Apache-2.0
"""Open3D: tensors, clouds of points, hash maps, depth images and volumes on the card, against its
own code for the processor."""

import numpy as np
import open3d as o3d

from client import check, main

CORE, SHAPES, PIPELINES = o3d.core, o3d.t.geometry, o3d.t.pipelines
HOST, CARD = CORE.Device("CPU:0"), CORE.Device("CUDA:0")
RNG = np.random.default_rng(1)
POINTS, COLOURS = (RNG.random((3000, 3)).astype(np.float32) for _ in range(2))
A, B = (RNG.random((50, 40)).astype(np.float32) for _ in range(2))

# A ball in front of a camera whose numbers leave no pixel on the border to the next one.
WIDTH, HEIGHT = 320, 240
CAMERA = np.array([[261.37, 0, 158.71], [0, 259.11, 121.43], [0, 0, 1]])
DOWN, ACROSS = np.mgrid[:HEIGHT, :WIDTH]
SQUARE = ((ACROSS - 158.71) / 261.37) ** 2 + ((DOWN - 121.43) / 259.11) ** 2 + 1
INSIDE = 16 - 4 * SQUARE * (4 - .49)
DEPTH = np.where(INSIDE > 0, (4 - np.sqrt(np.maximum(INSIDE, 0))) / (2 * SQUARE) * 1000, 0).astype(np.uint16)
COLOUR = (RNG.random((HEIGHT, WIDTH, 3)) * 255).astype(np.uint8)


def tensor(values, device):
    return CORE.Tensor(np.ascontiguousarray(values), device=device)


def plain(values):
    return values.cpu().numpy()


def in_order(values):
    return values[np.lexsort(values.T)]


def cloud(device, points=POINTS):
    made = SHAPES.PointCloud(tensor(points, device))
    made.point.colors = tensor(COLOURS[:len(points)], device)
    return made


def image(values, device):
    return SHAPES.Image(tensor(values, device))


def both(function, tolerance=0):
    """Every array that it gives is the same on both."""
    host, card = function(HOST), function(CARD)
    assert len(host) == len(card) > 0
    for one, other in zip(host, card):
        np.testing.assert_allclose(np.asarray(other, float), np.asarray(one, float), atol=tolerance)


@check
def tensors():
    def elements(device):
        a, b = tensor(A, device), tensor(B, device)
        whole = tensor((A * 100).astype(np.int64), device)
        return [plain(value) for value in (
            a + b, a * 2 - b / 3, a > b, a.exp(), a.sin(), a.sqrt(), (a * 9).floor(), whole + 7,
            (a * 100).to(CORE.uint8), a.to(CORE.float64) * 3, a[3:20:2, ::3], a[a > .5],
            a[tensor(np.array([3, 1, 7]), device)], a.T().contiguous(), a.reshape((40, 50)))]

    def reductions(device):
        a = tensor(A, device)
        return [plain(value) for value in (a.sum((0,)), a.sum((0, 1)), a.max((1,)), a.min((0,)),
                                           a.argmax((1,)), a.prod((1,)))]
    both(elements, 1e-6)
    both(reductions, 2e-4)


@check
def hash_maps():
    def found(device):
        cells = (POINTS[:1500] * 12).astype(np.int32)
        keys, first = np.unique(cells, axis=0, return_index=True)
        table = CORE.HashMap(2000, CORE.int32, (3,), CORE.float32, (1,), device)
        table.insert(tensor(keys, device), tensor(POINTS[first, :1], device))
        places, hits = table.find(tensor(cells, device))
        values = plain(table.value_tensor()[places.to(CORE.int64)])
        table.erase(tensor(keys[::2], device))
        return [plain(hits), values, [len(keys), table.size()],
                plain(table.find(tensor(keys, device))[1])]
    both(found)


@check
def neighbours():
    def near(device):
        search = CORE.nns.NearestNeighborSearch(tensor(POINTS, device))
        asked = tensor(POINTS[:200] + .01, device)
        search.knn_index()
        search.fixed_radius_index(.1)
        search.hybrid_index(.1)
        rows = plain(search.fixed_radius_search(asked, .1)[2]).astype(np.int64)
        squares = plain(search.fixed_radius_search(asked, .1)[1])
        return [np.sort(plain(search.knn_search(asked, 8)[1]), 1), rows, np.sort(squares),
                np.sort(plain(search.hybrid_search(asked, .1, 10)[1]), 1)]
    both(near, 1e-6)


@check
def clouds():
    turn = np.array([[0, 1, 0, .5], [-1, 0, 0, .2], [0, 0, 1, .1], [0, 0, 0, 1]], np.float32)

    def changed(device):
        normals = cloud(device)
        normals.estimate_normals(max_nn=20, radius=.15)
        features = PIPELINES.registration.compute_fpfh_feature(normals, 40, .2)
        return [in_order(plain(cloud(device).voxel_down_sample(.1).point.positions)),
                plain(cloud(device).transform(tensor(turn, device)).point.positions),
                np.abs(plain(normals.point.normals)), plain(features)]
    both(changed, 1e-4)


@check
def registration():
    motion = np.eye(4)
    motion[:2, :2] = [[np.cos(.1), -np.sin(.1)], [np.sin(.1), np.cos(.1)]]
    motion[:3, 3] = .02, -.03, .01

    def found(device):
        steps = PIPELINES.registration
        target = cloud(device).transform(tensor(motion.astype(np.float32), device))
        target.estimate_normals(max_nn=20, radius=.15)
        return [plain(steps.icp(cloud(device), target, .2, tensor(np.eye(4), HOST), way).transformation)
                for way in (steps.TransformationEstimationPointToPlane(),
                            steps.TransformationEstimationPointToPoint())]
    both(found, 1e-5)
    np.testing.assert_allclose(found(CARD)[0], motion, atol=1e-4)


@check
def depth_images():
    def seen(device):
        camera = tensor(CAMERA, HOST)
        metres = image(DEPTH, device).clip_transform(1000, 0, 3, 0)
        places = metres.create_vertex_map(camera)
        points = SHAPES.PointCloud.create_from_depth_image(image(DEPTH, device), camera)
        beyond = cloud(device, POINTS + np.array([0, 0, 1], np.float32))
        return [plain(metres.as_tensor()), plain(places.as_tensor()),
                plain(places.create_normal_map().as_tensor()), in_order(plain(points.point.positions)),
                plain(beyond.project_to_depth_image(WIDTH, HEIGHT, camera).as_tensor())]
    both(seen, 1e-5)


@check
def volumes():
    def grown(device):
        grid = SHAPES.VoxelBlockGrid(("tsdf", "weight", "color"), (CORE.float32,) * 3, (1, 1, 3),
                                     .03, 8, 2000, device)
        camera = tensor(CAMERA, HOST)
        for shift in (.0013, .0217):
            place = np.eye(4)
            place[0, 3] = shift
            seen = (camera, tensor(place, HOST), 1000., 3.)
            blocks = grid.compute_unique_block_coordinates(image(DEPTH, device), *seen)
            grid.integrate(blocks, image(DEPTH, device), image(COLOUR, device), camera, *seen)
        used = grid.hashmap().active_buf_indices().to(CORE.int64)
        keys = plain(grid.hashmap().key_tensor()[used])
        order = np.lexsort(keys.T)
        mesh = grid.extract_triangle_mesh(1.)
        rays = grid.ray_cast(blocks, camera, tensor(np.eye(4), HOST), WIDTH, HEIGHT, ["depth"],
                             1000., .1, 3., 1.)
        return [keys[order], *(plain(grid.attribute(name)[used])[order] for name in ("tsdf", "weight", "color")),
                in_order(np.round(plain(grid.extract_point_cloud(1.).point.positions), 4)),
                in_order(np.round(plain(mesh.vertex.positions), 4)), [mesh.triangle.indices.shape[0]],
                plain(rays["depth"])]
    both(grown, 2e-4)


main(f"open3d {o3d.__version__}")
