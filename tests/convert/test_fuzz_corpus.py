"""The inputs that the fuzz targets start from have every feature that the formats know."""

import re
import struct
import unittest

from convert_case import ROOT
from tern.weights import keys, tiles

CONFIG_KEYS = re.compile(r"^\| ([a-z_.N`, ]+) \| (?:u64|f32|text)", re.M)
STEP = re.compile(r"^\| (normalizer|pre|decoder) \| ([a-z_`, ]+) \|", re.M)


def inputs(target: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "tests/fuzz/corpus" / target).iterdir())]


def sections(data: bytes) -> dict[str, bytes]:
    """The sections of the start of a weights file; none where they are damaged."""
    count = struct.unpack_from("<Q", data, 48)[0] if len(data) >= 64 else 0
    if not 0 < count <= 64 or 64 + 40 * count > len(data):
        return {}
    entries = (struct.unpack_from("<16sQQQ", data, 64 + 40 * i) for i in range(count))
    return {tag.rstrip(b"\0").decode("latin-1"): data[at : at + size] for tag, _, at, size in entries}


def tensor_types(directory: bytes) -> set[int]:
    types, at = set(), 8
    for _ in range(struct.unpack_from("<Q", directory)[0]):
        name_bytes = struct.unpack_from("<Q", directory, at)[0]
        at += 8 + name_bytes + -name_bytes % 8
        types.add(struct.unpack_from("<Q", directory, at)[0])
        at += 64
    return types


def whole(values: list[bytes]) -> list[dict]:
    """The key blocks among them that can be read."""
    blocks = []
    for value in values:
        try:
            blocks.append(keys.unpack(value))
        except (struct.error, ValueError, LookupError):  # damaged on purpose
            pass
    return blocks


class Corpus(unittest.TestCase):
    def test_weights_have_every_key_section_and_type(self):
        text = (ROOT / "src/weights/FORMAT.md").read_text().split("## Config keys")[1].split("## Tensor directory")[0]
        wanted = {key for row in CONFIG_KEYS.findall(text) for key in re.findall("`([^`]+)`", row)}
        self.assertGreater(len(wanted), 80)
        files = [s for s in map(sections, inputs("fuzz_weights")) if s]
        blocks = whole([s["config"] for s in files if "config" in s])
        here = {re.sub(r"^rope\.[0-9]+", "rope.N", key) for block in blocks for key in block}
        self.assertEqual(wanted - here, set())
        tags = {"config", "tensors", "tokenizer", "generation", "chat", "provenance", "vectors", "seal"}
        self.assertEqual(tags - {tag for s in files for tag in s}, set())
        types = tensor_types(sections(self.named("sections-types"))["tensors"])
        self.assertEqual(types, set(tiles.TYPES))
        self.assertIn(tiles.Q4C, tensor_types(sections(self.named("sections-q4c"))["tensors"]))

    def named(self, name: str) -> bytes:
        return (ROOT / "tests/fuzz/corpus/fuzz_weights" / name).read_bytes()

    def test_tokenizers_have_every_kind_and_step(self):
        text = (ROOT / "src/text/TOKENIZER.md").read_text()
        wanted = {(part, step) for part, names in STEP.findall(text) for step in re.findall("`([a-z_]+)`", names)}
        self.assertGreater(len(wanted), 20)
        blocks = whole([data[1:] for data in inputs("fuzz_tokenizer") if data and data[0] % 2 == 0])
        here = {
            (name.split(".")[0], value.decode())
            for block in blocks
            for name, value in block.items()
            if re.fullmatch(r"(normalizer|pre|decoder)\.[0-9]+", name)
        }
        self.assertEqual(wanted - here, set())
        self.assertEqual({block["kind"] for block in blocks}, {b"bpe", b"spm", b"unigram", b"word_level"})

    def test_chats_have_every_condition_and_operation(self):
        blocks = whole(inputs("fuzz_chat"))
        conditions, operations = 0, set()
        for block in blocks:
            for mask in list(block.get("rules.when", []))[::2]:
                conditions |= int(mask)
            operations |= set(block.get("rules.text", b""))
        self.assertEqual(conditions, 0x1E1FFF)  # without 13 to 16, which only thoughts have
        self.assertLessEqual(set(range(1, 9)), operations)


if __name__ == "__main__":
    unittest.main()
