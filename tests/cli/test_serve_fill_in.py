"""`suffix` of completions: the prompt that a model with fill-in-the-middle tokens gets."""

import tempfile
import unittest
from pathlib import Path

from serve_case import WHY, Server

try:
    from serve_models import byte_tokenizer, write_filler
except ImportError as e:
    WHY = WHY or str(e)

KINDS = {  # marks before the text, before what follows the gap, and before the answer
    "Qwen": ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    "DeepSeek": ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    "Codestral": ("[PREFIX]", "[SUFFIX]"),
}


@unittest.skipIf(WHY, WHY)
class FillIn(unittest.TestCase):
    def prompts(self, server, prompt, suffix):
        """The ids of the prompt that becomes of a request, from its receipt"""
        ask = {"prompt": prompt, "suffix": suffix, "max_tokens": 2, "receipt": True}
        status, _, body = server.post("/v1/completions", ask)
        self.assertEqual(status, 200, body)
        return [c["receipt"]["prompt"] for c in body["choices"]]

    def test_kinds(self):
        for name, marks in KINDS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                tokens = byte_tokenizer(marks).tokens
                server = Server("-c", 512, model=write_filler(Path(folder) / "filler.bin", *marks))
                try:
                    plain = server.post("/tokenize", {"content": "if x:\n", "add_special": True})[2]["tokens"]
                    front = len(plain) - len("if x:\n")
                    front, before = plain[:front], plain[front:]
                    behind = server.post("/tokenize", {"content": f"{marks[0]}.", "add_special": False, "parse_special": False})[2]["tokens"]
                    self.assertEqual(len(behind), len(f"{marks[0]}.".encode()))  # the text of a mark is no mark
                    pre, suf, *mid = range(len(tokens) - len(marks), len(tokens))
                    want = [pre, *before, suf, *behind, *mid] if mid else [suf, *behind, pre, *before]
                    self.assertEqual(self.prompts(server, "if x:\n", f"{marks[0]}."), [front + want])
                    self.assertEqual(self.prompts(server, before, f"{marks[0]}."), [want])
                    self.assertEqual(self.prompts(server, "if x:\n", ""), [plain])
                finally:
                    self.assertEqual(server.stop(), 0)

    def test_without_marks(self):
        server = Server()
        try:
            status, _, body = server.post("/v1/completions", {"prompt": "a", "suffix": "b"})
            self.assertEqual((status, body["error"]["param"], body["error"]["code"]), (400, "suffix", "unsupported_parameter"))
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
