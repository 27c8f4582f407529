"""InterpretML's additive models, DP-EBM at each epsilon and the exact one: AUC of each split.

Arguments: the CSV, JSON of the numbers' bounds, JSON of the epsilons, splits.
"""

import json
import sys
import warnings

import pandas as pd
from interpret.glassbox import ExplainableBoostingClassifier
from interpret.privacy import DPExplainableBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

warnings.simplefilter("ignore")
table = pd.read_csv(sys.argv[1])
bounds, epsilons, splits = (json.loads(a) for a in sys.argv[2:5])
X, y = table.drop(columns="label"), table["label"].to_numpy()


def auc(make):
    out = []
    for seed in range(splits):
        a, b, ya, yb = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
        out.append(float(roc_auc_score(yb, make().fit(a, ya).predict_proba(b)[:, 1])))
    return out


for epsilon in epsilons:
    dp = lambda e=epsilon: DPExplainableBoostingClassifier(  # noqa: E731
        epsilon=e, delta=1e-6, privacy_bounds=bounds
    )
    print(json.dumps([f"DP-EBM {epsilon}", auc(dp)]), flush=True)
exact = lambda: ExplainableBoostingClassifier(interactions=0, outer_bags=4)  # noqa: E731
print(json.dumps(["EBM", auc(exact)]), flush=True)
