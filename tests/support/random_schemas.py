"""Random JSON schemas, instances for them, and what a constraint promises of both (tests/random-schemas, tests/cli/test_random_schemas.py).

The universe is small on purpose: four keys, a dozen strings, small numbers. So keywords meet, many schemas can be satisfied, and a list of
instances covers much of what a schema can tell apart. Numbers are exact: Python's floats become Decimal.
"""

import collections
import decimal
import itertools
import json
import random
import re
import sys
from decimal import Decimal
from pathlib import Path

import hypothesis
import jsonschema
from hypothesis import strategies as st

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tools"), str(Path(__file__).resolve().parents[1] / "cli")]

from cli_case import tokenizer_section  # noqa: E402

import tern  # noqa: E402
from tern.testing import toyfile  # noqa: E402
from tern.weights import keys, tiles  # noqa: E402

KEYS = ["a", "b", "c", "ab"]
STRINGS = ["", "a", "b", "ab", "ba", "aab", "1", "a1", "é", "a b", '"', "2026-11-23", "10:20:30Z", "1.2.3.4", "x@y.zz", "\n"]
NUMBERS = [0, 1, 2, 3, 4, 6, 10, -1, -2, Decimal("0.5"), Decimal("1.5"), Decimal("2.0"), Decimal("0.1"), Decimal("-0.5"), Decimal("0.3")]
PATTERNS = ["^a", "b$", "^a*b*$", "[0-9]", "^[ab]{1,2}$", "^(a|ab)$", "^\\S*$", "^.$", "", "a.?b", "^[^a]*$", "\\d{2}"]
FORMATS = ["date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"]
TYPES = ["string", "number", "integer", "boolean", "null", "array", "object"]
BOUNDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
CONTAINERS = {
    "object": ("properties", "required", "minProperties", "unevaluatedProperties"),
    "array": ("items", "prefixItems", "contains", "minItems", "unevaluatedItems"),
}
BUDGET = 64 << 20  # bytes of a compiled constraint

decimal.getcontext().prec = 400


# ---- schemas ------------------------------------------------------------------------------------

small, key = st.integers(0, 3), st.sampled_from(KEYS)
scalars = st.sampled_from([None, True, False, *NUMBERS, *STRINGS])
values = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(key, scalars, max_size=2))


@st.composite
def some(draw, **parts):
    """A dictionary with some of these members, few of them."""
    names = draw(st.lists(st.sampled_from(sorted(parts)), max_size=3, unique=True))
    return {name.replace("_", "$", 1) if name.startswith("_") else name: draw(parts[name]) for name in names}


numeric = some(minimum=st.sampled_from(NUMBERS), maximum=st.sampled_from(NUMBERS), exclusiveMinimum=st.sampled_from(NUMBERS),
               exclusiveMaximum=st.sampled_from(NUMBERS), multipleOf=st.sampled_from([x for x in NUMBERS if x > 0]))  # fmt: skip
textual = some(minLength=small, maxLength=small, pattern=st.sampled_from(PATTERNS), format=st.sampled_from(FORMATS))


def objects(inner):
    return some(
        properties=st.dictionaries(key, inner, max_size=3), required=st.lists(key, max_size=2, unique=True),
        additionalProperties=inner, patternProperties=st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
        propertyNames=st.one_of(textual, st.builds(lambda names: {"enum": names}, st.lists(key, min_size=1, max_size=3, unique=True))),
        minProperties=st.integers(0, 2), maxProperties=small,
        dependentRequired=st.dictionaries(key, st.lists(key, max_size=2, unique=True), max_size=2),
        dependentSchemas=st.dictionaries(key, inner, max_size=2), unevaluatedProperties=inner,
    )  # fmt: skip


def arrays(inner):
    return some(
        items=inner, prefixItems=st.lists(inner, min_size=1, max_size=2), contains=inner, minContains=st.integers(0, 2), maxContains=small,
        minItems=st.integers(0, 2), maxItems=small, uniqueItems=st.booleans(), unevaluatedItems=inner,
    )  # fmt: skip


def joined(inner):
    """Keywords that apply other schemas in place."""
    few = st.lists(inner, min_size=1, max_size=3)
    return some(allOf=few, anyOf=few, oneOf=few, **{"not": inner, "if": inner, "then": inner, "else": inner})


@st.composite
def merged(draw, *parts):
    out = {}
    for part in parts:
        out |= draw(part)
    return out


TYPED = {"number": numeric, "integer": numeric, "string": textual, "boolean": st.just({}), "null": st.just({})}


