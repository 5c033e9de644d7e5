"""Builders for OpenAPI v3 structural schemas: the vocabulary of the schema sources in this folder.

A builder returns a plain dictionary, ready to be written into a CRD or into values.schema.json.
Every builder takes the description first: a field without one cannot be written down.
In `obj`, a property name that ends in "!" is required.
"""


def _scalar(kind, about, default=None, enum=None, pattern=None, minimum=None, maximum=None, **more):
    schema = {"type": kind, "description": about}
    given = {"default": default, "enum": enum, "pattern": pattern, "minimum": minimum,
             "maximum": maximum}
    schema.update({key: value for key, value in given.items() if value is not None})
    schema.update(more)
    return schema


def string(about, **limits):
    return _scalar("string", about, **limits)


def boolean(about, **limits):
    return _scalar("boolean", about, **limits)


def integer(about, bits=None, **limits):
    if bits:
        limits["format"] = f"int{bits}"
    return _scalar("integer", about, **limits)


def int_or_string(about, **limits):
    return {"description": about, "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True, **limits}


def array(about, items, **more):
    return {"type": "array", "description": about, "items": items, **more}


def strings(about, **more):
    return array(about, {"type": "string"}, **more)


def mapping(about, values):
    return {"type": "object", "description": about, "additionalProperties": values}


def string_map(about):
    return mapping(about, {"type": "string"})


def obj(about, properties, **more):
    required = sorted(name[:-1] for name in properties if name.endswith("!"))
    schema = {"type": "object",
              "description": about,
              "properties": {name.rstrip("!"): value for name, value in properties.items()}}
    if required:
        schema["required"] = required
    schema.update(more)
    return schema


def bare(schema):
    """The schema without its description, for the items of a list that describes itself."""
    return {key: value for key, value in schema.items() if key != "description"}


def without(schema, *names):
    """An object schema without some of its properties."""
    kept = {key: value for key, value in schema["properties"].items() if key not in names}
    return {**schema, "properties": kept}
