"""The query auditor (Duan): exact sums, answered or refused. Off unless mode="audited".

attacks.py          four ways a bare singular-value test fails, as programs
calls.py            the calls that differ from the front door's, here and over HTTP alike
class_size.py       how rare, epsilon, delta -> K, the rows that hide one another
classes.py          rule="classes": decides from public columns and past questions alone
database.py         AuditedDatabase: the same front door, exact sums behind it
duan.py             rule="duan": the paper's test, as it is, on the exact integer Gram matrix
limits.py           how far the paper's limit theorem and its simulation are from the rows
open_audited.py     what `mode="audited"` adds: the owner's terms, an auditor
policy.py           the auditor in the pipeline: judged once paid, summed or refused; residues
priors.py           the owner's bounds on private values -> how rare a set of them may be
promise.py          the owner's terms: what is promised, and against whom; the dither
review.py           a list of questions: which could be answered, which break it
rules.py            which auditor judges under a promise
tables.py           several numbers as one question -> those of one number that it is made of
total.py            Query -> Total, the one form that an auditor judges
truth_tables.py     truth tables, and the classes of rows that questions treat alike
verdicts.py         what every auditor is, and says of each question, in the ledger's order
"""

from sulq.audit.review import Finding, Review, review

__all__ = ["Finding", "Review", "review"]