@st.composite
def typed(draw, inner):
    name = draw(st.sampled_from(["object", "object", "array", "array", "string", "number", "integer", "boolean", "null"]))
    own = objects(inner) if name == "object" else arrays(inner) if name == "array" else TYPED[name]
    return {"type": name, **draw(own)}


@st.composite
def mixed(draw, inner):
    """Several keywords, of types that may or may not be allowed."""
    out = draw(merged(st.one_of(objects(inner), arrays(inner), numeric, textual), st.one_of(st.just({}), joined(inner), objects(inner))))
    if draw(st.booleans()):
        out["type"] = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True))
    return out


leaf = st.one_of(
    st.sampled_from([True, True, False, {}]), st.sampled_from([{"type": name} for name in TYPES]),
    st.builds(lambda x: {"const": x}, values), st.builds(lambda x: {"enum": x}, st.lists(values, min_size=1, max_size=4, unique_by=repr)),
    merged(st.just({"type": "string"}), textual), merged(st.sampled_from([{"type": "number"}, {"type": "integer"}]), numeric),
    st.sampled_from([{"$ref": "#/$defs/d"}, {"$ref": "#/$defs/e"}, {"$ref": "#d"}, {"$ref": "#"}, {"$dynamicRef": "#n"}]),
)  # fmt: skip


def wider(inner):
    return st.one_of(typed(inner), typed(inner), mixed(inner), joined(inner), merged(typed(inner), joined(inner)))


shallow = st.one_of(leaf, leaf, wider(leaf))
inner = st.one_of(leaf, leaf, wider(shallow))


def refers(schema, to: str) -> bool:
    if isinstance(schema, dict):
        return any(name in ("$ref", "$dynamicRef") and one == to or refers(one, to) for name, one in schema.items())
    return isinstance(schema, list) and any(refers(one, to) for one in schema)


@st.composite
def schemas(draw):
    """A schema, whose references all lead somewhere."""
    out = draw(wider(inner))
    if any(refers(out, to) for to in ("#/$defs/d", "#/$defs/e", "#d", "#n")):
        out["$defs"] = {"d": {**draw(wider(leaf)), "$anchor": "d", "$dynamicAnchor": "n"}, "e": draw(shallow)}
    return out


