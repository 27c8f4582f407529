"""SQL expression text -> total row functions with a known type and range, and their values.

arithmetic.py          arithmetic, and casts to numbers
automaton.py           a pattern as a finite automaton, and texts walked through it
columns.py             raw columns as numpy, read as the schema declares them
dialect.py             how sqlglot reads our SQL
distinctions.py        what row functions tell apart: constants, every value, yes/no facts
domains.py             every value a column or an expression can have, from declarations
functions.py           FUNCTIONS, the allow-list of what an expression may use; texts and dates
literals.py            a constant beside a column must be a value the column can have
logic.py               comparisons, AND, OR, NOT, IN; CASE, COALESCE, WIDTH_BUCKET
lookup_node.py         a column of a public lookup table -> a row function
node.py                Node: one step of a row function
normal_form.py         one form for all predicates that are true of the same rows
operations.py          what each function does to whole columns, in numpy; expressions evaluated
parse.py               SQL expression text -> a Node
pieces.py              the pieces of a column's values that a predicate tells apart
program.py             sulq.Program: a WebAssembly function of a row, as an expression
program_node.py        a program called in an expression: its arguments, range and fuel
python_calls.py        what a row function may call, as SQL of ours
python_expressions.py  the expressions of a Python function -> terms of SQL
python_reader.py       a Python function -> the SQL expression that has its value
python_terms.py        SQL text that is being put together
python_texts.py        texts, patterns and dates of a row function, as SQL of ours
quoting.py             names and texts as SQL writes them
regular.py             regular expressions of a safe subset -> automata of a bounded size
row_function.py        @sulq.row: a Python function of named columns -> an expression
spelling.py            the nearest of some words to one that was mistyped
stored_tree.py         a row function as JSON: how the ledger keeps expressions, and reads them back
syntax.py              text that is no SQL -> what is probably wrong with it, and where
timestamps.py          moments as whole seconds: hours, minutes, and what lies between two
wording.py             an expression -> the SQL a person reads: "age > 40 and smoker"
"""
