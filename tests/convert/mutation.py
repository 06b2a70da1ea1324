"""Damage with a structure: one field, key or value of a file becomes one that a reader may trip over.

In: a seeded random.Random and the bytes of a valid file. Out: the bytes of a damaged one. The counts, lengths and places
around a change are sometimes set right again and sometimes not, so that both a check and what comes after it are reached.
"""

import copy
import json
import math
import random
import struct
from collections.abc import Callable

HUGE = (0, 1, 2, 255, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, 1 << 61, 1 << 62, (1 << 63) - 1,
        1 << 63, (1 << 64) - 1)  # fmt: skip
STRINGS = ("", " ", "a", "\0", "\n", "é", "e\u0301", "\u2581", "\ud800", "\udc80x", "\U0001f600", "\ufeff", "\u202e", "\x1b[31m", "../x", "/",
           "a" * 300, "\u0301" * 40, "<unk>", "</s>", "null", "1", "-1", "1e999", "nan", "F32", "F64", "BF16", "F8_E4M3", "I8", "U8", "f32")  # fmt: skip
# In the place of a value after the text has been written: what json.dumps would not write.
RAW = {
    "@nan@": "NaN", "@infinity@": "-Infinity", "@float@": "1e999", "@tiny@": "1e-999", "@zero@": "-0.0",
    "@digits@": "9" * 5000, "@deep@": "[" * 3000 + "]" * 3000, "@deeper@": '{"a":' * 60000 + "1" + "}" * 60000,
    "@open@": "[" * 200, "@word@": "None", "@hex@": "0x10", "@escape@": '"\\x"', "@half@": '"\\ud83d"', "@comma@": "[1,]",
}  # fmt: skip


