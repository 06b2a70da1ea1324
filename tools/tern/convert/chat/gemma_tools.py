"""Values and functions as Gemma 4's template writes them. NoRule: the template would fail.

Strings stand between <|"|>, members of objects are sorted as Jinja's dictsort does. The engine writes the same
(src/text/tool_gemma.c).
"""

from typing import Any

from .errors import NoRule

QUOTE = '<|"|>'
OMITTED = ("description", "type", "properties", "required", "nullable")  # no parameter of these names is listed


def quoted(text: Any) -> str:
    return f"{QUOTE}{text}{QUOTE}"


def dictsort(value: dict) -> list[tuple]:
    """As Jinja's filter sorts: without regard to case."""
    return sorted(value.items(), key=lambda item: item[0].lower())


def value(x: Any, quote_keys: bool = False) -> str:
    if isinstance(x, str):
        return quoted(x)
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, dict):
        members = ((quoted(k) if quote_keys else k, value(v, quote_keys)) for k, v in dictsort(x))
        return "{" + ",".join(f"{k}:{v}" for k, v in members) + "}"
    if isinstance(x, list):
        return "[" + ",".join(value(item, quote_keys) for item in x) + "]"
    return str(x)


def member(x: Any, name: str) -> Any:
    return x.get(name) if isinstance(x, dict) else None


def type_of(spec: Any) -> str:
    """Of a schema, in capitals; empty where it has none."""
    return str(spec["type"]).upper() if isinstance(spec, dict) and "type" in spec else ""


def names(required: Any) -> str:
    if not isinstance(required, list):
        raise NoRule
    return "required:[" + ",".join(map(quoted, required)) + "]"


def mapping(x: Any) -> dict:
    if not isinstance(x, dict):
        raise NoRule
    return x


def properties(of: dict) -> str:
    return ",".join(f"{key}:{{{parameter(spec)}}}" for key, spec in dictsort(of) if key not in OMITTED)


def item_types(x: Any) -> str:
    if isinstance(x, str):
        return quoted(x.upper())
    if not isinstance(x, list):
        raise NoRule
    return value([str(kind).upper() for kind in x])


def items(of: dict) -> str:
    """The members of the schema of an array's items."""
    out = []
    for key, x in dictsort(of):
        if x is None:
            continue
        if key == "properties":
            out.append("properties:{" + (properties(x) if isinstance(x, dict) else "") + "}")
        elif key == "required":
            out.append(names(x))
        else:
            out.append(f"{key}:{item_types(x) if key == 'type' else value(x, True)}")
    return ",".join(out)


def parameter(spec: Any) -> str:
    """The members of a schema that the template lists."""
    out, kind, required = [], type_of(spec), member(spec, "required")
    if member(spec, "description"):
        out.append(f"description:{quoted(spec['description'])}")
    if kind == "STRING" and member(spec, "enum"):
        out.append(f"enum:{value(spec['enum'], True)}")
    if kind == "ARRAY" and isinstance(member(spec, "items"), dict) and spec["items"]:
        out.append(f"items:{{{items(spec['items'])}}}")
    if member(spec, "nullable"):
        out.append("nullable:true")
    if kind == "OBJECT":
        inner = spec["properties"] if isinstance(spec.get("properties"), dict) else spec
        out += [f"properties:{{{properties(inner)}}}", *([names(required)] if required else [])]
    return ",".join([*out, f"type:{quoted(kind)}"])


def declaration(function: dict) -> str:
    """`declaration:name{description:...,parameters:{...}}`; an object without a type is not closed, as in the template."""
    parameters = function.get("parameters")
    out = f"declaration:{function['name']}{{description:{quoted(function.get('description', ''))}"
    if parameters:
        listed, required, kind = (member(parameters, name) for name in ("properties", "required", "type"))
        out += ",parameters:{" + (f"properties:{{{properties(mapping(listed))}}}," if listed else "")
        out += (names(required) + "," if required else "") + (f"type:{quoted(str(kind).upper())}}}" if kind else "")
    if "response" in function:
        response = function["response"]
        out += ",response:{" + (f"description:{quoted(response['description'])}," if member(response, "description") else "")
        out += f"type:{quoted('OBJECT')}}}" if type_of(response) == "OBJECT" else ""
    return out + "}"
