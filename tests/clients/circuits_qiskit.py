# SPDX-License-Identifier: Apache-2.0
"""Qiskit Aer: quantum circuits simulated on the card, against its code for the processor."""

import numpy as np
import qiskit_aer
from qiskit import QuantumCircuit, transpile
from qiskit.quantum_info import SparsePauliOp, random_unitary
from qiskit_aer import AerSimulator
from qiskit_aer.noise import NoiseModel, depolarizing_error

from client import check, main

SAVES = {"statevector": "save_statevector", "density_matrix": "save_density_matrix",
         "unitary": "save_unitary"}
ONE = (lambda c, q, t: c.h(q), lambda c, q, t: c.rx(t, q), lambda c, q, t: c.ry(t, q),
       lambda c, q, t: c.rz(t, q), lambda c, q, t: c.t(q), lambda c, q, t: c.sx(q),
       lambda c, q, t: c.u(t, t / 2, t / 3, q), lambda c, q, t: c.y(q))
TWO = (lambda c, a, b, t: c.cx(a, b), lambda c, a, b, t: c.cz(a, b), lambda c, a, b, t: c.swap(a, b),
       lambda c, a, b, t: c.cp(t, a, b), lambda c, a, b, t: c.rzz(t, a, b),
       lambda c, a, b, t: c.ecr(a, b), lambda c, a, b, t: c.iswap(a, b))


def circuit(qubits, seed, layers=6):
    rng, made = np.random.default_rng(seed), QuantumCircuit(qubits)
    for layer in range(layers):
        for qubit in range(qubits):
            ONE[rng.integers(len(ONE))](made, qubit, rng.random() * 6)
        order = [int(qubit) for qubit in rng.permutation(qubits)]
        for a, b in zip(order[::2], order[1::2]):
            TWO[rng.integers(len(TWO))](made, a, b, rng.random() * 6)
        made.ccx(*order[:3])
        if layer == 3:
            made.unitary(random_unitary(8, seed=seed), order[:3])
    return made


def state(made, device, method="statevector", **options):
    made, where = made.copy(), AerSimulator(method=method, device=device, **options)
    getattr(made, SAVES[method])()
    result = where.run(transpile(made, where, optimization_level=0)).result()
    assert result.success, result.status
    return np.asarray(next(iter(result.data(0).values())))


def both(made, tolerance=1e-12, method="statevector", card=None, **options):
    host = state(made, "CPU", method, **options)
    np.testing.assert_allclose(state(made, "GPU", method, **options, **(card or {})), host, atol=tolerance)


def counts(made, device, shots, **options):
    where = AerSimulator(method="statevector", device=device, seed_simulator=5, **options)
    return where.run(transpile(made, where, optimization_level=0), shots=shots).result().get_counts()


@check
def states():
    for qubits in (3, 5, 8, 11):
        for fused in (True, False):
            both(circuit(qubits, qubits), fusion_enable=fused)


@check
def states_in_single_precision():
    for qubits in (3, 8, 11):
        both(circuit(qubits, qubits), 2e-6, precision="single")


@check
def density_matrices_and_unitaries():
    both(circuit(4, 9), method="density_matrix")
    both(circuit(5, 9), method="unitary")


@check
def states_in_pieces():
    both(circuit(8, 4), card={"blocking_enable": True, "blocking_qubits": 5})


@check
def measurements():
    made = circuit(6, 3)
    made.measure_all()
    assert counts(made, "GPU", 2000) == counts(made, "CPU", 2000)
    made = QuantumCircuit(3, 3)
    made.h(0)
    made.cx(0, 1)
    made.measure(0, 0)
    with made.if_test((made.clbits[0], 1)):
        made.x(2)
    made.reset(1)
    made.measure([1, 2], [1, 2])
    assert counts(made, "GPU", 500) == counts(made, "CPU", 500)


@check
def noise():
    model = NoiseModel()
    model.add_all_qubit_quantum_error(depolarizing_error(.05, 1), ["h", "sx", "u"])
    model.add_all_qubit_quantum_error(depolarizing_error(.1, 2), ["cx"])
    made = QuantumCircuit(4)
    made.h(0)
    for qubit in range(3):
        made.cx(qubit, qubit + 1)
    made.measure_all()
    host = counts(made, "CPU", 400, noise_model=model)
    assert len(host) > 4 and counts(made, "GPU", 400, noise_model=model) == host


@check
def expected_values():
    made = circuit(5, 7)
    made.save_expectation_value(SparsePauliOp.from_list([("XXIZY", .5), ("ZZZII", 1.2), ("IYIYX", .7)]),
                                range(5))
    host, card = (next(iter(AerSimulator(method="statevector", device=device).run(
        transpile(made, AerSimulator(), optimization_level=0)).result().data(0).values()))
        for device in ("CPU", "GPU"))
    np.testing.assert_allclose(card, host, atol=1e-12)


main(f"qiskit-aer {qiskit_aer.__version__}")
