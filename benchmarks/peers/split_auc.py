"""What the scripts share that are asked for models: a set of rows, and the AUC of each split.

Arguments: the CSV, JSON of the numbers' bounds, JSON of the epsilons, splits.
"""

import json
import sys
import warnings

import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

warnings.simplefilter("ignore")
table = pd.read_csv(sys.argv[1])
label = table.pop("label").to_numpy()
bounds, epsilons, splits = (json.loads(a) for a in sys.argv[2:5])


def say(name, make, X):
    """The AUC of what `make` makes, fitted to three quarters of the rows, on the rest."""
    out = []
    for seed in range(splits):
        a, b, ya, yb = train_test_split(X, label, test_size=0.25, random_state=seed, stratify=label)
        out.append(float(roc_auc_score(yb, make().fit(a, ya).predict_proba(b)[:, 1])))
    print(json.dumps([name, out]), flush=True)