def byte_damage(rng: random.Random, data: bytes, head: int) -> bytes:
    """A few changes of bytes, most of them in the first `head`."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not out:
            break
        at = rng.randrange(min(head, len(out)) if rng.random() < 0.9 else len(out))
        kind = rng.randrange(6)
        if kind == 0:
            out[at] = rng.randrange(256)
        elif kind == 1:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            out[at : at + 8] = struct.pack("<Q", rng.choice((*HUGE, rng.getrandbits(64))))
        elif kind == 3:
            del out[at : at + rng.choice((1, 4, 8, 100))]
        elif kind == 4:
            out[at:at] = out[at : at + rng.choice((1, 8, 60))]
        else:
            del out[at:]
    return bytes(out)


# ---- texts and numbers


def text(rng: random.Random, old: str, others: list[str]) -> str:
    """A text near the old one, another of the file, or a strange one."""
    kind = rng.randrange(6)
    if kind == 0 or not old:
        return rng.choice(STRINGS)
    at = rng.randrange(len(old))
    if kind == 1 and others:
        return rng.choice(others)
    if kind == 2:
        return old[:at] + old[at + 1 :]
    if kind == 3:
        return old[:at] + chr(rng.choice((0, 9, 32, 0x41, 0x7F, 0x85, 0xE9, 0x301, 0x2581, 0xFFFD, 0x1F600))) + old[at:]
    if kind == 4:
        return old + old
    return old.swapcase()


def number(rng: random.Random, old: int | float):
    """A number near the old one, or one at the edge of a type."""
    kind = rng.randrange(8)
    if kind < 3:
        return old + rng.choice((-1, 1, 2, -2))
    if kind == 3:
        return -old
    if kind == 4:
        return old * 2
    if kind == 5:
        return old / 2 if isinstance(old, float) else old // 2
    if kind == 6:
        return rng.choice((0.5, 1e-45, 1e38, 4e38, 1e308, 1.0, -1.0, float(old) if abs(old) < 1e300 else 0.0))
    return rng.choice((*HUGE, -1, -(1 << 31), -(1 << 63), 10**30))


# ---- JSON


def json_file(rng: random.Random, data: bytes, pool: dict | None = None) -> bytes:
    """A JSON text with one to three values changed; `pool` are keys and values that such files may have."""
    if rng.random() < 0.06:
        return byte_damage(rng, data, len(data))
    value = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = json_value(rng, value, pool or {})
    return json_text(rng, value)


def json_text(rng: random.Random, value) -> bytes:
    out = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    if "@" in out:
        for mark, raw in RAW.items():
            out = out.replace(f'"{mark}"', raw)
        out = out.replace('@twice@"', '"')
    kind = rng.randrange(60)
    if kind == 0:
        return b"\xef\xbb\xbf" + out.encode("utf-8", "surrogatepass")
    if kind == 1:
        return out.encode("utf-16", "surrogatepass")
    return out.encode("utf-8", "surrogatepass") + {2: b"\0", 3: b"{}", 4: b" \n", 5: b"\xff"}.get(kind, b"")


def json_value(rng: random.Random, value, pool: dict):
    """The value with one change somewhere: at each level it stops, or goes down into one of the parts."""
    whole, box, key = value, None, None
    while isinstance(value, (dict, list)) and value and (box is None or rng.random() < 0.75):
        box = value
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = box[key]
    if box is None:
        return strange(rng, value, whole)
    kind = rng.randrange(10)
    if kind == 0:
        del box[key]
    elif kind == 1 and isinstance(box, dict):
        if pool and rng.random() < 0.5:
            box[rng.choice(list(pool))] = box.pop(key)
        else:
            box[text(rng, key, list(box))] = box.pop(key)
    elif kind == 2 and isinstance(box, dict) and pool and box is whole:
        name = rng.choice(list(pool))
        box[name] = rng.choice(pool[name])
        if rng.random() < 0.3:
            box[name] = strange(rng, box[name], whole)
    elif kind == 3 and isinstance(box, dict):
        box[key + "@twice@"] = strange(rng, value, whole) if rng.random() < 0.5 else value
    elif kind == 3:
        box.insert(rng.randrange(len(box) + 1), value)
    elif kind == 4 and isinstance(box, dict):
        other = rng.choice(list(box))
        box[key], box[other] = box[other], box[key]
    elif kind == 4:
        rng.shuffle(box)
    else:
        box[key] = strange(rng, value, whole)
    return whole


def strange(rng: random.Random, value, whole):
    """In the place of a value: one near it, one of another type, or one from elsewhere in the file."""
    kind = rng.randrange(8)
    if kind < 3 and isinstance(value, bool):
        return not value
    if kind < 3 and isinstance(value, (int, float)):
        return number(rng, value)
    if kind < 3 and isinstance(value, str):
        return text(rng, value, [v for v in whole.values() if isinstance(v, str)] if isinstance(whole, dict) else [])
    if kind < 3 and isinstance(value, list) and value:
        return rng.choice((value[:-1], value[1:], value + value, value[::-1], [value], value + [None], value[:1]))
    if kind == 3:
        return rng.choice((str(value)[:100], [value], [value, value], {"type": value}, {"a": value}))
    if kind == 4:
        return rng.choice(list(RAW))
    if kind == 5 and isinstance(whole, dict) and whole:
        return copy.deepcopy(whole[rng.choice(list(whole))])
    return rng.choice((None, True, False, 0, 1, -1, 0.5, 1 << 40, 1 << 64, 10**30, "", "x", [], {}, [[]], [None], [0], [1, 2], {"type": "x"},
                       {"type": None}, {"a": {}}, [{}], rng.choice(STRINGS)))  # fmt: skip


# ---- safetensors


def safetensors_file(rng: random.Random, data: bytes) -> bytes:
    """The header changed as JSON, its tensors moved or renamed in agreement with the bytes, or the bytes changed."""
    kind = rng.randrange(10)
    if kind == 0:
        return byte_damage(rng, data, 4000)
    n = struct.unpack_from("<Q", data)[0]
    header, body = data[8 : 8 + n], data[8 + n :]
    if kind == 1:
        size = rng.choice((*HUGE, n - 1, n + 1, n - 8, n + 8, len(data) - 8, len(data) - 7, 100_000_000, rng.randrange(2 * n)))
        return struct.pack("<Q", size) + data[8:]
    if kind == 2:
        at = rng.randrange(0, len(body) - 4, 4)
        value = rng.choice((math.nan, math.inf, -math.inf, 1e38, 1e-45, -0.0))
        body = body[:at] + struct.pack("<f", value) * rng.choice((1, 1, 16)) + body[at:]
        body = body[: len(data) - 8 - n] if rng.random() < 0.9 else body
    elif kind == 3:
        body = body[: rng.randrange(len(body))] if rng.random() < 0.5 else body + bytes(rng.choice((1, 4, 64)))
    elif kind < 7:
        spec = json.loads(header)
        header, body = relaid(rng, spec, body)
    else:
        header = json_file(rng, header)
    header += b" " * rng.choice((0, 0, 0, -len(header) % 8, 7, 1000))
    return struct.pack("<Q", len(header)) + header + body


SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "I8": 1, "BOOL": 1, "F8_E4M3": 1, "I32": 4, "U4": 1}


def relaid(rng: random.Random, spec: dict, body: bytes) -> tuple[bytes, bytes]:
    """One tensor changed, and the bytes laid out anew so that all offsets agree."""
    parts = {name: body[slice(*info["data_offsets"])] for name, info in spec.items() if name != "__metadata__"}
    name = rng.choice(list(parts))
    info, kind = spec[name], rng.randrange(9)
    shape = info["shape"]
    if kind == 0:
        del spec[name], parts[name]
    elif kind == 1:
        new = text(rng, name, list(parts))
        spec[new], parts[new] = spec.pop(name), parts.pop(name)
    elif kind == 2:
        info["dtype"] = rng.choice(list(SIZES))
        parts[name] = bytes(math.prod(shape) * SIZES[info["dtype"]])
    elif kind == 3:
        info["shape"] = rng.choice((shape[::-1], [math.prod(shape)], [*shape, 1], [1, *shape], [len(parts[name]) // 4, 1]))
    elif kind == 4:
        info["shape"] = [max(0, n + rng.choice((-1, 0, 1, -n))) for n in shape]
        parts[name] = bytes(math.prod(info["shape"]) * SIZES[info["dtype"]])
    elif kind == 5:
        other = rng.choice(list(parts))
        spec[name], spec[other] = spec[other], spec[name]
        parts[name], parts[other] = parts[other], parts[name]
    elif kind == 6:
        info["shape"], parts[name] = rng.choice(([], [0], [0, 1 << 40], [1 << 31, 0, 1 << 31])), b""
    elif kind == 7:
        new = text(rng, name, list(parts))
        spec[new], parts[new] = json.loads(json.dumps(info)), parts[name]
    else:
        spec["__metadata__"] = rng.choice(({}, {"format": "pt"}, {"format": 1}, None, [], "x", {"a": "\ud800"}, {"a": {"b": 1}}))
    at, out = 0, []
    order = list(parts)
    if rng.random() < 0.3:
        rng.shuffle(order)
    for name in order:
        spec[name]["data_offsets"] = [at, at + len(parts[name])]
        at += len(parts[name])
        out.append(parts[name])
    return json.dumps(spec).encode("utf-8", "surrogatepass"), b"".join(out)


# ---- GGUF: records of fields, each (what it is, its bytes)

WIDTHS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
GGUF_KEYS = ("general.alignment", "general.architecture", "general.name", "split.count", "split.no", "split.tensors.count", "tokenizer.chat_template",
             "tokenizer.ggml.pre", "tokenizer.ggml.model", "tokenizer.ggml.merges", "tokenizer.ggml.scores", "tokenizer.ggml.token_type",
             "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.unknown_token_id",
             "tokenizer.ggml.precompiled_charsmap", "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces")  # fmt: skip
GGUF_SUFFIXES = ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
                 "attention.key_length", "attention.value_length", "attention.sliding_window", "attention.layer_norm_epsilon",
                 "attention.layer_norm_rms_epsilon", "attention.sliding_window_pattern", "attn_logit_softcapping", "final_logit_softcapping",
                 "expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_count", "expert_weights_scale",
                 "rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.attn_factor",
                 "rope.scaling.original_context_length", "rope.scaling.yarn_beta_fast", "rope.scale_linear", "use_parallel_residual", "logit_scale",
                 "embedding_scale", "residual_scale", "attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias", "vocab_size")  # fmt: skip


class Gguf:
    """A GGUF file in its parts. A field is (kind, bytes); kinds are length, text, type, inner, count, number, numbers, dims,
    dim, format and offset. A record of a key is [length, text, type, ...], of a tensor [length, text, dims, dim ..., format,
    offset]."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 4
        self.version = self._take("I")
        self.n_tensors, self.n_keys = self._take("Q"), self._take("Q")
        self.keys = [self._key() for _ in range(self._number(self.n_keys))]
        self.tensors = [self._tensor() for _ in range(self._number(self.n_tensors))]
        self.alignment = 32
        self.body = data[self.at + -self.at % self.alignment :]
        self.prefix = next(name for name in map(name_of, self.keys) if name.endswith(".block_count")).removesuffix("block_count")

    def whole(self) -> bytes:
        head = b"".join([b"GGUF", self.version, struct.pack("<2Q", len(self.tensors), len(self.keys))] + [data for r in self.keys + self.tensors for _, data in r])
        return head + bytes(-len(head) % self.alignment) + self.body

    def use_byte_level(self) -> None:
        """Its tokenizer becomes a byte-level one, of as many tokens."""
        n = next(self._number(r[4][1]) for r in self.keys if name_of(r) == "tokenizer.ggml.tokens")
        tokens = [chr(0x100 + i) if i < 33 else chr(i) if i < 127 else f"t{i}" for i in range(n - 2)] + ["AB", "<|end|>"]
        self.keys = [r for r in self.keys if not name_of(r).startswith("tokenizer.")]
        for name, value in (("model", "gpt2"), ("pre", "llama-bpe"), ("tokens", tokens), ("merges", ["A B"]), ("eos_token_id", n - 1),
                            ("token_type", [1] * (n - 1) + [3])):  # fmt: skip
            self.keys.append(gguf_text("tokenizer.ggml." + name) + gguf_typed(value))
        self.data = self.whole()

    def _take(self, code: str, n: int = 1) -> bytes:
        size = struct.calcsize(f"<{code}") * n
        self.at += size
        return self.data[self.at - size : self.at]

    @staticmethod
    def _number(data: bytes) -> int:
        return int.from_bytes(data, "little")

    def _text(self) -> list:
        length = self._take("Q")
        return [("length", length), ("text", self._take("B", self._number(length)))]

    def _key(self) -> list:
        out = [*self._text(), ("type", self._take("I"))]
        kind = self._number(out[-1][1])
        if kind == STRING:
            return out + self._text()
        if kind != ARRAY:
            return [*out, ("number", self._take(WIDTHS[kind]))]
        out += [("inner", self._take("I")), ("count", self._take("Q"))]
        inner, n = self._number(out[-2][1]), self._number(out[-1][1])
        if inner != STRING:
            return [*out, ("numbers", self._take(WIDTHS[inner], n))]
        return out + [field for _ in range(n) for field in self._text()]

    def _tensor(self) -> list:
        out = [*self._text(), ("dims", self._take("I"))]
        out += [("dim", self._take("Q")) for _ in range(self._number(out[-1][1]))]
        return [*out, ("format", self._take("I")), ("offset", self._take("Q"))]


