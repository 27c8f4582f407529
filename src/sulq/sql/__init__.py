"""SQL statement -> queries and how to lay out their answers."""

from sulq.sql.statement import Statement, compile_statement

__all__ = ["Statement", "compile_statement"]
