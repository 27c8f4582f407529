"""WebAssembly row functions: what is accepted, how it is made total and bounded, how it runs.

binary.py       the binary format -> a Module, or where and why it is refused
disassembly.py  a module as text, so that its owner can read what was run
driver.py       the loop over the rows of a batch, inside WebAssembly, and how it is run
encoding.py     the bytes of WebAssembly, as far as they are written here
library.py      programs by their SHA-256; what is needed to run one
opcodes.py      the instructions that are read, by number
rewrite.py      a module -> one that neither traps nor runs on; how deep its stack may become
weights.py      which function is asked for, who calls whom, what fuel instructions take
worst_time.py   what a row of a program can take at most, in seconds on this machine
"""