def name_of(record: list) -> str:
    return record[1][1].decode("utf-8", "replace")


def gguf_text(value: str) -> list:
    data = value.encode("utf-8", "surrogatepass")
    return [("length", struct.pack("<Q", len(data))), ("text", data)]


def gguf_typed(value) -> list:
    """A text, a number, or a list of them."""
    if isinstance(value, str):
        return [("type", struct.pack("<I", STRING)), *gguf_text(value)]
    if isinstance(value, int):
        return [("type", struct.pack("<I", 4)), ("number", struct.pack("<I", value))]
    head = [("type", struct.pack("<I", ARRAY)), ("inner", struct.pack("<I", STRING if isinstance(value[0], str) else 5)), ("count", struct.pack("<Q", len(value)))]
    if isinstance(value[0], str):
        return head + [field for each in value for field in gguf_text(each)]
    return [*head, ("numbers", struct.pack(f"<{len(value)}i", *value))]


def gguf_value(rng: random.Random) -> list:
    """A type and a value of it."""
    kind = rng.choice((*WIDTHS, STRING, STRING, ARRAY, ARRAY))
    head = [("type", struct.pack("<I", kind))]
    if kind == STRING:
        return head + gguf_text(rng.choice(("none", "linear", "yarn", "longrope", "llama", "gpt2", "default", "{{ x }}", *STRINGS)))
    if kind != ARRAY:
        return [*head, ("number", packed(rng, WIDTHS[kind]))]
    inner, n = rng.choice((*WIDTHS, STRING)), rng.choice((0, 1, 2, 3, 5, 300))
    head += [("inner", struct.pack("<I", inner)), ("count", struct.pack("<Q", n))]
    if inner == STRING:
        return head + [field for _ in range(n) for field in gguf_text(rng.choice(STRINGS))]
    return [*head, ("numbers", b"".join(packed(rng, WIDTHS[inner]) for _ in range(n)))]


