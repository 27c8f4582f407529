"""The query auditor (Duan): exact sums, answered or refused. Off unless mode="audited".

question.py   Query             -> Question, one number that both rules can judge
promise.py    the owner's terms -> what is promised, and against whom, in words
priors.py     the owner's bounds on private values -> how rare a set of them may be
crowd.py      how rare, epsilon, delta -> K, the rows that hide one another
classes.py    rule="classes": decides from public columns and past questions alone
exact.py      positive definite or not, in whole numbers
duan.py       rule="duan": the smallest singular value of the paper, as it is
database.py   AuditedDatabase: charge, decide, sum, dither, answer
review.py     a list of questions: which could be answered together, which break it
"""

from sulq.audit.review import Finding, Review, review

__all__ = ["Finding", "Review", "review"]