def text_of(value) -> str:
    """As JSON, with numbers in plain notation."""
    if isinstance(value, dict):
        return "{" + ", ".join(json.dumps(k, ensure_ascii=False) + ": " + text_of(v) for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def shortest(value):
    """With numbers in their shortest spelling, the only one of integers, and of items that must differ."""
    if isinstance(value, dict):
        return {k: shortest(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shortest(one) for one in value]
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def read(text: str):
    return json.loads(text, parse_float=Decimal)


# ---- validity by jsonschema ---------------------------------------------------------------------


def for_python(value):
    """The schema with ECMA-262's patterns as Python's: `$` is the very end, \\d an ASCII digit, a dot no line end."""
    if isinstance(value, list):
        return [for_python(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {name: one if name in ("const", "enum") else for_python(one) for name, one in value.items()}
    if "pattern" in out:
        out["pattern"] = pattern_for_python(out["pattern"])
    if "patternProperties" in out:
        out["patternProperties"] = {pattern_for_python(name): one for name, one in out["patternProperties"].items()}
    return out


def pattern_for_python(pattern: str) -> str:
    pattern = pattern or "(?:)"  # jsonschema overlooks an empty one beside additionalProperties
    return pattern.replace("$", r"\Z").replace(r"\d", "[0-9]").replace(".", r"[^\n\r\u2028\u2029]")


def is_integer(_, x) -> bool:
    return not isinstance(x, bool) and (isinstance(x, int) or isinstance(x, Decimal) and x == x.to_integral_value())


Exact = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer)
)


def applied(schema, root) -> list:
    """The schemas that it applies to the same value."""
    if not isinstance(schema, dict):
        return []
    out = [one for name in ("allOf", "anyOf", "oneOf") for one in schema.get(name, [])]
    out += [schema[name] for name in ("not", "if", "then", "else") if name in schema] + list(schema.get("dependentSchemas", {}).values())
    for to in (schema.get("$ref"), schema.get("$dynamicRef")):
        if to:
            out.append(root if to == "#" else root["$defs"]["e" if to.endswith("/e") else "d"])
    return out


def leads_back(schema, root, path: tuple = ()) -> bool:
    """A value is valid if it is valid: jsonschema would never end."""
    return id(schema) in path or any(leads_back(one, root, (*path, id(schema))) for one in applied(schema, root))


class Judge:
    """What jsonschema says of instances. None: it cannot say."""

    def __init__(self, schema):
        self.is_endless = any(leads_back(one, schema) for one in parts(schema, []))
        self.of = Exact(for_python(schema), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)

    def __call__(self, instance) -> bool | None:
        if self.is_endless or ":60" in text_of(instance):  # it knows no leap seconds
            return None
        return self.of.is_valid(instance)


# ---- instances ----------------------------------------------------------------------------------


def parts(schema, found: list) -> list:
    """Every sub-schema."""
    if isinstance(schema, dict):
        found.append(schema)
    for one in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        parts(one, found)
    return found


def fixed(schema) -> list:
    """The values that a schema names, and their neighbours."""
    out: list = []
    for part in parts(schema, []):
        if "const" in part:
            out.append(part["const"])
        if isinstance(part.get("enum"), list):
            out += part["enum"]
        out += [part[name] for name in BOUNDS if isinstance(part.get(name), int | Decimal)]
    return out


def instance(schema, root, named: list, chance: random.Random, depth: int = 0):
    """A value that has a fair chance to be valid."""
    while isinstance(schema, dict) and chance.random() < 0.8:
        ref = schema.get("$ref") or schema.get("$dynamicRef")
        inside = [schema[name] for name in ("allOf", "anyOf", "oneOf") if schema.get(name)]
        inside += [[schema[name]] for name in ("if", "then", "else") if name in schema]
        if ref:
            defs = root.get("$defs", {})
            schema = root if ref == "#" else defs.get("e" if ref.endswith("/e") else "d")
        elif inside and chance.random() < 0.5:
            schema = schema | (one if isinstance(one := chance.choice(chance.choice(inside)), dict) else {})
            for name in ("allOf", "anyOf", "oneOf", "if", "then", "else"):
                schema.pop(name, None)
        else:
            break
    schema = schema if isinstance(schema, dict) else {}
    if named and chance.random() < 0.15:
        return chance.choice(named)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(schema["enum"])
    kinds = schema.get("type") or [kind for kind, names in CONTAINERS.items() if any(n in schema for n in names)] or TYPES
    kind = kinds if isinstance(kinds, str) else chance.choice(kinds)
    below = lambda one: instance(one, root, named, chance, depth + 1)  # noqa: E731
    if depth > 3 and kind in ("array", "object"):
        return [] if kind == "array" else {}
    if kind == "object":
        members = schema.get("properties", {})
        wanted = {*schema.get("required", ()), *(k for k in KEYS if chance.random() < (0.4 if k in members else 0.15))}
        return {k: below(members.get(k, schema.get("additionalProperties", {}))) for k in sorted(wanted, key=lambda _: chance.random())}
    if kind == "array":
        first = schema.get("prefixItems", [])
        n = min(max(chance.choice((0, 1, 2, 3)), schema.get("minItems", 0)), max(schema.get("maxItems", 4), 0))
        rest = [schema[name] for name in ("contains", "items") if name in schema] or [{}]
        return [below(first[i] if i < len(first) else chance.choice(rest)) for i in range(n)]
    if kind in ("number", "integer"):
        return chance.choice([x for x in NUMBERS if kind == "number" or is_integer(None, x)])
    return {"string": chance.choice(STRINGS), "boolean": chance.random() < 0.5, "null": None}[kind]


def orders(value):
    """The value with its members in every order."""
    if isinstance(value, dict):
        for names in itertools.permutations(value):
            for inside in itertools.product(*(list(orders(value[name])) for name in names)):
                yield dict(zip(names, inside, strict=True))
    elif isinstance(value, list):
        yield from (list(one) for one in itertools.product(*(list(orders(item)) for item in value)))
    else:
        yield value


def n_orders(value) -> int:
    n = 1
    if isinstance(value, dict):
        for i, one in enumerate(value.values()):
            n *= (i + 1) * n_orders(one)
    elif isinstance(value, list):
        for one in value:
            n *= n_orders(one)
    return n


# ---- vocabularies -------------------------------------------------------------------------------


def letters() -> bytes:
    """A tokenizer without the single bytes: a text may only have these characters."""
    texts = [*'abcxyz019+-.:TZ{}[]", \n\\/@trufalsenihdkm', "é", "日", "tru", '{"', '": ', '",', "null", "ab", '"a', "  ", "10"]
    tokens = [b"<unk>", b"<s>", b"</s>", *(one.encode() for one in dict.fromkeys(texts))]
    n = len(tokens)
    return keys.pack({
        "kind": "spm", "tokens.bytes": b"".join(tokens), "tokens.lengths": keys.U32s([len(t) for t in tokens]),
        "tokens.types": bytes([2, 3, 3] + [1] * (n - 3)), "scores": [0.0] * 3 + [float(len(t)) for t in tokens[3:]], "byte_fallback": 0,
        "unk": 0, "bos": 1, "eos": 2, "add.before": keys.U32s([1]),
    })  # fmt: skip


def stored(name: str) -> bytes:
    """The tokenizer of tests/golden/tokenizers."""
    root = Path(__file__).resolve().parents[1] / "golden/tokenizers"
    return bytes(keys.unpack((root / f"{name}.bin").read_bytes())["section"])


def write_model(path: Path, tokenizer: bytes, seed: int) -> None:
    """A model of random weights for that tokenizer."""
    vocab = len(keys.unpack(tokenizer)["tokens.types"])
    config = {
        "n_layers": 1, "dim": 32, "vocab": vocab, "max_seq": 512, "norm_eps": 1e-5, "head_tied": 1, "n_heads": 2, "n_kv_heads": 1,
        "head_dim": 16, "hidden": 32, "window": [0], "attn_bias": 0, "ffn_bias": 0,
    }  # fmt: skip
    with open(path, "w+b") as out:
        toyfile.write(out, config, seed, tiles.Q8, more={"tokenizer": tokenizer})


class Words:
    """A model, and how its texts are steered to an end."""

    def __init__(self, path: Path, name: str):
        self.name = name
        self.model = tern.Model(path, n_ctx=256, n_threads=1)
        engine = self.model._engine
        self.pieces = engine.pieces(range(self.model.vocab))
        self.ends = [t for t in range(self.model.vocab) if engine.is_end(t)]
        closing = {b'"', b"}", b"]", b'"}', b'",', b"]}", b'"]'}
        self.closing = [t for t, piece in enumerate(self.pieces) if piece in closing] + self.ends
        found = {piece[0]: t for t, piece in enumerate(self.pieces) if len(piece) == 1 and t not in self.ends}
        self.of_byte = [found.get(byte, -1) for byte in range(256)]


def accepts(constraint: tern.Constraint, words: Words, text: str) -> bool:
    """Whether the text may be written, byte by byte."""
    state = constraint.start()
    try:
        for byte in text.encode():
            state.accept(words.of_byte[byte])
        return state.can_end
    except tern.Error:
        return False
    finally:
        state.close()


def made(folder: Path, seed: int) -> list[Words]:
    """Models of random weights with made-up vocabularies, and fable. The first has single bytes alone, the second none."""
    sections = {"bytes": tokenizer_section(), "letters": letters(), "bpe": stored("llama3"), "spm": stored("spm"), "unigram": stored("hf-uni-bytes")}
    for name, section in sections.items():
        write_model(folder / f"{name}.bin", section, seed)
    return [Words(folder / f"{name}.bin", name) for name in sections] + [Words(Path(__file__).resolve().parents[2] / "models/fable.bin", "fable")]


class Violation(AssertionError):
    pass


class Trial:
    """Holds schemas to what is promised: tests/random-schemas says what. `counts` says how much was done."""

    def __init__(self, words: list[Words], n_predict: int = 150):
        """words: the first model has all single bytes."""
        self.bytewise, self.others, self.n_predict = words[0], words, n_predict
        self.counts = dict.fromkeys(("schemas", "compiled", "refused", "empty", "judged", "valid", "texts", "finished"), 0)
        self.refusals: collections.Counter[str] = collections.Counter()

    def compile(self, words: Words, text: str, **how) -> tern.Constraint | str:
        """The constraint, or why it is refused."""
        try:
            return tern.Constraint(words.model, "schema", text, max_bytes=BUDGET, **how)
        except tern.Error as e:
            return str(e)

    def check(self, schema, seed: int) -> None:
        text = text_of(schema)
        chance = random.Random(seed)
        schema, judge = read(text), Judge(read(text))
        self.counts["schemas"] += 1
        compact = chance.random() < 0.3
        said = self.compile(self.bytewise, text, any_order=True)
        if isinstance(said, str):
            return self.refused(said, schema, judge, chance, text)
        self.counts["compiled"] += 1
        with said as loose:
            strict = self.compile(self.bytewise, text)
            if isinstance(strict, str):
                raise Violation(f"compiled in any order, refused in the schema's: {strict}: {text}")
            with strict:
                self.instances(loose, strict, schema, judge, chance, text)
        self.texts(text, judge, chance, compact)

    def refused(self, sentence: str, schema, judge: Judge, chance: random.Random, text: str) -> None:
        if "nothing is valid" in sentence:
            self.counts["empty"] += 1
            for one in self.pool(schema, chance):
                if judge(one):
                    raise Violation(f"{sentence!r}, but jsonschema accepts {text_of(one)}: {text}")
            return
        self.counts["refused"] += 1
        place = re.match(r"schema: (\S+) at (#\S*): .", sentence)
        if not place and "too large for the budget" not in sentence:
            raise Violation(f"a refusal that names no keyword and place: {sentence!r}: {text}")
        self.refusals[re.sub(r" at #\S*:", ":", sentence)] += 1

    def pool(self, schema, chance: random.Random) -> list:
        named = fixed(schema)
        out = [*named, *NUMBERS, *STRINGS, None, True, False, [], {}, [1], ["a"], {"a": 1}, {"b": "a"}, [1, 1], ["a", "b"]]
        out += [instance(schema, schema, named, chance) for _ in range(30)]
        return list({text_of(one): one for one in out}.values())

    def instances(self, loose, strict, schema, judge: Judge, chance: random.Random, text: str) -> None:
        for one in self.pool(schema, chance):
            wanted = judge(one)
            if wanted is None:
                continue
            one = shortest(one)
            self.counts["judged"] += 1
            self.counts["valid"] += wanted
            spelled = text_of(one)
            if accepts(loose, self.bytewise, spelled) != wanted:
                raise Violation(f"{'refused' if wanted else 'accepted'} {spelled}, unlike jsonschema: {text}")
            if n_orders(one) <= 24:
                found = any(accepts(strict, self.bytewise, text_of(other)) for other in orders(one))
                if found != wanted:
                    raise Violation(f"{'refused' if wanted else 'accepted'} {spelled} in the schema's order, unlike jsonschema: {text}")

    def texts(self, text: str, judge: Judge, chance: random.Random, compact: bool) -> None:
        words = chance.choice(self.others)
        how = {"compact": compact, "any_order": chance.random() < 0.3}
        constraint = self.compile(words, text, **how)
        if isinstance(constraint, str):
            if "nothing is valid" in constraint and all(b >= 0 for b in words.of_byte[32:127]):
                raise Violation(f"{words.name}: {constraint}: {text}")
            return
        bias = chance.choice((0, 4, 8))
        options = {
            "constraint": constraint, "seed": chance.randrange(1 << 30), "temperature": chance.choice((0, 1, 1.5)), "top_k": 0,
            "n_predict": self.n_predict, "no_force": chance.random() < 0.3, "bias": dict.fromkeys(words.closing, bias),
        }  # fmt: skip
        with constraint:
            try:
                result = self.text(words, options | {"lookup": True if chance.random() < 0.3 else None})
                self.counts["texts"] += 1
                if result.reason == "complete":
                    self.counts["finished"] += 1
                    try:
                        valid = judge(read(result.text))
                    except ValueError as e:
                        raise Violation(f"{words.name} {how}: {result.text!r} is not JSON ({e}): {text}") from None
                    if valid is False:
                        raise Violation(f"{words.name} {how}: {result.text!r} is not valid: {text}")
                    if compact and re.search(r"\s", re.sub(r'"(\\.|[^"\\])*"', "", result.text)):
                        raise Violation(f"{words.name} {how}: {result.text!r} is not compact: {text}")
                elif result.reason != "length":
                    raise Violation(f"{words.name} {how}: ended by {result.reason!r}: {text}")
            except tern.Error as e:
                raise Violation(f"{words.name} {how}: {e}: {text}") from None

    def text(self, words: Words, options: dict):
        generation = words.model.generate([1, 2], **options)
        for _ in generation:
            pass
        return generation.result

    def close(self) -> None:
        for words in self.others:
            words.model.close()


def rounds(trial: Trial, n: int, seed: int, shrink: bool = True) -> list[str]:
    """What fails of n schemas, as small as hypothesis makes it."""
    phases = [hypothesis.Phase.generate] + [hypothesis.Phase.shrink] * shrink

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=n, database=None, deadline=None, phases=phases, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(schemas(), st.integers(0, 1 << 30))
    def check(schema, seed):
        trial.check(schema, seed)

    try:
        check()
    except Exception as e:  # one, or a group of them
        return [f"{type(one).__name__}: {one}" for one in getattr(e, "exceptions", [e])]
    return []