def packed(rng: random.Random, code: str) -> bytes:
    if code in "fd":
        return struct.pack("<" + code, rng.choice((0.0, -0.0, 1.0, -1.0, 0.5, 1e-5, 10000.0, 1e38, math.nan, math.inf, -math.inf)))
    n = struct.calcsize("<" + code)
    return rng.choice((*HUGE, 3, 4, 8, 32, 64, 100, rng.getrandbits(64))).to_bytes(8, "little")[:n]


def gguf_file(rng: random.Random, g: Gguf) -> bytes:
    """The file with one to three changes."""
    keys, tensors = list(g.keys), list(g.tensors)
    body, counts = g.body, None
    version, n_tensors, n_keys = g.version, g.n_tensors, g.n_keys
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.randrange(20)
        if kind == 0:
            return byte_damage(rng, g.data, 1 << rng.randrange(4, 20))
        if kind == 1:
            counts = rng.choice(("keys", "tensors", "version", "magic"))
        elif kind == 2 and len(body) > 8:
            if rng.random() < 0.5:
                body = body[: rng.randrange(len(body))]
            else:
                at = rng.randrange(len(body) - 4)
                body = body[:at] + rng.choice((b"\xff\xff\x7f\x7f", b"\0\0\xc0\x7f", b"\0\x7c\0\x7c", b"\x80" * 4)) + body[at + 4 :]
        else:
            records = keys if rng.random() < 0.6 else tensors
            gguf_record(rng, records, records is keys, g)
    out = [b"GGUF" if counts != "magic" else rng.choice((b"FUGG", b"gguf", b"GGML", b"\0\0\0\0"))]
    out.append(version if counts != "version" else struct.pack("<I", rng.choice((0, 1, 2, 4, 2 << 24, 3 << 24, 1 << 31))))
    if rng.random() < 0.9:
        n_tensors, n_keys = struct.pack("<Q", len(tensors)), struct.pack("<Q", len(keys))
    for what, n in (("tensors", n_tensors), ("keys", n_keys)):
        out.append(n if counts != what else struct.pack("<Q", rng.choice((*HUGE, g._number(n) + 1, max(0, g._number(n) - 1)))))
    out += [data for record in (*keys, *tensors) for _, data in record]
    head = b"".join(out)
    return head + bytes(-len(head) % g.alignment) + body


