# SPDX-License-Identifier: Apache-2.0
"""Qrack: quantum circuits on the card, in single precision, against state vectors in NumPy."""

import importlib.metadata
import os

import numpy as np

# It takes its limit from a card's properties before it has asked for them.
os.environ["QRACK_MAX_ALLOC_MB"] = "512"

from pyqrack import Pauli, QrackSimulator  # noqa: E402

from client import check, main  # noqa: E402

CARD_ALONE = {"isTensorNetwork": False, "isSchmidtDecompose": False, "isStabilizerHybrid": False,
              "isCpuGpuHybrid": False, "isPaged": False}
ROOT = np.sqrt(.5)
X, Y, Z = np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1])
H, S, T = ROOT * np.array([[1, 1], [1, -1]]), np.diag([1, 1j]), np.diag([1, np.exp(.25j * np.pi)])
NAMED = {"x": X, "y": Y, "z": Z, "h": H, "s": S, "t": T, "adjs": S.conj(), "adjt": T.conj()}
TURNS = {Pauli.PauliX: X, Pauli.PauliY: Y, Pauli.PauliZ: Z}


def turned(axis, angle):
    return np.cos(angle / 2) * np.eye(2) - 1j * np.sin(angle / 2) * axis


def any_gate(rng):
    """A unitary matrix of two by two."""
    made, upper = np.linalg.qr(rng.normal(size=(2, 2)) + 1j * rng.normal(size=(2, 2)))
    return made * (np.diag(upper) / abs(np.diag(upper)))


class Both:
    """The same circuit on the card and in NumPy; bit k of a basis state is qubit k."""

    def __init__(self, qubits, **settings):
        self.card = QrackSimulator(qubits, **(settings or CARD_ALONE))
        self.qubits = qubits
        self.state = np.zeros(1 << qubits, complex)
        self.state[0] = 1

    def apply(self, matrix, target, controls=(), when=1):
        index = np.arange(1 << self.qubits)
        lower = index[(index >> target & 1) == 0]
        for control in controls:
            lower = lower[(lower >> control & 1) == when]
        upper = lower | 1 << target
        a, b = self.state[lower], self.state[upper]
        self.state[lower] = matrix[0, 0] * a + matrix[0, 1] * b
        self.state[upper] = matrix[1, 0] * a + matrix[1, 1] * b

    def swap(self, a, b):
        self.card.swap(a, b)
        index = np.arange(1 << self.qubits)
        differs = (index >> a ^ index >> b) & 1
        self.state = self.state[index ^ (differs << a | differs << b)]

    def named(self, name, target):
        getattr(self.card, name)(target)
        self.apply(NAMED[name], target)

    def turn(self, axis, angle, target, controls=()):
        if controls:
            self.card.mcr(axis, angle, list(controls), target)
        else:
            self.card.r(axis, angle, target)
        self.apply(turned(TURNS[axis], angle), target, controls)

    def matrix(self, matrix, target, controls=(), when=1):
        flat = [complex(value) for value in matrix.ravel()]
        if not controls:
            self.card.mtrx(flat, target)
        elif when:
            self.card.mcmtrx(list(controls), flat, target)
        else:
            self.card.macmtrx(list(controls), flat, target)
        self.apply(matrix, target, controls, when)

    def scramble(self, seed, steps=60):
        rng = np.random.default_rng(seed)
        for _ in range(steps):
            a, b, c = (int(qubit) for qubit in rng.permutation(self.qubits)[:3])
            way = rng.integers(7)
            if way == 0:
                self.named(list(NAMED)[rng.integers(len(NAMED))], a)
            elif way == 1:
                self.turn(list(TURNS)[rng.integers(3)], rng.random() * 6, a)
            elif way == 2:
                self.turn(list(TURNS)[rng.integers(3)], rng.random() * 6, a, (b,))
            elif way == 3:
                self.matrix(any_gate(rng), a)
            elif way == 4:
                self.matrix(any_gate(rng), a, (b, c))
            elif way == 5:
                self.matrix(any_gate(rng), a, (b,), 0)
            else:
                self.swap(a, b)
        return self

    def agree(self, tolerance=3e-5):
        """But for the phase of the whole, which nobody can measure."""
        found = np.array(self.card.out_ket())
        overlap = np.vdot(self.state, found)
        assert abs(abs(overlap) - 1) < 1e-4, f"the overlap is {abs(overlap)}"
        np.testing.assert_allclose(found * abs(overlap) / overlap, self.state, atol=tolerance)


@check
def gates():
    for qubits in (3, 6, 9, 12):
        Both(qubits).scramble(qubits).agree()


@check
def as_it_is_set():
    """With everything that it does to avoid the card."""
    Both(8, isTensorNetwork=True).scramble(5).agree()


@check
def pages():
    """A state in pieces of a few qubits each."""
    os.environ["QRACK_MAX_PAGE_QB"] = "6"
    Both(9, **{**CARD_ALONE, "isPaged": True}).scramble(9).agree()
    del os.environ["QRACK_MAX_PAGE_QB"]


@check
def chances():
    both = Both(8).scramble(3)
    index = np.arange(256)
    for qubit in range(8):
        wanted = (abs(both.state[index >> qubit & 1 == 1]) ** 2).sum()
        np.testing.assert_allclose(both.card.prob(qubit), wanted, atol=1e-5)
    chance = abs(both.state) ** 2
    np.testing.assert_allclose(both.card.prob_perm([2, 5], [True, False]),
                               chance[(index >> 2 & 1 == 1) & (index >> 5 & 1 == 0)].sum(), atol=1e-5)
    np.testing.assert_allclose(both.card.permutation_expectation(list(range(8))), (chance * index).sum(), rtol=1e-4)


@check
def measurements():
    """One qubit is measured; the others follow."""
    both = Both(7).scramble(4)
    found = both.card.m(3)
    both.state[(np.arange(128) >> 3 & 1) != found] = 0
    both.state /= np.linalg.norm(both.state)
    both.agree()
    whole = both.card.m_all()
    assert abs(both.state[whole]) > 1e-3
    np.testing.assert_allclose(abs(np.array(both.card.out_ket())[whole]), 1, atol=1e-5)


@check
def shots():
    both, n = Both(6).scramble(2), 3000
    counts = np.bincount(both.card.measure_shots(list(range(6)), n), minlength=64)
    wanted = abs(both.state) ** 2 * n
    assert (abs(counts - wanted) < 5 * np.sqrt(wanted + 1)).all(), "not what chance allows"


@check
def transforms():
    """The Fourier transform of the amplitudes, in the order of reversed bits."""
    both = Both(8).scramble(6)
    both.card.qft(list(range(8)))
    reverse = [int(f"{i:08b}"[::-1], 2) for i in range(256)]
    both.state = np.fft.fft(both.state, norm="ortho")[reverse]
    both.agree()


@check
def numbers():
    """Arithmetic on registers: in superposition, every value at once."""
    card = QrackSimulator(8, **CARD_ALONE)
    for qubit in range(4):
        card.h(qubit)
    card.add(5, list(range(8)))
    found = abs(np.array(card.out_ket()))
    np.testing.assert_allclose(found, np.where((np.arange(256) >= 5) & (np.arange(256) < 21), .25, 0), atol=1e-5)


main(f"pyqrack {importlib.metadata.version('pyqrack-cuda')}")
