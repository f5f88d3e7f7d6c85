# SPDX-License-Identifier: Apache-2.0
"""CatBoost: trees grown on the card, against those grown on the processor where that grows the
same ones; else the loss that the card tells against the model's own on the processor."""

import catboost
import numpy as np
from catboost import CatBoost, Pool

from client import check, main

ROWS = 2000
BASE = {"iterations": 6, "depth": 4, "learning_rate": 0.3, "devices": "0", "boosting_type": "Plain",
        "bootstrap_type": "No", "random_seed": 1, "border_count": 64, "random_strength": 0,
        "leaf_estimation_iterations": 1, "boost_from_average": False, "score_function": "L2",
        "feature_border_type": "Uniform", "allow_writing_files": False, "logging_level": "Silent"}
RNG = np.random.default_rng(1)
X = RNG.integers(0, 40, (ROWS, 8)).astype(np.float32)
TRUTH = X[:, 0] * .1 + np.sin(X[:, 1] * .3) * 2 + X[:, 2] * X[:, 3] / 200
AMOUNT = TRUTH + RNG.normal(size=ROWS) * .1
ABOVE = (TRUTH > np.median(TRUTH)).astype(int)
CLASS = np.digitize(TRUTH, np.quantile(TRUTH, [.3, .6]))
GROUP = np.sort(RNG.integers(0, 60, ROWS))


def trained(where, data, params):
    return CatBoost({**BASE, "task_type": where, **params}).fit(data)


def both(labels, rows=X, **params):
    data = Pool(rows, labels)
    host, card = (trained(where, data, params).predict(data, prediction_type="RawFormulaVal")
                  for where in ("CPU", "GPU"))
    assert host.std() > 0, "nothing was learned"
    np.testing.assert_allclose(card, host, rtol=1e-4, atol=1e-4 * abs(host).max())


def own_loss(data, **params):
    """The processor says of the card's model what the card said."""
    model = trained("GPU", data, params)
    ((name, said),) = model.get_best_score()["learn"].items()
    np.testing.assert_allclose(said, model.eval_metrics(data, [name])[name][-1], rtol=1e-4)


@check
def regression():
    for depth in (1, 4, 6):
        both(AMOUNT, depth=depth)
    both(AMOUNT, score_function="Cosine")


@check
def bins():
    both(AMOUNT, X // 3, border_count=15)
    both(AMOUNT, (X > 20).astype(np.float32))
    both(AMOUNT, RNG.normal(size=(ROWS, 5)).astype(np.float32), border_count=128)
    both(AMOUNT, RNG.integers(0, 250, (ROWS, 6)).astype(np.float32), border_count=254)


@check
def other_shapes_of_trees():
    both(AMOUNT, grow_policy="Depthwise")
    both(AMOUNT, grow_policy="Lossguide", max_leaves=12)


@check
def classes():
    both(ABOVE, loss_function="Logloss")
    both(ABOVE, loss_function="Logloss", leaf_estimation_iterations=3)
    own_loss(Pool(X, CLASS), loss_function="MultiClass")
    own_loss(Pool(X, ABOVE), loss_function="Logloss", score_function="NewtonL2")


@check
def other_losses():
    both(abs(np.round(AMOUNT)), loss_function="Poisson")
    both(abs(AMOUNT) + 1, loss_function="LogLinQuantile")
    for loss in ("MAE", "Quantile:alpha=0.3", "MAPE"):
        own_loss(Pool(X, abs(AMOUNT) + 1), loss_function=loss)


@check
def drawn_rows():
    own_loss(Pool(X, AMOUNT), bootstrap_type="Bayesian")
    for draw in ("Bernoulli", "Poisson", "MVS"):
        own_loss(Pool(X, AMOUNT), bootstrap_type=draw, subsample=0.7)


@check
def ordered_boosting():
    own_loss(Pool(X, AMOUNT), boosting_type="Ordered", score_function="Cosine")


@check
def ranking():
    data = Pool(X, np.clip(np.round(TRUTH), 0, 4), group_id=GROUP)
    for loss in ("QueryRMSE", "PairLogit", "QuerySoftMax"):
        own_loss(data, loss_function=loss)


@check
def categories_one_by_one():
    rows = X.astype(int).astype(str).astype(object)
    own_loss(Pool(rows, AMOUNT, cat_features=list(range(8))), one_hot_max_size=64)


main(f"catboost {catboost.__version__}")
