"""What every script here shares: it is told a question's name, answers, and says how long it took.

One line in, one line out, so that the libraries are asked in turn and a busy moment hits all
alike. A fresh session is made for every question; that is not timed.
"""

import csv
import json
import math
import sys
import time


def columns(path, *text):
    """A CSV file by column; numbers but for those named."""
    with open(path) as file:
        rows = list(csv.DictReader(file))
    return {c: [r[c] if c in text else float(r[c]) for r in rows] for c in rows[0]}


def serve(ways, fresh=lambda name: None):
    """Answer until the questions end; `ways` has a function of a fresh session for each."""
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    print(json.dumps(sorted(ways)), file=out, flush=True)
    for line in sys.stdin:
        name = line.strip()
        try:
            session = fresh(name)
            start = time.perf_counter()
            found = ways[name](session)
            seconds = time.perf_counter() - start
            said = {"seconds": seconds, "values": [float(x) for x in found]}
        except Exception as error:  # the page says so
            words = str(error).strip().splitlines() or [""]
            said = {"failed": f"{type(error).__name__}: {words[0]}"[:200]}
        print(json.dumps(said), file=out, flush=True)


def rho(epsilon, delta):
    """The largest rho whose zero-concentrated dp is (epsilon, delta)-dp.

    By Canonne, Kamath and Steinke (2020), Corollary 13, over alphas on a grid.
    """
    alphas = [1 + 1.02**i / 100 for i in range(800)]

    def reached(r):
        return min(
            (a - 1) * (a * r - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a) for a in alphas
        )

    low, high = 0.0, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) <= math.log(delta) else (low, middle)
    return low
