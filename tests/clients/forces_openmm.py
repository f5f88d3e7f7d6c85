# SPDX-License-Identifier: Apache-2.0
"""OpenMM: forces of a small box on the card, and steps.

The Reference platform is OpenMM's plain C++; each force on the card is compared with it.
Fourier transforms of PME are done on the processor here, and on the card by OpenMM's
installation test (installation_openmm.py).
"""

import numpy as np
import openmm
from openmm import unit

from client import check, main

N = 216


def system():
    """Charged, bonded particles in a periodic box, with PME."""
    made = openmm.System()
    made.setDefaultPeriodicBoxVectors(*(np.eye(3) * 2.4))
    force, bonds, angles = (openmm.NonbondedForce(), openmm.HarmonicBondForce(),
                            openmm.HarmonicAngleForce())
    force.setNonbondedMethod(openmm.NonbondedForce.PME)
    force.setCutoffDistance(1.0)
    for i in range(N):
        made.addParticle(16.0)
        force.addParticle((-0.4, 0.2, 0.2)[i % 3], 0.25, 0.6)
        if i % 3:
            bonds.addBond(i - 1, i, 0.4, 5000.0)
            force.addException(i - 1, i, 0.0, 0.1, 0.0)
        if i % 3 == 2:
            angles.addAngle(i - 2, i - 1, i, 1.8, 300.0)
    for part in (force, bonds, angles):
        made.addForce(part)
    return made


def places():
    side = round(N ** (1 / 3))
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    return 0.4 * grid + np.random.default_rng(1).normal(0, 0.02, (N, 3))


def context(platform, properties=None):
    integrator = openmm.VerletIntegrator(0.0005)
    made = openmm.Context(system(), integrator, openmm.Platform.getPlatformByName(platform),
                          properties or {})
    made.setPositions(places())
    made.setVelocities(np.random.default_rng(2).normal(0, 0.1, (N, 3)))
    return made, integrator


def forces(made):
    state = made.getState(getForces=True, getEnergy=True)
    newton = unit.kilojoules_per_mole / unit.nanometer
    return (state.getForces(asNumpy=True).value_in_unit(newton),
            state.getPotentialEnergy().value_in_unit(unit.kilojoules_per_mole))


def compare(precision, limit):
    wanted, energy = forces(context("Reference")[0])
    got, other = forces(context("CUDA", {"Precision": precision, "UseCpuPme": "true"})[0])
    apart = np.linalg.norm(got - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
    assert np.median(apart) < limit, f"median relative difference {np.median(apart)}"
    assert apart.max() < 100 * limit, f"largest relative difference {apart.max()}"
    assert abs(other - energy) < limit * 100 * abs(energy), (other, energy)


@check
def forces_are_the_references_in_single_precision():
    compare("single", 1e-4)


@check
def forces_are_the_references_in_double_precision():
    compare("double", 1e-6)


@check
def steps_keep_the_energy():
    made, integrator = context("CUDA", {"Precision": "mixed", "UseCpuPme": "true"})

    def total():
        state = made.getState(getEnergy=True)
        both = state.getPotentialEnergy() + state.getKineticEnergy()
        return both.value_in_unit(unit.kilojoules_per_mole)

    before = total()
    integrator.step(50)
    assert abs(total() - before) < 0.01 * abs(before), (before, total())


main(f"OpenMM {openmm.__version__}")