def gguf_record(rng: random.Random, records: list, of_keys: bool, g: Gguf) -> None:
    """Changes one record of the list, or adds or removes one."""
    kind = rng.randrange(12)
    if kind == 0 and of_keys or not records:
        name = rng.choice(GGUF_KEYS) if rng.random() < 0.3 else g.prefix + rng.choice(GGUF_SUFFIXES)
        return records.insert(rng.randrange(len(records) + 1), gguf_text(name) + gguf_value(rng))
    at = rng.randrange(len(records))
    record = list(records[at])
    if kind == 1:
        del records[at]
    elif kind == 2:
        records.insert(rng.randrange(len(records)), record)
    elif kind == 3:
        other = rng.randrange(len(records))
        records[at], records[other] = records[other], records[at]
    elif kind == 4:
        name = name_of(record)
        others = [name_of(r) for r in records] + [g.prefix + s for s in GGUF_SUFFIXES] * of_keys
        records[at] = gguf_text(text(rng, name, others)) + record[2:]
    elif kind == 5:
        other = records[rng.randrange(len(records))]  # the name of one with what another holds
        records[at] = record[:2] + other[2:]
    elif kind < 9 and of_keys:
        records[at] = record[:2] + gguf_value(rng)
    else:
        i = rng.randrange(len(record))
        record[i] = gguf_field(rng, *record[i], g)
        if record[i][0] == "text" and rng.random() < 0.9:
            record[i - 1] = ("length", struct.pack("<Q", len(record[i][1])))
        if record[i][0] == "dim" and rng.random() < 0.4:  # the same number of weights in another shape
            dims = [j for j, field in enumerate(record) if field[0] == "dim"]
            swapped = [record[j] for j in dims][::-1]
            for j, field in zip(dims, swapped):
                record[j] = field
        records[at] = record


