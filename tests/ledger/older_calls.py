"""What was asked in the older ledgers of tests/fixtures/part1.zip, to be asked again."""

from audit.harness import SCHEMA as AUDITED

import sulq
from sulq import learn

SCHEMA = {
    "id": {"type": "integer", "key": True},
    "region": {"values": ["north", "south"], "public": True},
    "smoker": {"type": "boolean"},
    "city": {"values": ["rome", "oslo", "l'aquila"]},
    "born": {"type": "date", "low": "1930-01-01", "high": "2010-12-31"},
    "note": {"type": "text"},
    "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
    "income": {"type": "number", "low": 0, "high": 1000},
    "height": {"type": "number", "low": 0, "high": 2.5, "nullable": False},
}
JUDGED = {name: said for name, said in AUDITED.items() if name != "x"}
TERMS = {"epsilon": 1.0, "delta": 1e-6, "queries": 2000, "name": "people"}


def tree(threshold):
    """A tree of two columns, one cut by a number and one by its values."""
    below = {"column": "city", "branches": [["rome", None], ["l'aquila", None]], "other": None}
    return {"column": "age", "threshold": threshold, "below": below, "above": None}


def fitted(model, db, **how):
    return model.fit(db, **how)


# Before the refresh.
FIRST = {
    "count": lambda db: db.count("smoker"),
    "predicate": lambda db: db.count("age > 40 and (city = 'rome' or income < 99.5) and smoker"),
    "public rows": lambda db: db.sum("income", "smoker", rows=sulq.Rows.where("region = 'north'")),
}
# After it: these must be free in a newer version.
ASKED = {
    "count": lambda db: db.count("smoker"),
    "error": lambda db: db.count("not smoker", error=60),
    "predicate": lambda db: db.count("age > 40 and (city = 'rome' or income < 99.5) and smoker"),
    "quotes": lambda db: db.count("""city = 'l''aquila' or note like '%"o''k"_%'"""),
    "dates": lambda db: db.count("born < date '1980-02-29' and extract(month from born) = 7"),
    "days": lambda db: db.sum("date '2011-01-01' - born", "born is not null"),
    "in": lambda db: db.count("age in (20, 21, 22, 40) or note in ('a', 'b')"),
    "sum": lambda db: db.sum("income"),
    "expression": lambda db: db.sum(
        "case when smoker then sqrt(income) * 2.5 else coalesce(age - 1, -3) end", "age <> 33"
    ),
    "functions": lambda db: db.sum("least(greatest(ln(age + 1), 0.25), power(height, 2))"),
    "mean": lambda db: db.mean("income", "smoker"),
    "histogram": lambda db: db.histogram("city"),
    "bins": lambda db: db.histogram("height", bins=[0, 0.5, 1.5, 2.5]),
    "date bins": lambda db: db.ask(
        sulq.Query(by=sulq.Bins("born", ["1930-01-01", "1960-01-01", "2010-12-31"]), where="smoker")
    ),
    "crosstab": lambda db: db.crosstab(["region", "smoker"]),
    "sql": lambda db: db.sql(
        "select region, count(*), avg(age), sum(income) from people where smoker group by region"
    ),
    "sql parts": lambda db: db.sql(
        "select count(*) filter (where smoker), variance(income) from people"
    ),
    "sample": lambda db: db.count("smoker", rows=sulq.Rows.sample(3, 0.5)),
    "blocks": lambda db: db.sum("income", rows=sulq.Rows.blocks(5, 4)),
    "nearest": lambda db: db.ask(
        sulq.Query(
            sulq.Sums(["age", "income"]),
            by=sulq.NearestCentre(["age", "height"], [[0.2, 0.5], [0.8, 0.125]]),
        )
    ),
    "products": lambda db: db.ask(sulq.Query(sulq.Products(["age", "height"]), where="smoker")),
    "side": lambda db: db.ask(
        sulq.Query(("1",), by=sulq.Side(["age", "height * 0.5"], [0.5, -1.0], 0.25))
    ),
    "leaf": lambda db: db.ask(sulq.Query(("1",), by=sulq.Leaf(tree(50)))),
    "batch": lambda db: db.ask(
        [sulq.Query(where=f"age > {i} and smoker") for i in (10, 20)], share=False
    ),
    "batch with an id": lambda db: db.ask(
        [sulq.Query(where=f"age > {i} and smoker") for i in (30, 40)],
        request_id="night run", share=False,
    ),
    "shared": lambda db: db.ask([sulq.Query(where=f"smoker and age = {i}") for i in range(9)]),
    "id": lambda db: db.ask(
        sulq.Query(("height",), where="smoker"), request_id="retried"
    ),
}  # fmt: skip
LEARNED = {
    "kmeans": lambda db: fitted(
        learn.KMeans(2, max_iter=2, random_state=3, on_small="keep", budget=40), db,
        columns=["age", "height"],
    ).cluster_centers_.tolist(),
    "pca": lambda db: fitted(
        learn.PCA(1, budget=3), db, columns=["age", "height"]
    ).components_.tolist(),
    "regression": lambda db: fitted(
        learn.LinearRegression(budget=3), db, columns=["age"], label="height"
    ).coef_.tolist(),
    "id3": lambda db: str(fitted(
        learn.ID3(max_depth=1, budget=20), db, columns=["city", "age"], label="smoker"
    ).text()),
}  # fmt: skip
VERDICTS = (
    "a", "a and region = 'north'", "b or c", "a and b", "a and not b", "not a and b and c",
    "a and region <> 'south' and id < 4",
)  # fmt: skip


def plain(found):
    """An answer as JSON has it."""
    if isinstance(found, list):
        return [plain(each) for each in found]
    return found.to_json() if hasattr(found, "to_json") else found


def without_budget(found):
    """The same without what was left, which another charge may have changed since."""
    if isinstance(found, list):
        return [without_budget(each) for each in found]
    if isinstance(found, dict):
        kept = {k: v for k, v in found.items() if not k.startswith("remaining")}
        marked = kept.get("too_noisy") if "rows" in kept else None
        for name, marks in (marked or {}).items():  # older releases showed a number
            for row, vague in zip(kept["rows"], marks, strict=True):
                row[name] = None if vague else row[name]
        return {k: without_budget(v) for k, v in kept.items()}
    return found


def verdict(db, where):
    """The count, or why there is none."""
    try:
        return plain(db.count(where))
    except sulq.AuditRefused as refused:
        return str(refused)
