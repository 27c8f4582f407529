"""diffprivlib's classifiers and scikit-learn's exact ones on one-hot columns: AUC of each split.

Arguments: as of ask_ebm.py. Numbers are scaled to [0, 1] by their bounds.
"""

import json
import sys
import warnings

import numpy as np
import pandas as pd
from diffprivlib import models as private
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

warnings.simplefilter("ignore")
table = pd.read_csv(sys.argv[1])
bounds, epsilons, splits = (json.loads(a) for a in sys.argv[2:5])
y = table.pop("label").to_numpy()
for name, (low, high) in bounds.items():
    table[name] = (table[name] - low) / (high - low)
X = pd.get_dummies(table).to_numpy(dtype=float)
norm, box = float(np.sqrt(table.shape[1])), (np.zeros(X.shape[1]), np.ones(X.shape[1]))
WAYS = {
    "logistic": lambda e: private.LogisticRegression(epsilon=e, data_norm=norm),
    "forest": lambda e: private.RandomForestClassifier(epsilon=e, bounds=box, classes=[0, 1]),
    "naive Bayes": lambda e: private.GaussianNB(epsilon=e, bounds=box, priors=[0.5, 0.5]),
}
EXACT = {
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "forest": lambda: RandomForestClassifier(100, min_samples_leaf=10),
    "naive Bayes": GaussianNB,
}


def auc(make):
    out = []
    for seed in range(splits):
        a, b, ya, yb = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
        out.append(float(roc_auc_score(yb, make().fit(a, ya).predict_proba(b)[:, 1])))
    return out


for name, way in WAYS.items():
    for e in epsilons:
        print(json.dumps([f"diffprivlib's {name} {e}", auc(lambda w=way, e=e: w(e))]), flush=True)
    print(json.dumps([f"exact {name}", auc(EXACT[name])]), flush=True)
