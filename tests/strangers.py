"""What a file takes of sulq that is not public, for packages that use the front door only."""

import ast

import sulq


def strangers(tree, inside, harmless, foreign):
    """Names behind the front door.

    `inside` has the files of its own package, `harmless(module, name)` says what else it may
    import, `foreign(name, attribute)` what it may not ask of an object with this name.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("sulq."))
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level > 1 or (node.level == 1 and module.split(".")[0] not in inside):
                yield f"{'.' * node.level}{module}"
            if node.level == 0 and module.startswith("sulq."):
                yield from (a.name for a in node.names if not harmless(module, a.name))
            if node.level == 0 and module == "sulq":
                yield from (a.name for a in node.names if a.name not in sulq.__all__)
        if isinstance(node, ast.Attribute):
            owner = node.value
            named = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if named == "sulq" and node.attr not in sulq.__all__:
                yield f"sulq.{node.attr}"
            if foreign(named, node.attr):
                yield f"db.{node.attr}"
