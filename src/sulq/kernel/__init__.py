"""Row functions in numpy: what every engine must agree with, bit for bit.

batch.py         Batch: rows, their expressions and scaled coordinates; an array where it lies
cells.py         which cell of an axis each row is in
matrix.py        Matrix: exact sums, cells x values; sums and products of several columns
people_table.py  one row for each person, in plain Python
sums.py          one batch's contributions to a query, and how many rows a batch has
"""
