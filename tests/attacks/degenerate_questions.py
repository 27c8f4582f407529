"""Questions of every kind, drawn at random, for tables that are hardly there."""

from __future__ import annotations

from engines.test_fuzz import Grammar

import sulq
from sulq import learn
from sulq.engines.select import needs_kernel
from sulq.questions.check import check
from sulq.values.query import People
from sulq.values.schema import Schema

DENSE = ("i", "s", "x", "y", "d", "b", "c", "i + x", "exp(least(x, 2))", "e - date '2000-01-01'")
NOBODY = ("false", "i > 9", "x > 7", "id is null and id is not null", "b and not b", "null")
LEAVES = {
    "column": "i", "threshold": 0,
    "below": {"column": "b", "branches": [[True, None]], "other": None},
    "above": {"column": "e", "threshold": "2000-01-01", "below": None,
              "above": {"column": "x", "threshold": 0.5, "below": None, "above": None}},
}  # fmt: skip


class Questions:
    """Some checked questions about one bound schema, and the same as they were written."""

    def __init__(self, pick, schema: Schema, count: int = 100) -> None:
        self.pick, self.schema = pick, schema
        self._grammar = Grammar(pick)
        self.written: list[sulq.Query] = []
        self.checked = []
        while len(self.checked) < count:
            try:
                query = self._query()
                made = check(query, schema, "gaussian", pick.choice(["beliefs", "dp"]))
            except sulq.Refused:
                continue
            if made.shape[0] * made.shape[1] > 20_000:
                continue
            self.written.append(query)
            self.checked.append(made)
        self._by_sql = [q for q in self.checked if not needs_kernel(q)]

    def batch(self, pick):
        """One to three of them; one for the kernel would take all others along, so often none."""
        chosen = pick.choice((self.checked, self._by_sql, self._by_sql))
        return [pick.choice(chosen) for _ in range(pick.choice((1, 1, 1, 2, 3)))]

    def _query(self) -> sulq.Query:
        pick = self.pick
        by = pick.choice([self._nothing, self._cells, self._cells, self._several])()
        rows, where = self._rows(), self._where()
        return sulq.Query(self._values(), by=by, where=where, rows=rows)

    # --- values ---------------------------------------------------------------------------

    def _values(self):
        pick = self.pick
        some = pick.sample(DENSE, pick.choice((1, 1, 2, 3)))
        centre, norm = pick.choice((0.5, 0, 0.25)), pick.choice((None, None, 0.3, 5))
        choices = [
            lambda: ["1"],
            lambda: [self._bounded() for _ in range(pick.choice((1, 2, 3)))],
            lambda: [pick.choice("isxydbcm")],
            lambda: sulq.Mean(pick.choice(("x", "i", "d", "exp(y)", "length(t)"))),
            lambda: sulq.Sums(some, centre, norm),
            lambda: sulq.Sums(some, centre, norm),
            lambda: sulq.Products(some, centre, norm, mean_weight=pick.choice((0, 0.5))),
        ]
        if self.schema.unit is not None:
            choices += [People, People]
        return pick.choice(choices)()

    def _bounded(self) -> str:
        text = self._grammar.text(self.pick.choice(("integer", "number", "boolean")), 3)
        return self.pick.choice((text, f"least(greatest({text}, -100), 100)"))

    # --- cells ----------------------------------------------------------------------------

    def _nothing(self):
        return None

    def _several(self):
        """Some are the same in another order."""
        few = ["g", "b", sulq.Blocks(1, 3), sulq.Bins("i", [-5, 0, 9])]
        again = self.pick.sample(few, self.pick.choice((1, 2, 2, 3)))
        return self.pick.choice(([self._cells(), self._cells()], again))

    def _cells(self):
        pick = self.pick
        two = pick.sample(DENSE[:7], 2)
        return pick.choice([
            lambda: pick.choice(("g", "k", "m", "b", "c", "i", "s")),
            lambda: pick.choice(("i % 5", "x > 0.5", "lower(k) = 'a'", "year(e) > 1990")),
            lambda: sulq.Bins("x", [-1, 0, 0.1, 7]),
            lambda: sulq.Bins("i", [-5, 0, 9]),
            lambda: sulq.Bins("e", ["1960-01-01", "2000-02-29", "2030-01-01"]),
            lambda: sulq.NearestCentre(two, [(0, 0), (1, 1), (0.5, 0.5)]),
            lambda: sulq.NearestCentre(two[:1], [(c / 70,) for c in range(70)]),
            lambda: sulq.Side(two, [1, -1], pick.choice((0, -0.5))),
            lambda: sulq.Leaf(LEAVES),
            lambda: sulq.Blocks(pick.randrange(9), pick.choice((1, 3, 64, 65, 300))),
        ])()  # fmt: skip

    # --- rows -----------------------------------------------------------------------------

    def _rows(self):
        pick = self.pick
        return pick.choice([
            *[lambda: None] * 4,
            lambda: sulq.Rows.where(pick.choice(("g = 'a'", "g in ('a', 'b')", "g is null"))),
            lambda: sulq.Rows.where("id is not null"),
            lambda: sulq.Rows.sample(pick.randrange(9), pick.choice((1e-9, 0.5, 1))),
            lambda: sulq.Rows.blocks(pick.randrange(9), pick.choice((3, 65))),
        ])()  # fmt: skip

    def _where(self):
        pick = self.pick
        return pick.choice([
            *[lambda: None] * 3,
            lambda: pick.choice(NOBODY),
            lambda: pick.choice(("b", "c", "g = 'b'", "g = 'b' and b", "t = 'a'", "e is null")),
            lambda: f"id is not null and {pick.choice(('b', 'x > 0.5', 'not c'))}",
            lambda: self._grammar.text("boolean", 3),
        ])()  # fmt: skip


