"""What a conversion will do and has done, in lines for a person: `plan` before anything is written, `written` after."""

import re
from collections.abc import Iterator
from pathlib import Path

from ...weights import tiles, writer
from ..chat.chat import answer_end
from ..families.features import feature
from ..files.matrix import Matrix
from ..sources.source import Source
from ..words import size

# What ./quantize makes smaller (type_of in src/quantize/quantize.c).
QUANTIZED = (
    "embed", "q", "k", "v", "o", "gate", "up", "down", "head", "shared_gate", "shared_up", "shared_down", "attn_gate", "q_down",
    "k_up", "v_up", "mix_in", "mix_gate", "mix_out", "mix_gate_down", "ple_embed", "ple_in", "ple_gate", "ple_out", "altup_in",
    "altup_out", "mtp_in", "laurel_left", "laurel_right",
)  # fmt: skip
BITS = {tiles.F32: 32, tiles.F16: 16, tiles.BF16: 16, tiles.Q8: 8.5, tiles.Q4: 4.5, tiles.Q4C: 4.5}
KINDS = {"spm": "SentencePiece BPE", "bpe": "BPE", "unigram": "unigram"}


def final_kind(t: writer.Tensor, wanted: str | None) -> int:
    """The type that a tensor has in the end, where ./quantize makes q8, q4 or q4c."""
    asked = tiles.BY_NAME.get(wanted or "", t.kind)
    part = t.name.rsplit(".", 1)[-1]
    return asked if asked > tiles.BF16 and BITS[asked] < BITS[t.kind] and part in QUANTIZED else t.kind


def final_bytes(t: writer.Tensor, wanted: str | None) -> int:
    return tiles.tensor_bytes(final_kind(t, wanted), t.rows, t.k) * t.matrices


def final_tensors(entries: list[writer.Tensor], wanted: str | None) -> list[writer.Tensor]:
    """The directory that the file has in the end."""
    return [writer.Tensor(t.name, final_kind(t, wanted), t.rows, t.k, t.pieces, t.matrices) for t in entries]


def file_bytes(bodies: dict[str, bytes], entries: list[writer.Tensor], wanted: str | None) -> int:
    """Bytes of the file; where ./quantize makes it, to within what it adds to the header."""
    final = final_tensors(entries, wanted)
    return writer.layout(writer.header_bytes(bodies, final), final)[1]


def plan(source: Source, bodies: dict[str, bytes], entries: list[writer.Tensor], wanted: str | None) -> Iterator[str]:
    """The model, its tensors, and what will be written."""
    c = source.config
    yield f"{source.origin}: {source.name}"
    weights_of_all = sum(t.rows * t.k * t.matrices for t in entries)
    yield f"  family     {source.family or source.origin}, {weights_of_all / 1e6:,.1f} M weights"
    yield f"  layers     {c['n_layers']}, width {c['dim']}, {_heads(c)}, {_ffn(c)}"
    yield f"  positions  {c['max_seq']}{_windows(c)}"
    yield f"  tokens     {c['vocab']} rows, {_tokenizer(source)}; ends a text: {_ends(source) or 'none'}"
    refused = "template, which could not be taken over" if source.template else "no template"
    yield f"  chat       {'template' if source.chat else refused}"
    yield "  tensors"
    yield from _tensors(source, entries, wanted)
    total = file_bytes(bodies, entries, wanted)
    lossless = file_bytes(bodies, entries, None)
    about = "about " if any(final_kind(t, wanted) != t.kind for t in entries) else ""
    beside = f", and {size(lossless)} beside it while ./quantize works" if about else ""
    yield f"  output     {about}{size(total)} ({total} bytes){beside}"


def room(bodies: dict[str, bytes], entries: list[writer.Tensor], wanted: str | None) -> int:
    """Bytes that must be free while the file is made."""
    total = file_bytes(bodies, entries, None)
    return total + (file_bytes(bodies, entries, wanted) if wanted else 0)


def written(path: Path, entries: list[writer.Tensor], wanted: str | None, seconds: float) -> str:
    """Name, bytes by type, speed."""
    kinds: dict[str, int] = {}
    for t in entries:
        name = tiles.TYPES[final_kind(t, wanted)].name
        kinds[name] = kinds.get(name, 0) + final_bytes(t, wanted)
    parts = ", ".join(f"{name} {size(n)}" for name, n in sorted(kinds.items(), key=lambda item: -item[1]))
    total = path.stat().st_size
    speed = f", {seconds:.1f} s, {total / 1e6 / max(seconds, 1e-3):,.0f} MB/s" if seconds >= 1 else ""
    return f"{size(total)} ({len(entries)} tensors: {parts}{speed})"


def _tensors(source: Source, entries: list[writer.Tensor], wanted: str | None) -> Iterator[str]:
    """One line for the same part of all layers."""
    groups: dict[tuple, list[writer.Tensor]] = {}
    for t in entries:
        m = source.matrices[t.name]
        part = re.sub(r"^layer\.\d+\.", "layer.*.", t.name)
        groups.setdefault((part, _stored(m), t.kind, t.rows, t.k, t.matrices), []).append(t)
    for (part, stored, _, rows, k, matrices), same in groups.items():
        shape = f"{matrices} x {rows} x {k}" if matrices > 1 else f"{rows} x {k}" if k > 1 else f"{rows}"
        times = f"{len(same)} x " if len(same) > 1 else ""
        kind = tiles.TYPES[final_kind(same[0], wanted)].name
        total = size(sum(final_bytes(t, wanted) for t in same))
        yield f"    {part:<24} {times:>5}{shape:<20} {stored:>7} -> {kind:<5} {total:>10}"


def _stored(m: Matrix) -> str:
    names = {part.format.name for part in m.matrices}
    return names.pop() if len(names) == 1 else "mixed"


def _heads(c: dict) -> str:
    heads, kv = sorted(set(c["n_heads"])), sorted(set(c["n_kv_heads"]))
    return f"{_numbers(heads)} heads of {c['head_dim'][0]} with {_numbers(kv)} of keys and values"


def _ffn(c: dict) -> str:
    experts = max(feature(c, "n_experts", i) for i in range(c["n_layers"]))
    used = max(feature(c, "experts_used", i) for i in range(c["n_layers"]))
    chosen = f" in {experts} experts of which {used} are used" if experts else ""
    return f"FFN {_numbers(sorted(set(c['hidden'])))}{chosen}"


def _windows(c: dict) -> str:
    windows = sorted({w for w in c["window"] if w})
    layers = sum(w > 0 for w in c["window"])
    return f", windows of {_numbers(windows)} in {layers} layers" if windows else ""


def _ends(source: Source) -> str:
    """As the engine will have it: without stated ones EOS, and what ends an answer of the chat template."""
    t, ends = source.tokenizer, list(source.end_tokens)
    if not ends and t is not None and t.eos is not None:
        ends = [t.eos]
    end = answer_end(source.chat, t) if source.chat else None
    return _numbers(ends if end is None or end in ends else [*ends, end])


def _tokenizer(source: Source) -> str:
    t = source.tokenizer
    if t is None:
        return "no tokenizer"
    level = "byte-level " if t.byte_level else ""
    return f"{level}{KINDS.get(t.kind, t.kind)} of {len(t.tokens)} tokens"


def _numbers(values) -> str:
    return ", ".join(map(str, values))
