"""What users say and get: frozen values, most with a JSON form.

answer.py        Answer: a number or many, error bars and a price
assignment.py    Assignment: everything by which a row gets its cell, shard, person and period
column.py        Column: a name, a type, a range or values, what is public
counted_rows.py  RowCount: a public number of rows, and which rows it counts
declarations.py  a mapping, as TOML gives it, -> columns, or what is wrong with it
discovered.py    Discovered: values that enough rows have, and how many
lookup.py        public tables that rows are joined to
marginals.py     Marginals: all tables of some columns, asked together
number_text.py   noisy numbers as people read them
per_person.py    PerPerson: one row for each person in place of their rows
plain_values.py  what plain values are: frozen, with a JSON form
price.py         Price: what a question is paid with
query.py         Query, Rows, partitions and values
row_sets.py      shards by number and rows by key, as people name them
safe_text.py     text of others made safe for a terminal, a page, a spreadsheet, Markdown
schema.py        Schema: the declared columns of one table, and that of its periods
star.py          Star: a table of people and tables of their events, as one
table.py         Table: rows of noisy numbers
text_file.py     the text of a file that someone named
uncertain.py     arithmetic with noisy numbers, errors carried along
"""