# --- through the front door -----------------------------------------------------------------

GENEROUS = {"epsilon": 19.0, "queries": 1000}  # so that each learner can pay

STATEMENTS = [
    "select count(*) from people",
    "select g, count(*), avg(x), sum(i), stddev(y) from people group by g",
    "select b, c, count(*), var_pop(d), sum(s) from people where k = 'a' group by b, c",
    "select median(i), quantile_cont(s, 0.9), corr(x, y), covar_pop(i, s) from people",
    "select count(k), count(t), count(e) from people where x > 100",
    "select year(e), count(*) filter (where b) from people group by year(e) having count(*) > 3",
    "select floor(x) as f, avg(exp(y)) from people where t like 'a%' group by floor(x) limit 5",
    "with some as (select * from people where b) select count(*), avg(x), avg(i) from some",
]
NUMBERS = ["x", "y", "i"]
LEARNERS = {
    "PCA": lambda db: db.project(learn.PCA(2).fit(db, columns=NUMBERS)).sum("pc1"),
    "SVD": lambda db: learn.SVD(1).fit(db, columns=NUMBERS),
    "KMeans": lambda db: learn.KMeans(3, max_iter=2).fit(db, columns=NUMBERS),
    "Perceptron": lambda db: learn.Perceptron(max_iter=2).fit(db, columns=NUMBERS, label="b"),
    "LinearRegression": lambda db: learn.LinearRegression().fit(db, columns=NUMBERS, label="d"),
    "ID3": lambda db: learn.ID3(max_depth=2).fit(db, columns=["b", "k", "i"], label="c"),
    "NaiveBayes": lambda db: learn.NaiveBayes().fit(db, columns=["x", "k", "b"], label="c"),
    "ConjunctionLearner": lambda db: learn.ConjunctionLearner(max_error=0.99).fit(
        db, columns=["b"], label="c"
    ),
    "StatisticalQueries": lambda db: learn.StatisticalQueries(db).stat("b and x > 0", 0.9),
}
CALLS = {
    "count": lambda db: db.count("b and i > 100"),
    "mean": lambda db: db.mean("x", where="b"),
    "sum": lambda db: db.sum("exp(y)", where="not c"),
    "histogram": lambda db: db.histogram("k"),
    "bins": lambda db: db.histogram("x", bins=[0, 1, 2]),
    "crosstab": lambda db: db.crosstab(["g", "b"]),
    "marginals": lambda db: db.marginals(["g", "b", "c"], 2, where="i > 100", consistent=True),
}
