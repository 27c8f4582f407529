"""The promise in numbers: what is promised, how far a row can move an answer, price and noise.

No rows and no disk. Everything that privacy rests on is an int or a Fraction.

    calibration.py  how much binomial or stitched noise a promise needs
    chance.py       probabilities as people say them
    choice.py       one of many cells, chosen exactly so that near ones are likelier
    fitting.py      how many queries suit so many rows
    geometry.py     how far one row can move an answer, and the numbers that leave
    noise.py        the laws of noise, drawn exactly; the only file with randomness
    noise_ahead.py  noise drawn before it is needed, so that a late draw delays no response
    one_thread.py   linear algebra of small matrices without threads
    pricing.py      a checked query -> its price, and the noise of each number
    promise.py      epsilon, delta and T -> the noise of one answer, in words too
    promise_terms.py  are the terms of a promise what they must be? several beliefs at once
    residuals.py    how far one row can move what tables say beyond their margins
    strategy_matrix.py  matrices that answer every range or prefix of a line of cells best
    thresholds.py   from how many rows on a value is named that nobody listed
    toeplitz.py     running totals: whole-number weights, their sizes, and how to read them
"""
