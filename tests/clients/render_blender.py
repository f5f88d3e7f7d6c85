# SPDX-License-Identifier: Apache-2.0
"""Blender's Cycles: the same picture on the card and on the processor.

    render_blender.py [--picture FILE.png]   a larger one, on the card alone, for docs/

The scene is made here: spheres of metal, glass and clay on a chequered floor.
"""

import sys
import tempfile
from pathlib import Path

import bpy
import numpy as np

from client import check, main

WIDTH, HEIGHT, SAMPLES = 96, 64, 8
# name, place, radius, colour, metallic, roughness, transmission
SPHERES = (("metal", (-1.3, 0.3, 0.8), 0.8, (0.9, 0.72, 0.35, 1), 1.0, 0.12, 0.0),
           ("glass", (0.45, -0.9, 0.55), 0.55, (0.95, 0.98, 1.0, 1), 0.0, 0.0, 1.0),
           ("clay", (1.45, 0.7, 0.95), 0.95, (0.75, 0.16, 0.1, 1), 0.0, 0.6, 0.0),
           ("small", (-0.2, 1.7, 0.4), 0.4, (0.1, 0.35, 0.7, 1), 0.0, 0.3, 0.0))


def material(name, colour, metallic, roughness, transmission):
    made = bpy.data.materials.new(name)
    made.use_nodes = True
    inputs = made.node_tree.nodes["Principled BSDF"].inputs
    inputs["Base Color"].default_value = colour
    inputs["Metallic"].default_value = metallic
    inputs["Roughness"].default_value = roughness
    inputs["Transmission Weight"].default_value = transmission
    return made


def floor():
    bpy.ops.mesh.primitive_plane_add(size=40)
    made = material("floor", (0.5, 0.5, 0.5, 1), 0.0, 0.4, 0.0)
    nodes, links = made.node_tree.nodes, made.node_tree.links
    pattern = nodes.new("ShaderNodeTexChecker")
    pattern.inputs["Scale"].default_value = 40
    pattern.inputs["Color1"].default_value = (0.85, 0.85, 0.85, 1)
    pattern.inputs["Color2"].default_value = (0.12, 0.15, 0.2, 1)
    links.new(pattern.outputs["Color"], nodes["Principled BSDF"].inputs["Base Color"])
    bpy.context.object.data.materials.append(made)


def build_scene():
    bpy.ops.wm.read_factory_settings(use_empty=True)
    floor()
    for name, place, radius, *surface in SPHERES:
        bpy.ops.mesh.primitive_uv_sphere_add(segments=48, ring_count=24, radius=radius,
                                             location=place)
        bpy.ops.object.shade_smooth()
        bpy.context.object.data.materials.append(material(name, *surface))
    bpy.ops.object.light_add(type="AREA", location=(3, -3, 5), rotation=(0.6, 0.5, 0.2))
    bpy.context.object.data.energy, bpy.context.object.data.size = 400, 3
    bpy.ops.object.camera_add(location=(0.2, -6.2, 2.6), rotation=(1.22, 0, 0.03))
    scene = bpy.context.scene
    scene.camera = bpy.context.object
    scene.world = bpy.data.worlds.new("sky")
    scene.world.use_nodes = True
    background = scene.world.node_tree.nodes["Background"]
    background.inputs["Color"].default_value = (0.5, 0.65, 0.9, 1)
    background.inputs["Strength"].default_value = 0.5
    scene.render.engine = "CYCLES"
    scene.view_settings.view_transform = "Standard"
    scene.cycles.use_adaptive_sampling = False
    scene.cycles.max_bounces = 6
    return scene


def cuda_devices():
    """The names of Cycles' CUDA devices, all of them switched on."""
    preferences = bpy.context.preferences.addons["cycles"].preferences
    preferences.compute_device_type = "CUDA"
    preferences.get_devices()
    for device in preferences.devices:
        device.use = device.type == "CUDA"
    return [device.name for device in preferences.devices if device.type == "CUDA"]


def render(device, path, width, height, samples, denoise=False):
    scene = build_scene()
    cuda_devices()
    scene.cycles.use_denoising = denoise
    scene.cycles.device = device
    scene.cycles.samples = samples
    scene.render.resolution_x, scene.render.resolution_y = width, height
    scene.render.resolution_percentage = 100
    scene.render.filepath = str(path)
    scene.render.image_settings.file_format = "PNG"
    scene.render.image_settings.color_mode = "RGB"
    bpy.ops.render.render(write_still=True)


def pixels(path):
    image = bpy.data.images.load(str(path))
    values = np.array(image.pixels[:]).reshape(image.size[1], image.size[0], -1)
    return (values[:, :, :3] * 255).round()


@check
def card_is_a_cuda_device():
    bpy.ops.preferences.addon_enable(module="cycles")
    names = cuda_devices()
    assert len(names) == 1, names


@check
def picture_is_the_processors():
    with tempfile.TemporaryDirectory() as folder:
        seen = {}
        for device in ("CPU", "GPU"):
            path = Path(folder) / f"{device}.png"
            render(device, path, WIDTH, HEIGHT, SAMPLES)
            seen[device] = pixels(path)
    assert seen["CPU"].std() > 20, "the picture shows nothing"
    apart = np.abs(seen["GPU"] - seen["CPU"])
    # Sums of light in another order, of 255 steps a few; a wrong path of light is far off.
    assert (apart > 2).mean() < 0.001, f"{(apart > 2).sum()} of {apart.size} values differ"


if "--picture" in sys.argv:
    bpy.ops.preferences.addon_enable(module="cycles")
    print("devices", cuda_devices())
    # The noise that few samples leave is removed on the processor.
    render("GPU", sys.argv[-1], 400, 260, 20, denoise=True)
else:
    main(f"Blender {bpy.app.version_string}")
