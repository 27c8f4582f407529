"""A SELECT -> questions, and how to lay out their answers.

aggregates.py    the aggregates that are answered, and why the others are not
clauses.py       which clauses of a SELECT are read
formula.py       what a formula is made of: the sums it needs; numbers, truths and labels per cell
formulas.py      expressions of aggregates: SUM(a) / SUM(b), CASE WHEN COUNT(*) > 5 ...
grouped_rows.py  a SELECT inside FROM that is grouped by the person
groupings.py     CUBE, ROLLUP and GROUPING SETS: several groupings as one table; discovered ones
join_terms.py    ON, and what WHERE says of tables: keys, IN and EXISTS
joins.py         JOIN: public lookup tables, and why other joins are not answered
moments.py       aggregates -> the sums asked for, and each aggregate back from them
noisy.py         numbers with error bars, and how they move with what was released
operators.py     what may stand between aggregates: arithmetic, comparisons, choices
quantiles.py     MEDIAN and PERCENTILE_CONT from a distribution function; PERCENTILE_DISC
star_joins.py    FROM and JOIN of people and their events
statement.py     a SELECT taken apart: rows, groups, outputs, order
views.py         the private table, a subquery of rows or a WITH
"""

from sulq.sql.groupings import ALL, Groupings, compile_statement
from sulq.sql.statement import Statement

__all__ = ["ALL", "Groupings", "Statement", "compile_statement"]
