"""The OpenAPI description -> a page of the reference: what each route takes and gives, by example.

The page in the docs and the page that a server shows are both made from this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BASE = "http://127.0.0.1:8707"
PLACES = {"name": "people", "analyst": "alice", "key": "0123456789abcdef"}  # in paths
DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a name in a body."""

    name: str
    where: str  # query, header or body
    kind: str
    about: str
    default: str | None  # as JSON; None: it must be given


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one address."""

    method: str
    path: str
    summary: str
    about: str
    fields: tuple[Field, ...]
    request: str  # a command that asks it
    status: str
    reply: str  # an example
    errors: tuple[tuple[str, str], ...]

    @property
    def anchor(self) -> str:
        """Where it is on the page."""
        return f"{self.method}{self.path}".lower().translate(str.maketrans("/{}.", "----"))


def sections(description: Mapping[str, Any]) -> dict[str, list[Route]]:
    """Every route by the name of its section."""
    models = description["components"]["schemas"]
    found: dict[str, list[Route]] = {}
    for path, methods in description["paths"].items():
        for method, said in methods.items():
            made = _route(method.upper(), path, said, models)
            found.setdefault(said["tags"][0], []).append(made)
    return found


def _route(method: str, path: str, said: Mapping[str, Any], models: Mapping[str, Any]) -> Route:
    content = said.get("requestBody", {}).get("content", {}).get("application/json")
    model = None if content is None else resolved(content["schema"], models)
    given = [p for p in said.get("parameters", ()) if p["in"] != "path"]
    status = next(s for s in said["responses"] if s.startswith("2"))
    errors = [(s, r["description"]) for s, r in sorted(said["responses"].items()) if s >= "4"]
    return Route(
        method, path, said["summary"], said["description"],
        (*map(_parameter, given), *(() if model is None else _fields(model))),
        _command(method, path, said, None if model is None else _asked(model, models)),
        status, _reply(said["responses"][status]["content"], models), tuple(errors),
    )  # fmt: skip


# ---- what is taken --------------------------------------------------------------------------


def _parameter(said: Mapping[str, Any]) -> Field:
    default = None if said.get("required") else json.dumps(said["schema"].get("default"))
    about = said.get("description", "")
    return Field(said["name"], said["in"], kind_of(said["schema"]), about, default)


def _fields(model: Mapping[str, Any]) -> list[Field]:
    wanted = model.get("required", ())
    return [
        Field(name, "body", kind_of(field), about_of(field),
              None if name in wanted else json.dumps(field.get("default")))
        for name, field in model["properties"].items()
    ]  # fmt: skip


def kind_of(field: Mapping[str, Any]) -> str:
    """The type of a field, in words."""
    if "$ref" in field:
        return "object"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(kind_of(f) for f in field["anyOf"]))
    if "enum" in field:
        return ", ".join(json.dumps(value) for value in field["enum"])
    return str(field.get("type", "any"))


def about_of(field: Mapping[str, Any]) -> str:
    """What is said of a field, or of what it is a list or a choice of."""
    inner = [*field.get("anyOf", ()), field.get("items", {})]
    nested = next((x for f in inner if (x := f.get("description"))), "")
    return str(field.get("description") or nested)


# ---- by example -----------------------------------------------------------------------------


def resolved(schema: Mapping[str, Any], models: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, its name looked up."""
    found: Mapping[str, Any] = models[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else {}
    return found or schema


def example(schema: Mapping[str, Any], models: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that the schema takes."""
    schema = resolved(schema, models)
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema or "enum" in schema:
        return schema.get("const", next(iter(schema.get("enum", ())), None))
    if "anyOf" in schema:
        return _one_of(schema["anyOf"], models, depth)
    kind = schema.get("type")
    if kind == "object" and "properties" in schema and depth < DEEPEST:
        named = schema["properties"].items()
        return {name: example(field, models, depth + 1) for name, field in named}
    if kind == "object":
        more = schema.get("additionalProperties")
        return (
            {"alice": example(more, models, depth + 1)} if isinstance(more, dict) and more else {}
        )
    if kind == "array":
        parts = schema.get("prefixItems") or ([schema["items"]] if "items" in schema else [])
        return [example(part, models, depth + 1) for part in parts]
    return {"integer": 0, "number": 0.0, "boolean": True, "string": "..."}.get(str(kind))


def _one_of(options: list[Any], models: Mapping[str, Any], depth: int) -> Any:
    """The first of several; nothing, where that may be and the first has no example to show."""
    first = resolved(options[0], models)
    telling = "examples" in first or "$ref" in json.dumps(first) or "properties" in first
    return example(first, models, depth) if telling or options[-1] != {"type": "null"} else None


def _asked(model: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    """The least that a body must say; one of its choices where all of them may be left out."""
    wanted = model.get("required") or list(model["properties"])[:1]
    return {name: example(model["properties"][name], models) for name in wanted}


def _command(method: str, path: str, said: Mapping[str, Any], body: Any) -> str:
    for name, value in PLACES.items():
        path = path.replace(f"{{{name}}}", value)
    parts = ["curl"] if method == "GET" else [f"curl -X {method}"]
    parts += ['-H "Authorization: Bearer $SULQ_KEY"'] if said.get("security") else []
    if body is not None:
        quoted = json.dumps(body).replace("'", "'\\''")
        parts += ['-H "Content-Type: application/json"', f"-d '{quoted}'"]
    return " \\\n  ".join([*parts, f"{BASE}{path}"])


def _reply(content: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    kind, said = next(iter(content.items()))
    if kind != "application/json":
        return f"({kind})"
    found = example(said["schema"], models)
    if isinstance(found, dict):
        model = resolved(said["schema"], models)
        found = {k: v for k, v in found.items() if not _is_other(k, model)}
    return json.dumps(found, indent=2)


def _is_other(name: str, model: Mapping[str, Any]) -> bool:
    """Is it a second form of the same reply?"""
    first = next(iter(model["properties"]))
    return name != first and not model.get("required") and name in model["properties"]
