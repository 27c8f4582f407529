"""InterpretML's additive models, DP-EBM at each epsilon and the exact one: AUC of each split."""

from interpret.glassbox import ExplainableBoostingClassifier
from interpret.privacy import DPExplainableBoostingClassifier
from split_auc import bounds, epsilons, say, table

for epsilon in epsilons:
    dp = lambda e=epsilon: DPExplainableBoostingClassifier(  # noqa: E731
        epsilon=e, delta=1e-6, privacy_bounds=bounds
    )
    say(f"DP-EBM {epsilon}", dp, table)
exact = lambda: ExplainableBoostingClassifier(interactions=0, outer_bags=4)  # noqa: E731
say("EBM", exact, table)
