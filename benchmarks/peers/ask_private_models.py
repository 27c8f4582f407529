"""diffprivlib's classifiers and scikit-learn's exact ones on one-hot columns: AUC of each split.

Numbers are scaled to [0, 1] by their bounds.
"""

import numpy as np
import pandas as pd
from diffprivlib import models as private
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from split_auc import bounds, epsilons, say, table

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

for name, way in WAYS.items():
    for e in epsilons:
        say(f"diffprivlib's {name} {e}", lambda w=way, e=e: w(e), X)
    say(f"exact {name}", EXACT[name], X)
