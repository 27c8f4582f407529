"""sulq.open: source + schema + promise + ledger -> Database."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.append_rows import of_other_rows, take_in
from sulq.audit.open_audited import Audit
from sulq.database import Database
from sulq.engines.base import Engine
from sulq.engines.open_engine import open_engine
from sulq.errors import PromiseError, Refused, SchemaError
from sulq.expressions.dialect import load as load_parser
from sulq.ledger.guard import Guard, guard_of
from sulq.ledger.open_periods import ORDER, is_order_known, schema_of
from sulq.ledger.types import MEMORY, Group
from sulq.planner import Planner
from sulq.privacy.fitting import proposal
from sulq.privacy.noise import SystemNoise
from sulq.privacy.noise import load as load_noise
from sulq.privacy.pricing import PRICINGS
from sulq.privacy.promise import Promise
from sulq.programs.library import FUEL
from sulq.progress import show
from sulq.questions.check import check, several_rows
from sulq.questions.programs_used import check_switch, know_programs
from sulq.sources.source import Source, open_source, settled
from sulq.sources.star_source import star_source
from sulq.values.query import Query
from sulq.values.schema import Schema

if TYPE_CHECKING:
    from sulq.ledger import Ledger

UNSAID = {"delta": 1e-6, "noise": "gaussian", "guarantee": "beliefs", "pricing": "geometry",
          "discoveries": 0}  # fmt: skip
AUDITED = {"rule": "classes", "dither": 2, "known": 0.5, "independent_rows": False,
           "independent_columns": False, "priors": None, "simulate": None}  # fmt: skip


def open(
    source: Any = None, schema: Schema | str | Path | Mapping[str, Any] | None = None, *,
    epsilon: float | None = None, delta: float = 1e-6, queries: int | None = None,
    noise: str = "gaussian", guarantee: str = "beliefs", pricing: str = "geometry",
    ledger: str | Path | None = None, engine: str | None = None, table: str | None = None,
    name: str | None = None, mode: str = "noise", rule: str = "classes", dither: float = 2,
    known: float = 0.5, independent_rows: bool = False, independent_columns: bool = False,
    priors: Mapping[Any, Any] | None = None, simulate: Any = None,
    group: str | Group | None = None, programs: bool = False, program_fuel: int = FUEL,
    discoveries: int = 0, share: float | None = None,
) -> Database:  # fmt: skip
    """Open a private table under a promise.

    `source` is a Parquet, CSV or DuckDB path, a postgresql:// address with `table`, a pandas,
    Polars, Arrow or Spark frame, or a 2-D numpy array; `schema` a TOML path, a dict or a
    sulq.Schema. engine="spark" reads a path, or a `table` without a source, where Spark does.
    epsilon, delta and queries (T, the number of queries in the table's whole life) state the
    promise; they are fixed when its ledger begins, which then knows them: reopening it they may be
    left out. `ledger` is a path, a postgresql:// address that several machines may share, or
    ":memory:" for a trial without a lifetime promise.

    `group` names datasets about the same people, which have one T: what is spent on any counts for
    all. `ledger` is then the group's, the same for all of them. See docs/howto/groups.md.
    programs=True lets questions run `sulq.Program`s, with at most `program_fuel` for each row.
    `discoveries` is how often `db.discover` may be asked, `share` its part of delta (or a tenth).

    mode="audited" adds no noise but a small dither, and refuses what would tell one row; the
    arguments after `mode` belong to it. See docs/howto/audited.md before choosing it.
    """
    from sulq.ledger.claims import open_ledger

    check_switch(programs, program_fuel, mode)
    audit = _audit(
        mode, group, discoveries, epsilon=epsilon, delta=delta, queries=queries, noise=noise,
        guarantee=guarantee, rule=rule, dither=dither, known=known,
        independent_rows=independent_rows, independent_columns=independent_columns,
        priors=priors, simulate=simulate,
    )  # fmt: skip
    stated: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "queries": queries, "noise": noise, "share": share,
        "guarantee": guarantee, "pricing": _pricing(pricing), "discoveries": discoveries,
    }  # fmt: skip
    promise = _promise(stated) if audit is None and None not in (epsilon, queries) else None
    found = settled(open_source(source, table, name, engine))
    where, shared = places(found, ledger, group)
    if promise is None and audit is None:
        stated = _recorded(where, stated, shared)
        promise, pricing = _promise(stated), stated["pricing"]
    found = star_source(found, declared := _declared(schema, source, found))
    running = open_engine(found, declared, engine, show("scanning"), programs)
    if audit is not None:
        bound = audit.bound(running)
        book, guard = open_ledger(where, found, running, bound.to_json(), "audited", ledger is None)
        return audit.database(running, bound, book, guard, found.name)
    assert promise is not None
    promise = _about(promise, running, group)
    terms, fuel = promise.to_json(), program_fuel if programs else None
    book, guard = open_ledger(where, found, running, terms, pricing, ledger is None, shared)
    more = partial(append, source, ledger=where, table=table, name=name)
    return _database(running, promise, book, guard, pricing, found.name, more, fuel)


def _database(
    running: Engine, promise: Promise, book: Ledger, guard: Guard, pricing: str, name: str,
    more: Callable[..., Database], fuel: int | None = None,
) -> Database:  # fmt: skip
    load_parser()  # a first question shall wait for rows, not for imports
    load_noise()
    promise = replace(promise, group=book.group)
    if fuel is not None:
        know_programs(kept.code for kept in book.programs())
    planner = Planner(running.schema, promise, pricing, name, book, program_fuel=fuel)
    made = Database(
        running, promise, book, SystemNoise(), guard, pricing=pricing, name=name, planner=planner
    )
    made._append = more
    return made


def _pricing(pricing: str) -> str:
    if pricing not in PRICINGS:
        raise PromiseError(f"pricing={pricing!r}, want one of {', '.join(PRICINGS)}.")
    return pricing


def _audit(mode: str, group: Any, discoveries: int, **terms: Any) -> Audit | None:
    """What mode="audited" is opened with; refuse its arguments where they would mean nothing."""
    if mode == "audited" and group is not None:
        raise PromiseError(
            f"group={group!r}: an audited table cannot join a group. Its answers are exact, so "
            "what they tell cannot be counted together with noisy ones. Nothing was charged."
        )
    if mode == "audited" and discoveries:
        raise PromiseError("discoveries: they need noise. Leave out mode='audited', or them.")
    if mode == "audited":
        return Audit(**terms)
    if mode != "noise":
        raise PromiseError(f"mode={mode!r}, want 'noise' or 'audited'.")
    for name, default in AUDITED.items():
        if terms[name] is not None if default is None else terms[name] != default:
            raise PromiseError(f"{name}: belongs to mode='audited'. Say that too, or leave it out.")
    return None


def _promise(stated: Mapping[str, Any]) -> Promise:
    if stated["epsilon"] is None or stated["queries"] is None:
        raise PromiseError(
            "state the promise: epsilon=..., queries=... (and delta=1e-6 unless given). "
            "`sulq plan --rows N` shows what each choice buys."
        )
    terms = {k: v for k, v in stated.items() if k != "pricing" and (k, v) != ("share", None)}
    return Promise(**terms)


def _recorded(where: str, stated: dict[str, Any], shared: Group | None) -> dict[str, Any]:
    """What was left unsaid, from the ledger if one has begun; what was said must agree with it."""
    from sulq.ledger import Ledger
    from sulq.ledger.group_ledger import GroupLedger
    from sulq.ledger.location import exists, sealed

    seal = sealed(where) if where != MEMORY else None
    book: Ledger | GroupLedger
    if seal is not None and exists(where, seal):
        book = Ledger.reopen(where, seal=seal)
    elif shared is not None and exists(shared.ledger):
        book = GroupLedger.reopen(shared.ledger)
    else:
        return stated
    recorded = book.terms["promise"]
    book.close()
    if recorded.get("mode") == "audited":
        raise PromiseError("the ledger is that of an audited table: open it with mode='audited'.")
    unsaid = {k for k, v in stated.items() if v in (None, UNSAID.get(k))}
    return stated | {k: recorded[k] for k in unsaid if k in recorded}


def _about(promise: Promise, running: Engine, group: Any) -> Promise:
    """The promise with the one it protects; warn where these rows are too few for it.

    A delta of 1/n would allow to tell one whole row, and a promise for far more queries than so few
    rows can bear gives answers that say nothing. n is public, so the warnings may be too.
    """
    if promise.discoveries and group is not None:  # of one promise no share is each one's own
        raise PromiseError(
            "discoveries: a table with a share of delta set aside for them cannot be in a group. "
            "Nothing was charged.\nLeave group= out, or begin without discoveries."
        )
    promise, rows = _subject(promise, running.schema), _people_in(running)
    if rows and promise.delta * rows > 1:
        warnings.warn(
            f"delta={promise.delta:g} is above 1/n = {1 / rows:.2g} for {rows:,} rows: a promise "
            "that may fail so often allows to tell someone's row. Choose a delta well below 1/n.",
            stacklevel=3,
        )
    if said := proposal(rows, promise) if rows else "":
        warnings.warn(f"queries={promise.queries:,}: {said}", stacklevel=3)
    return promise


def _people_in(running: Engine) -> int:
    """n: rows, or people where there are several tables. Public."""
    if running.schema.star is None:
        return running.rows
    counted = check(Query(), running.schema, "gaussian", "beliefs")
    return int(running.sums([counted])[0][0][0])


def _subject(promise: Promise, schema: Schema) -> Promise:
    """The promise with the one it protects: a row, or a person with all their rows."""
    if schema.unit is None:
        return promise
    several = max(schema.unit.max_rows, schema.unit.max_periods or 1) > 1
    if several and promise.noise in ("binomial", "stitched"):
        raise PromiseError(several_rows(promise.noise))
    return replace(promise, subject="person")


def _place(found: Source, ledger: str | Path | None) -> str:
    """Where the ledger is. What Spark computed has no place of its own to keep one beside."""
    if ledger is None and found.kind == "spark" and found.ledger == MEMORY:
        raise Refused(
            "ledger: say where a Spark frame's spending is kept, ledger='people.ledger', or "
            "ledger=':memory:' for a trial without a lifetime promise. Nothing was charged."
        )
    return str(ledger) if ledger is not None else found.ledger


def places(
    found: Source, ledger: str | Path | None, group: str | Group | None
) -> tuple[str, Group | None]:
    """Where a dataset's own ledger is, and that of its group, if it is in one."""
    where = _place(found, ledger)
    if group is None:
        return where, None
    if isinstance(group, Group):  # `ledger` is the dataset's own
        return where, group
    from sulq.ledger.group_ledger import check_group_name, own_ledger
    from sulq.ledger.location import member_place

    check_group_name(group)
    if where == MEMORY:
        raise Refused(
            f"group={group!r}: say where what its datasets spend is kept, "
            "ledger='patients.ledger', the same for all of them. Nothing was charged."
        )
    if ledger is None:
        shared = Group(group, str(Path(where).parent / f"{group}.ledger"))
        if shared.ledger == where:
            raise Refused(
                f"group={group!r}: a dataset here has this name. Name the group otherwise, or say "
                "where its ledger is, ledger='patients.ledger'. Nothing was charged."
            )
        return own_ledger(shared, found.name) or where, shared
    shared = Group(group, where)
    return own_ledger(shared, found.name) or member_place(where, found.name), shared


def _declared(schema: Any, source: Any, found: Source) -> Schema | None:
    if found.facts is not None:
        return _of_store(found, schema)
    if schema is not None:
        return Schema.load(schema)
    if hasattr(source, "ndim") and hasattr(source, "dtype"):
        return None  # a bare array: x0, x1, ... in [0, 1]
    raise SchemaError(
        "schema: declare the columns, as a TOML path, a dict or a sulq.Schema. "
        "`sulq schema draft FILE` writes a first draft."
    )


def _of_store(found: Source, schema: Any) -> Schema:
    """A store was made with one schema and has no other."""
    assert found.facts is not None
    own = Schema.load(found.facts["schema"])
    if schema is not None:
        asked = Schema.load(schema)
        same = asked.with_types({c.name: c.type for c in own.columns})
        if same.to_json() != own.to_json():
            raise SchemaError(
                f"{found.name!r} was encoded with another schema. Leave schema out, or encode "
                "the rows again."
            )
    return own


def encode(
    source: Any,
    schema: Schema | str | Path | Mapping[str, Any] | None,
    path: str | Path,
    *,
    ledger: str | Path | None = None,
    table: str | None = None,
    name: str | None = None,
) -> Path:
    """Write rows to an encoded store, on which private sums are plain integer sums.

    The store goes on with the ledger of the rows it was made from.
    """
    from sulq.engines.duckdb import DuckDBEngine
    from sulq.ledger.seal import Seal

    found = settled(open_source(source, table, name))
    where = str(ledger) if ledger is not None else found.ledger
    out = Path(path).resolve()
    if out.suffix != ".sulq":
        raise SchemaError(f"path={str(path)!r}: the name of a store ends in .sulq.")
    if not out.parent.is_dir():
        raise SchemaError(f"path={str(path)!r}: the folder {str(out.parent)!r} does not exist.")
    if where == MEMORY:
        raise Refused("ledger: name the ledger file that the store's spending goes to.")
    facts = {
        "name": found.name,
        "ledger": os.path.relpath(Path(where).resolve(), out.parent),
        "fingerprint": Guard(found, Seal.open(where)).fingerprint,
    }
    declared = _declared(schema, source, found)
    if declared is not None and declared.star is not None:
        raise SchemaError("encode: a store has one table, and the schema several. Encode none.")
    DuckDBEngine.write_store(found, declared, out, facts)
    Seal.open(where).vouch(out)
    return out


def begun_with(book: Ledger) -> tuple[Promise, str]:
    """The promise that a ledger was begun with, and how it prices."""
    recorded = dict(book.terms["promise"])
    pricing = recorded.pop("pricing")
    return Promise.from_json(recorded), pricing


def append(
    source: Any, rows: Any = None, *, ledger: str | Path | None = None, table: str | None = None,
    name: str | None = None, reason: str = "",
) -> Database:  # fmt: skip
    """Go on with rows of new periods: logged, and older periods keep what was spent on them.

    `rows`, a file or a frame, are written into the source, a Parquet file or a folder of them;
    without, they are there already. Only periods that had no rows may appear. The schema is the
    ledger's, with its [period].
    """
    found = open_source(source, table, name)
    where = _place(found, ledger)
    if where == MEMORY:
        raise Refused("append: it needs a ledger that lasts. Give ledger='people.ledger'.")
    take_in(source, rows, where, table, name, reason)
    return open(source, recorded_schema(where), ledger=where, table=table, name=name)


def recorded_schema(where: str) -> Schema:
    """The schema that a ledger has."""
    from sulq.ledger import Ledger
    from sulq.ledger.location import sealed

    book = Ledger.reopen(where, seal=sealed(where))
    book.close()
    return schema_of(book.terms)


def refresh(
    source: Any,
    schema: Schema | str | Path | Mapping[str, Any] | None = None,
    *,
    ledger: str | Path | None = None,
    engine: str | None = None,
    table: str | None = None,
    name: str | None = None,
    reason: str = "",
    group: str | Group | None = None,
) -> Database:
    """Go on with changed rows or a changed schema: logged, the same promise and spending.

    Spending belongs to rows, and one that moved from a public cell to another takes along what was
    spent on it: every cell then carries the highest spending of any. The public columns stay.
    With `group`, `ledger` is the group's, as in `open`.
    """
    from sulq.ledger import claims
    from sulq.ledger.terms import ASSIGNMENT

    found = settled(open_source(source, table, name, engine))
    where, _ = places(found, ledger, group)
    book, seal = of_other_rows(where)
    with ExitStack() as refused:
        refused.callback(book.close)
        declared = schema_of(book.terms) if schema is None else Schema.load(schema)
        found = star_source(found, declared)
        running = open_engine(found, declared, engine, show("scanning"))
        refused.callback(running.close)
        guard = guard_of(found, running, seal)
        promise, pricing = begun_with(book)
        claims.check_cells(book.terms, running.schema)
        claims.check_people(schema_of(book.terms), running.schema)
        _subject(promise, running.schema)
        with seal.held():
            claims.check_refreshed(seal, guard)
            claims.forget_periods(seal, running)
            terms = claims.terms_of(running, promise.to_json(), pricing, found)
            if schema is None and not is_order_known(book.terms):
                del terms[ORDER], terms[ASSIGNMENT]  # an older ledger's: not known yet
            same = claims.same_rows(seal, guard, found, book.terms, running.schema)
            cells = running.schema.cell_count
            book.renew(terms, {"reason": reason}, cells=cells, same_rows=same)
            claims.remember(seal, guard)
            claims.know_periods(seal, running)
        refused.pop_all()
    more = partial(append, source, ledger=where, table=table, name=name)
    return _database(running, promise, book, guard, pricing, found.name, more)
