# SPDX-License-Identifier: Apache-2.0
"""XGBoost: trees grown on the card against those grown on the processor.

Features have fewer values than there are bins, so both see the same places to split, and a
child may have any weight: the card finds the best of 32 places and then refuses it if a child
is too light, the processor looks among those that it may take.
"""

import numpy as np
import xgboost as xgb

from client import check, main

ROWS, COLUMNS = 2000, 10
BASE = {"tree_method": "hist", "max_depth": 5, "eta": 0.3, "max_bin": 64, "seed": 7,
        "min_child_weight": 0}
RNG = np.random.default_rng(1)
X = RNG.integers(0, 40, (ROWS, COLUMNS)).astype(np.float32)
TRUTH = (X[:, 0] * 2 + np.sin(X[:, 1] * .3) * 9 + X[:, 2] * X[:, 3] / 40) / 20
AMOUNT = (TRUTH + RNG.normal(size=ROWS) * .1).astype(np.float32)
ABOVE = (TRUTH > np.median(TRUTH)).astype(np.float32)
CLASS = np.digitize(TRUTH, np.quantile(TRUTH, [.25, .5, .75])).astype(np.float32)
GROUP = np.sort(RNG.integers(0, 60, ROWS))
RELEVANCE = np.clip(np.round(TRUTH), 0, 4)


def predicted(model, data):
    return model.predict(data)


def both(params, labels, ask=predicted, rounds=6, tolerance=1e-4, rows=X, **more):
    """What @ask makes of the models that both devices train."""
    results = []
    for device in ("cpu", "cuda"):
        data = xgb.DMatrix(rows, labels, **more)
        model = xgb.train({**BASE, **params, "device": device}, data, rounds)
        results.append(np.asarray(ask(model, data), dtype=float))
    host, card = results
    assert host.std() > 0, "nothing was learned"
    np.testing.assert_allclose(card, host, rtol=tolerance, atol=tolerance * abs(host).max())


def metric(name, labels, params=None, **more):
    def ask(model, data):
        value = float(model.eval(data).split(":")[-1])
        return [value, -value]  # two, which differ

    both({"eval_metric": name, **(params or {})}, labels, ask, **more)


@check
def regression():
    both({}, AMOUNT)
    both({"max_depth": 1}, AMOUNT)
    both({"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0}, AMOUNT)
    both({"tree_method": "approx"}, AMOUNT)


@check
def missing_values():
    holes = X.copy()
    holes[RNG.random(X.shape) < .15] = np.nan
    both({}, AMOUNT, rows=holes)


@check
def classes():
    both({"objective": "binary:logistic"}, ABOVE)
    both({"objective": "binary:hinge"}, ABOVE)
    both({"objective": "multi:softprob", "num_class": 4}, CLASS)


@check
def other_losses():
    for objective, labels in (("reg:absoluteerror", AMOUNT), ("count:poisson", np.round(abs(AMOUNT))),
                              ("reg:gamma", abs(AMOUNT) + .1), ("reg:tweedie", abs(AMOUNT)),
                              ("reg:pseudohubererror", AMOUNT), ("survival:cox", abs(AMOUNT) + .1)):
        both({"objective": objective}, labels)
    both({"objective": "reg:quantileerror", "quantile_alpha": 0.3}, AMOUNT)
    both({"objective": "survival:aft"}, None, label_lower_bound=abs(AMOUNT) + .1,
         label_upper_bound=abs(AMOUNT) + .1)


@check
def a_column_that_may_only_raise():
    # The card weighs a split against the node without the bounds, the processor with them.
    raising = "(" + ",".join(["1"] + ["0"] * (COLUMNS - 1)) + ")"
    model = xgb.train({**BASE, "monotone_constraints": raising, "device": "cuda"},
                      xgb.DMatrix(X, AMOUNT), 6)
    rows, before = X[:200].copy(), -np.inf
    for rows[:, 0] in range(40):
        now = model.predict(xgb.DMatrix(rows))
        assert (now >= before).all(), "it falls"
        before = now
    assert now.std() > 0, "nothing was learned"


@check
def weights():
    both({}, AMOUNT, weight=RNG.random(ROWS))


@check
def dropped_trees_and_forests():
    both({"booster": "dart", "rate_drop": 0.1}, AMOUNT)
    both({"num_parallel_tree": 4, "eta": 1}, AMOUNT, rounds=1)


@check
def several_targets():
    both({}, np.stack([AMOUNT, ABOVE], 1))


@check
def leaves_and_contributions():
    both({}, AMOUNT, lambda model, data: model.predict(data, pred_leaf=True))
    some = slice(300)
    both({}, AMOUNT[some], lambda model, data: model.predict(data, pred_contribs=True), rows=X[some])
    both({"max_depth": 3}, AMOUNT[some], lambda model, data:
         model.predict(data, pred_interactions=True), rows=X[some])


@check
def metrics():
    for name in ("auc", "aucpr", "logloss", "rmse", "mae", "error"):
        metric(name, ABOVE, {"objective": "binary:logistic"})


@check
def ranking():
    # Pairs are drawn at random unless they are the first ones.
    fixed = {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 5}
    for objective in ("rank:pairwise", "rank:ndcg"):
        both({"objective": objective, **fixed}, RELEVANCE, qid=GROUP, tolerance=1e-3)
    metric("ndcg@8", RELEVANCE, {"objective": "rank:ndcg", **fixed}, qid=GROUP, tolerance=1e-3)


@check
def a_matrix_of_quantiles():
    results = []
    for device in ("cpu", "cuda"):
        data = xgb.QuantileDMatrix(X, AMOUNT, max_bin=64)
        results.append(xgb.train({**BASE, "device": device}, data, 6).predict(data))
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)


main(f"xgboost {xgb.__version__}")
