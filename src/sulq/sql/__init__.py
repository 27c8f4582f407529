"""A SELECT -> questions, and how to lay out their answers.

aggregates.py    the aggregates that are answered, and why the others are not
clauses.py       which clauses of a SELECT are read
discover_groups.py  GROUP BY column(discover => true): groups that nobody listed
formula.py       what a formula is made of: the sums it needs; numbers, truths and labels per cell
formulas.py      expressions of aggregates: SUM(a) / SUM(b), CASE WHEN COUNT(*) > 5 ...
grouped_rows.py  a SELECT inside FROM that is grouped by the person
groupings.py     CUBE, ROLLUP and GROUPING SETS: several groupings as one table
join_terms.py    ON, and what WHERE says of tables: keys, IN and EXISTS
joins.py         JOIN: public lookup tables, and why other joins are not answered
moments.py       aggregates -> the sums asked for, and each aggregate back from them
noisy.py         numbers with error bars, and how they move with what was released
operators.py     what may stand between aggregates: arithmetic, comparisons, choices
quantiles.py     MEDIAN and PERCENTILE_CONT from a distribution function; PERCENTILE_DISC
running_sums.py  sum(count(*)) OVER (ORDER BY month): totals so far
star_joins.py    FROM and JOIN of people and their events
statement.py     a SELECT taken apart: rows, groups, outputs, order
table_rows.py    rows of a table of answers, chosen and sorted
views.py         the private table, a subquery of rows or a WITH
"""

from sulq.sql.groupings import Groupings, compile_statement
from sulq.sql.running_sums import RunningSums
from sulq.sql.statement import Statement
from sulq.sql.table_rows import ALL

__all__ = ["ALL", "Groupings", "RunningSums", "Statement", "compile_statement"]
