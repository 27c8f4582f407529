"""A Query -> one checked, canonical question: its cells, what rows contribute, what is public.

alike.py              the same question with other numbers, to time it with
check.py              Query -> CheckedQuery, or a refusal
contributions.py      what each row contributes: integers on a grid
defined_columns.py    db.define: functions of a row as columns beside the table's own
describe.py           a stored question -> words a person reads
discovery.py          values that nobody listed, named because enough rows have them
discovery_threshold.py  from how many rows on a discovery names a value
facts.py              what a question asks that is public: exact, and free
features.py           aggregates of one person's rows as columns with a range
grid.py               a row's contribution as a whole number
joint_price.py        the price of several residuals of the same rows together
means.py              a mean: what is asked for it, and how it is read off
measurements.py       what leaves in place of the cell sums: combinations of them
moment_blocks.py      means, squares and products of expressions, weighted together
partitions.py         how rows fall into cells: columns, bins, blocks, centres, leaves
people_view.py        one row for each person: who is there, and what is known of them
percentile_choice.py  a value that a share of the rows lies below, chosen among cells
programs_used.py       which programs a question runs, and whether its owner lets them
projection.py         db.project: columns that are weighted sums of a table's own
question.py           a question checked and priced, before it is paid
running_answer.py     running totals with their errors, and what came in between two
row_limits.py         which rows and values of a person count, as a note beside a number
running_rows.py       running totals as a measurement: the answers of a stretch of periods
residual.py           what a table says beyond its margins, as a measurement
shards.py             shards of the rows by a fixed hash of the key; rows named by their keys
star_tables.py        which of several tables a question is about
"""
