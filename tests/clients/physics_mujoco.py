# SPDX-License-Identifier: Apache-2.0
"""MuJoCo Warp: scenes stepped on the card, against MuJoCo on the processor, in several worlds."""

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from client import check, main

WORLDS = 3
WORLD = """<mujoco><option timestep="0.004" {option}/><worldbody>
<geom type="plane" size="5 5 .1"/>{bodies}</worldbody>{rest}</mujoco>"""


def body(at, geom, more=""):
    return f'<body pos="{at}"><freejoint/><geom {geom}/>{more}</body>'


def same(bodies, steps, tolerance, option="", rest="", start=None, control=None):
    """The worlds are alike, and each is MuJoCo's, which counts in doubles."""
    model = mujoco.MjModel.from_xml_string(WORLD.format(bodies=bodies, option=option, rest=rest))
    data = mujoco.MjData(model)
    data.qvel[:] = np.linspace(-.5, .5, model.nv) if start is None else start
    if control is not None:
        data.ctrl[:] = control
    mujoco.mj_forward(model, data)
    before = data.qpos.copy()
    card_model, card = mjw.put_model(model), mjw.put_data(model, data, nworld=WORLDS)
    contacts = 0
    for _ in range(steps):
        mjw.step(card_model, card)
        mujoco.mj_step(model, data)
        contacts = max(contacts, data.ncon)
    places, speeds = card.qpos.numpy(), card.qvel.numpy()
    assert np.abs(data.qpos - before).max() > 1e-2, "nothing moved"
    np.testing.assert_array_equal(places, places[:1].repeat(WORLDS, 0))
    np.testing.assert_allclose(places[0], data.qpos, atol=tolerance)
    np.testing.assert_allclose(speeds[0], data.qvel, atol=30 * tolerance)
    return contacts


@check
def free_flight():
    same(body("0 0 2", 'type="box" size=".1 .15 .2"'), 40, 1e-6)


@check
def a_chain_of_hinges():
    links = ""
    for _ in range(4):
        links = ('<body pos=".3 0 0"><joint type="hinge" axis="0 1 0" damping=".1"/>'
                 f'<geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/>{links}</body>')
    for integrator in ("Euler", "implicitfast", "RK4"):
        same(f'<body pos="0 0 3">{links}</body>', 60, 1e-4, f'integrator="{integrator}"')


@check
def things_that_fall_on_each_other():
    pile = body("0 0 .25", 'type="box" size=".1 .15 .2"') + body(".03 0 .6", 'type="sphere" size=".12"')
    for solver in ("Newton", "CG"):
        assert same(pile, 60, 2e-3, f'solver="{solver}"', start=0) >= 2, "nothing touched"
    assert same(pile, 60, 2e-3, 'cone="elliptic"', start=0) >= 2, "nothing touched"


@check
def shapes_that_touch_the_ground():
    for geom in ('type="capsule" size=".1 .2"', 'type="ellipsoid" size=".1 .15 .2"',
                 'type="cylinder" size=".1 .2"'):
        assert same(body("0 0 .22", geom), 40, 2e-3, start=0) >= 1, "nothing touched"


@check
def motors_springs_and_limits():
    arm = ('<body pos="0 0 2"><joint name="a" type="hinge" axis="0 1 0" stiffness="2" damping=".2" '
           'limited="true" range="-30 30"/><geom type="capsule" size=".04" fromto="0 0 0 .4 0 0"/>'
           '<body pos=".4 0 0"><joint name="b" type="slide" axis="1 0 0" damping=".5"/>'
           '<geom type="box" size=".05 .05 .05"/></body></body>')
    rest = ('<actuator><motor joint="a" gear="3"/><position joint="b" kp="20"/></actuator>')
    same(arm, 80, 1e-3, rest=rest, start=0, control=[0.5, 0.1])


@check
def bodies_that_are_tied_together():
    two = ('<body name="one" pos="0 0 2"><freejoint/><geom type="box" size=".1 .1 .1"/></body>'
           '<body name="two" pos=".4 0 2"><freejoint/><geom type="sphere" size=".1"/></body>')
    rest = '<equality><connect body1="one" body2="two" anchor=".2 0 0"/></equality>'
    same(two, 60, 2e-3, rest=rest)


wp.config.quiet = True
main(f"mujoco {mujoco.__version__}, warp {wp.__version__}")
