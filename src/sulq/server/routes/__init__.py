"""The routes under /v1: what each takes and gives."""
