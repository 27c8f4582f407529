"""The Model Context Protocol: an AI agent sees schema, price and budget, and pays within a cap.

jsonrpc.py     messages of JSON-RPC 2.0, read strictly
methods.py     initialize, tools/list, tools/call: one message in, at most one out
tools.py       the seven tools, what they take, and what their results say
tokens.py      price tokens: `ask` pays for what `price` has shown
local_databases.py  what the tools are asked of: databases of this process
stdio.py       messages by lines of stdin and stdout

It is written here, strictly and in small, because the official package brings two HTTP stacks,
OpenTelemetry and cryptography for what are seven tools; its client is used in the tests.
"""