def gguf_field(rng: random.Random, kind: str, data: bytes, g: Gguf) -> tuple[str, bytes]:
    if kind == "text":
        if rng.random() < 0.2:
            return kind, rng.choice((b"", b"\xff", data[:-1] + b"\xc3", data + b"\0", b"a" * 70000))
        others = [name_of(r) for r in g.tensors]
        return kind, text(rng, data.decode("utf-8", "replace"), others).encode("utf-8", "surrogatepass")
    if kind == "numbers":
        return kind, byte_damage(rng, data, len(data)) if data else b"\0"
    if kind in ("type", "inner", "format"):
        return kind, struct.pack("<I", rng.choice((*range(13), 14, 15, 16, 20, 23, 28, 30, 34, 39, 40, 255, (1 << 32) - 1)))
    n = len(data)
    old = int.from_bytes(data, "little")
    new = rng.choice((*HUGE, old + 1, old - 1, old * 2, old // 2, old + 32, old - 32, old ^ 1 << rng.randrange(8 * n), rng.getrandbits(8 * n)))
    return kind, (new % (1 << 8 * n)).to_bytes(n, "little")


# ---- protocol buffers: a SentencePiece model


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def protobuf_fields(data: bytes) -> list[tuple[int, int, bytes]]:
    """(number, wire type, payload) of each field of a valid message."""
    def number() -> int:
        nonlocal at
        n = shift = 0
        while True:
            at += 1
            n |= (data[at - 1] & 127) << shift
            shift += 7
            if data[at - 1] < 128:
                return n

    at, out = 0, []
    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            out.append((tag >> 3, 0, varint(number())))
            continue
        size = number() if tag & 7 == 2 else {1: 8, 5: 4}[tag & 7]
        out.append((tag >> 3, tag & 7, data[at : at + size]))
        at += size
    return out


def protobuf_text(fields: list, rng: random.Random | None = None) -> bytes:
    out, lied = [], rng.randrange(len(fields)) if rng and fields and rng.random() < 0.1 else -1
    for i, (number_, wire, payload) in enumerate(fields):
        size = len(payload) if i != lied else rng.choice((0, 1, len(payload) + 1, 1 << 31, 1 << 40, (1 << 64) - 1))
        out += [varint(number_ << 3 | wire), varint(size) if wire == 2 else b"", payload]
    return b"".join(out)


def protobuf_file(rng: random.Random, data: bytes, deep: Callable[[int], bool]) -> bytes:
    """A message with a few fields changed; deep(number): whether a field holds a message."""
    if rng.random() < 0.1:
        return byte_damage(rng, data, len(data))
    try:
        fields = protobuf_fields(data)
    except (IndexError, KeyError):  # damaged by an earlier change
        return byte_damage(rng, data, len(data))
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not fields:
            break
        # As often one of the few settings as one of the many pieces.
        numbers = sorted({f[0] for f in fields})
        chosen = rng.choice(numbers)
        at = rng.choice([i for i, f in enumerate(fields) if f[0] == chosen])
        number_, wire, payload = fields[at]
        kind = rng.randrange(10)
        if kind == 0:
            del fields[at]
        elif kind == 1:
            fields.insert(rng.randrange(len(fields)), fields[at])
        elif kind == 2:
            other = rng.randrange(len(fields))
            fields[at], fields[other] = fields[other], fields[at]
        elif kind == 3:
            fields[at] = (rng.choice((0, 1, 2, 3, 4, 5, 15, 40, 41, 45, number_ + 1, 1 << 28)), wire, payload)
        elif kind == 4:
            fields[at] = (number_, rng.randrange(8), payload)
        elif wire == 2 and deep(number_) and payload:
            fields[at] = (number_, wire, protobuf_file(rng, payload, lambda _: False))
        elif wire == 0:
            fields[at] = (number_, wire, varint(rng.choice((*HUGE, *range(8)))))
        elif wire == 5:
            fields[at] = (number_, wire, packed(rng, "f"))
        else:
            value = text(rng, payload.decode("utf-8", "replace"), []).encode("utf-8", "surrogatepass")
            fields[at] = (number_, wire, rng.choice((value, value, payload[:-1], payload + b"\xff", b"", b"<0x0A>", "\u2581".encode())))
    return protobuf_text(fields, rng)


# ---- lines: merges, ranks


def lines_file(rng: random.Random, data: bytes) -> bytes:
    """A file of lines of words."""
    if rng.random() < 0.2:
        return byte_damage(rng, data, len(data))
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 2, 5))):
        at, kind = rng.randrange(len(lines)), rng.randrange(7)
        words = lines[at].split(b" ")
        if kind == 0 and len(lines) > 1:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 2:
            lines[at] = b" ".join(words[:-1])
        elif kind == 3:
            lines[at] = b" ".join(words + words[-1:])
        elif kind == 4:
            words[-1] = rng.choice((b"-1", b"0", b"999999999", b"1e3", b"99999999999999999999999", b"x", b"\xff", "\u0663".encode(), b"0x1", b"1_0"))
            lines[at] = b" ".join(words)
        elif kind == 5:
            lines[at] += rng.choice((b"\r", b" ", b"\0", b"\xff", "é".encode(), b"=", b"\t"))
        else:
            lines[at] = rng.choice((b"", b" ", b"  ", b"a", b"a b c", b"#version: 0.2", b"=", b"QQ==", b"QQ== 1 2", "\u2028".encode()))
    return b"\n".join(lines)
