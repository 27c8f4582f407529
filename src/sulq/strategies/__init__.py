"""Many questions answered from fewer, cheaper ones, and from those that were asked before.

estimates.py         what stored answers say about a question, by least squares
exact_matrix.py      sparse matrices of exact numbers: the weights of linear forms
exact_span.py        is a form a combination of others? decided in whole numbers
linear_form.py       what each released number adds up, over cells that rows fall into
many_tables.py       tables of counts that are asked together, agree and have no cell below zero
optimum.py           the best whole-number matrix to read a given batch of sums from
residual_planner.py  the best way to ask many tables of the same columns
running_totals.py    totals so far at every period, from one answer for each
sharing.py           many counts over the same few-valued columns, from one strategy
subtotals.py         histograms with subtotals: tables over the same cells, from one strategy
"""
