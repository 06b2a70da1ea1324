"""Notations in which some models take functions: Python signatures (Hermes), types of TypeScript (gpt-oss), tags (Qwen3-Coder).

They do what the templates of these models do, with their oddities, as the engine does (src/text/tool_types.c). NoRule: the
template would fail.
"""

import json
from typing import Any

from .errors import NoRule

PYTHON = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"}
TYPESCRIPT = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}


def words(value: Any) -> str:
    if not isinstance(value, str):
        raise NoRule
    return value


# ---- Python --------------------------------------------------------------------------------------


def python_type(spec: Any) -> str:
    kind = spec.get("type") if isinstance(spec, dict) else None
    if kind == "object" and "additionalProperties" in spec:
        return f"dict[str, {python_type(spec['additionalProperties'])}]"
    if isinstance(kind, list):
        return f"Union[{','.join(map(python_name, kind))}]"
    return python_name(kind)


def python_name(kind: Any) -> str:
    if isinstance(kind, str) and kind in PYTHON:
        return PYTHON[kind]
    if kind in ("array", "object"):  # the template looks for the items of a list in the wrong place
        return "dict" if kind == "object" else "list[Union[]]"
    if kind is None or kind == "":
        return "Union[]"
    if isinstance(kind, (str, dict)):
        raise NoRule
    return "Any"


def signature(function: dict) -> str:
    """`name(a: str, b: int) -> str - description`, then the arguments one by one."""
    properties, returns = function.get("parameters", {}).get("properties", {}), function.get("return")
    out = f"{function['name']}({', '.join(f'{name}: {python_type(spec)}' for name, spec in properties.items())})"
    out += f" -> {python_type(returns)}" if "return" in function else ""
    out += f" - {words(function.get('description'))}\n\n"
    for i, (name, spec) in enumerate(properties.items()):
        described = str(spec.get("description", "")).strip()
        out += ("" if i else "    Args:\n") + f"        {name}({python_type(spec)}): {described}"
    if isinstance(returns, dict) and "description" in returns:
        out += f"\n    Returns:\n        {words(returns['description'])}"
    return out


# ---- TypeScript ----------------------------------------------------------------------------------


def typescript_type(spec: dict) -> str:
    kind, variants = spec.get("type"), spec.get("oneOf")
    if kind == "array":
        return array_type(spec) + (" | null" if spec.get("nullable") else "")
    if isinstance(kind, list) and kind:
        return " | ".join(map(str, kind))
    if variants:
        return variant_types(variants)
    if kind == "string":
        if spec.get("enum"):
            return '"' + '" | "'.join(map(str, spec["enum"])) + '"'
        return "string | null" if spec.get("nullable") else "string"
    if kind == "object":
        return object_type(spec)
    return TYPESCRIPT.get(kind, "any") if isinstance(kind, str) else "any"


def array_type(spec: dict) -> str:
    items = spec.get("items")
    if not items:
        return "any[]"
    if items.get("type") in TYPESCRIPT:
        return TYPESCRIPT[items["type"]] + "[]"
    inner = typescript_type(items)
    return "any[]" if inner == "object | object" or len(inner) > 50 else inner + "[]"


def variant_types(variants: list) -> str:
    if len(variants) > 1 and any(v.get("type") == "object" for v in variants):
        return "any"
    out = ""
    for i, variant in enumerate(variants):
        out += typescript_type(variant)
        out += f"// {words(variant['description'])}" if variant.get("description") else ""
        out += f"                    // default: {json.dumps(variant['default'], ensure_ascii=False)}" if "default" in variant else ""
        out += " | \n" if i + 1 < len(variants) else ""
    return out


def object_type(spec: dict) -> str:
    properties, required = spec.get("properties"), spec.get("required") or []
    if not properties:
        return "object"
    members = (f"{name}{'' if name in required else '?'}: \n                {typescript_type(p)}" for name, p in properties.items())
    return "{\n" + ", ".join(members) + "}"


def parameter(name: str, spec: dict, required: list) -> str:
    out = f"// {words(spec['description'])}\n" if spec.get("description") else ""
    out += f"{name}{'' if name in required else '?'}: {typescript_type(spec)}"
    if "default" in spec:
        default = spec["default"]
        if spec.get("enum") or spec.get("oneOf"):
            out += ("" if not spec.get("enum") else ",") + ("// default: " if not spec.get("enum") else " // default: ") + words(default)
        else:
            out += f", // default: {json.dumps(default, ensure_ascii=False)}"
    return out + ",\n"


def types(function: dict) -> str:
    """`// description`, `type name = (_: {` its parameters `}) => any;` and an empty line."""
    parameters = function.get("parameters") or {}
    properties, required = parameters.get("properties"), parameters.get("required") or []
    inner = "_: {\n" + "".join(parameter(n, p, required) for n, p in properties.items()) + "}" if properties else ""
    return f"// {words(function.get('description'))}\ntype {function['name']} = ({inner}) => any;\n\n"


# ---- tags ----------------------------------------------------------------------------------------


def tag(name: str, value: Any) -> str:
    """Arrays and objects as JSON, all else as Jinja prints it."""
    return f"\n<{name}>{json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value}</{name}>"


def json_tag(name: str, value: Any) -> str:
    return f"\n<{name}>{json.dumps(value, ensure_ascii=False)}</{name}>"


def described(spec: dict) -> str:
    return tag("description", str(spec["description"]).strip()) if "description" in spec else ""


def others(spec: Any, known: tuple[str, ...]) -> str:
    return "".join(tag(key, value) for key, value in spec.items() if key not in known) if isinstance(spec, dict) else ""


def tagged_parameter(name: str, spec: Any, apart: bool) -> str:
    out, known = f"\n<parameter>\n<name>{name}</name>", ("name", "type", "description")
    if isinstance(spec, dict):
        out += f"\n<type>{spec['type']}</type>" if "type" in spec else ""
        out += described(spec)
        if apart and "enum" in spec:
            out += json_tag("enum", spec["enum"])
    return out + others(spec, (*known, "enum") if apart else known) + "\n</parameter>"


def tags(function: dict, apart: bool = False) -> str:
    """A tag for every member. `apart`: `enum` stands before other members, and `required` behind them, both as JSON."""
    parameters = function.get("parameters")
    inner = parameters if isinstance(parameters, dict) else {}
    out = f"<function>\n<name>{function['name']}</name>{described(function)}\n<parameters>"
    properties = inner.get("properties")
    for name, spec in properties.items() if isinstance(properties, dict) else ():
        out += tagged_parameter(name, spec, apart)
    out += others(inner, ("type", "properties", "required") if apart else ("type", "properties"))
    if apart and "required" in inner:
        out += json_tag("required", inner["required"])
    return out + "\n</parameters>" + others(function, ("type", "name", "description", "parameters")) + "\n</function>"


def tags_apart(function: dict) -> str:
    return tags(function, True)
