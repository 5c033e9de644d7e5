"""What random policies reach of the schema: which fields, values and empty values never occur in them."""

import collections


def leaves(schema, path=""):
    """Paths of all fields that are not objects with fields of their own, with their schema."""
    for name, member in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        if member.get("properties"):
            yield from leaves(member, where)
        else:
            yield where, member


def values(spec, path=""):
    """Every (path, value) of a spec, objects included."""
    for name, member in spec.items():
        where = f"{path}.{name}" if path else name
        yield where, member
        if isinstance(member, dict):
            yield from values(member, where)


def excluded(path, exclusions):
    return any(path == name or path.startswith(name + ".") for name in exclusions)


def report(schema, specs, exclusions=()):
    """Sentences about what `specs` never do."""
    seen = collections.defaultdict(list)
    for spec in specs:
        for path, value in values(spec):
            seen[path].append(value)
    for path, member in leaves(schema):
        if excluded(path, exclusions):
            continue
        found = seen.get(path, [])
        if not found:
            yield f"{path} is never set"
            continue
        for value in member.get("enum", []):
            if value not in found:
                yield f"{path} is never {value!r}"
        kind = member.get("type")
        if kind == "boolean" and len(set(found)) < 2:
            yield f"{path} is always {found[0]}"
        if kind in ("array", "object") and (all(found) or not any(found)):
            yield f"{path} is {'never' if all(found) else 'always'} empty"
