"""The program run: receipts are written, proven and refuted."""

import json
import os
import shutil
import stat
import unittest
from pathlib import Path

import xxhash

from cli_case import ROOT, Cli, write_guesser, write_model  # first: it makes the next one importable

from terminal import Terminal
from tern.errors import ConvertError
from tern.model import Model

FABLE = str(ROOT / "models/fable.bin")
SCHEMA = '{"type":"object","properties":{"a":{"type":"string","maxLength":5},"is it so":{"type":"boolean"}},"required":["a","is it so"]}'


def signed(receipt: dict) -> bytes:
    """With its digest, as src/engine/RECEIPT.md defines it."""
    text = json.dumps({**receipt, "digest": ""}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**receipt, "digest": f"{xxhash.xxh64_intdigest(text.encode()):016x}"}, indent=1).encode()


class Receipts(Cli):
    def setUp(self):
        self.file = self.dir / f"{self.id()}.json"
        self.addCleanup(self.file.unlink, missing_ok=True)

    def make(self, *args, model: str = FABLE, **more) -> dict:
        self.good(model, *args, "-q", "--receipt", self.file, **more)
        return json.loads(self.file.read_text())

    def prove(self, *args, model: str = FABLE) -> None:
        self.assertRegex(self.good(model, "--verify-receipt", self.file, *args).decode(), r"^proven: \d+ tokens? in .*s\n$")

    def refute(self, receipt: dict, why: str) -> None:
        self.file.write_bytes(signed(receipt))
        done = self.run_it(FABLE, "--verify-receipt", self.file)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stdout.decode(), f"^refuted: .*{why}.*\n$")
        self.assertEqual(done.stderr, b"run: --verify-receipt: the receipt is refuted\n")

    def refuse(self, code: int, why: str) -> None:
        message = self.bad(code, FABLE, "--verify-receipt", self.file)
        self.assertIn(why, message)
        self.assertIn("--verify-receipt: ", message)

    def test_every_way_to_a_text(self):
        story = ["The cat sat", "-n", 40, "-s", 3]
        seen = set()
        for more in ([], ["-b", 3], ["-t", 1], ["--lookup"], ["--draft", FABLE], ["--cpu", "ref"], ["--jsonl"], ["--load", "copy"]):
            made = self.make(*story, *more)
            self.assertEqual((len(made["answer"]), made["n_fingerprinted"], made["stop_reason"]), (40, 40, "length"))
            seen.add(self.file.read_bytes())
        self.assertEqual(len(seen), 1)  # nothing but the text is in it
        for more in (["-t", 3], ["--cpu", "ref", "-n", 1], ["-b", 1], ["-c", 64]):
            if "-n" not in more:
                self.prove(*more)
        for more in (["--json"], ["-j", SCHEMA], ["-j", SCHEMA, "--no-force"], ["--choice", "yes|no"], ["--cache-type", "q8"], ["-r", "the"],
                     ["--mirostat", 2], ["-l", "300-inf", "-l", "5+1.5"], ["--samplers", "temperature;top_k"], ["--greedy"], ["-n", 0],
                     ["-n", 1], ["-c", 20], ["--ignore-eos"], ["--parse-special"]):  # fmt: skip
            self.make(*story, *more)
            self.prove()
        forced = self.make(*story, "-n", 100, "-j", SCHEMA)
        self.assertLess(forced["n_fingerprinted"], len(forced["answer"]))
        self.make("--prompt-ids", "5 6 7", "-n", 20)
        self.prove("--cpu", "ref")
        self.make("-n", 20, stdin=b"Once upon")
        self.prove()

    def test_own_guesses_and_models_without_text(self):
        guesser, bare = str(self.dir / "guesser.bin"), str(self.dir / "bare.bin")
        write_guesser(Path(guesser))
        write_model(Path(bare), 64, text=False)
        self.make("The cat", "-n", 50, "--mtp", "--ignore-eos", model=guesser)
        self.prove(model=guesser)
        self.make("--prompt-ids", "5 6 7", "-n", 20, "--ignore-eos", model=bare)
        self.prove(model=bare)

    def test_a_chat_has_the_receipt_of_its_last_answer(self):
        chat = ["--chat", "--template", "chatml", "-s", 5, "-n", 12, "--ignore-eos"]
        first = self.make(*chat, "Hello")
        self.prove("--template", "chatml")
        t = Terminal([FABLE, *chat, "--receipt", self.file])
        self.addCleanup(t.close)
        t.until(b">>> ")
        t.say("Hello")
        self.assertEqual(json.loads(self.file.read_text())["prompt"], first["prompt"])
        t.say("And you?")
        both = json.loads(self.file.read_text())
        self.assertEqual(both["prompt"][: len(first["prompt"])], first["prompt"])
        self.assertGreater(len(both["prompt"]), len(first["prompt"]) + 12)
        self.prove("--template", "chatml")
        self.make(*chat, "Hello", "-r", "zebra")
        self.prove("--template", "chatml")
        self.refuse(2, "another chat template: add --template chatml")

    def test_an_answer_of_the_server_is_read_as_its_receipt(self):
        made = self.make("The cat sat", "-n", 20, "-s", 3)
        one = {"index": 0, "text": "x", "receipt": made}
        for answer in ({"id": "a", "receipt": made}, {"choices": [one]}, {"choices": [{"index": 1}, one]}):
            self.file.write_text(json.dumps(answer))
            self.prove()
        self.file.write_text(json.dumps({"choices": [one, one]}))
        self.refuse(3, "has 2, one for each of its choices")
        self.file.write_text(json.dumps({"choices": [{"index": 0}]}))
        self.refuse(3, "no receipt")
        self.file.write_text(json.dumps({"choices": [{"receipt": {**made, "n_predict": 30}}]}))
        self.refuse(3, "digest")

    def test_a_session_is_a_part_of_the_prompt(self):
        args = ["--session", self.dir / "s", "-n", 10, "-s", 2]
        first = self.make("The cat sat", *args)
        second = self.make(*args)
        self.assertEqual(second["prompt"], first["prompt"] + first["answer"])
        self.prove()
        full = self.make(*args, "-n", -1, "-c", 40, "--ignore-eos")
        self.assertEqual((full["n_predict"], full["stop_reason"]), (-1, "context"))
        self.assertEqual(len(full["prompt"] + full["answer"]), 40)
        self.prove()
        full = self.make(*args, "-n", -1, "-c", 40, "--ignore-eos")  # nothing more fits
        self.assertEqual(full["answer"], [])
        self.prove()

    def test_shifted_texts_have_none(self):
        args = ["The cat", "-c", 30, "-n", 60, "--ignore-eos", "--context-shift", "-q", "-s", 1]
        done = self.run_it(FABLE, *args, "--receipt", self.file)
        self.assertEqual((done.returncode, self.file.exists()), (2, False))
        self.assertEqual(done.stdout, self.good(FABLE, *args))  # the text is there
        self.assertIn("--receipt: no receipt: the context was shifted", done.stderr.decode())
        self.make("The cat", "-c", 100, "-n", 60, "--context-shift")
        self.prove()

    def test_what_is_wrong_is_said(self):
        made = self.make("The cat sat", "-n", 20, "-s", 3)
        answer = made["answer"]
        self.refute({**made, "answer": [*answer[:7], 11, *answer[8:]]}, f"token 7 of the answer is 11, and the model chooses {answer[7]}")
        self.refute({**made, "answer": answer[:-1]}, "not ended by the number of tokens: the text could go on")
        self.refute({**made, "n_predict": 30}, "the text could go on")
        self.refute({**made, "n_predict": 12}, "the answer has 20 tokens, and the model ends it after 12, by the number of tokens")
        self.refute({**made, "fingerprint": "0" * 16}, "but the fingerprint of 20 rows is " + made["fingerprint"])
        self.refute({**made, "n_fingerprinted": 19}, "of 19")
        self.refute({**made, "stop_reason": "end"}, "not ended by an end token")
        self.refute({**made, "prompt": [70000]}, "token 0 of the prompt is 70000")
        self.refute({**made, "sampler": {**made["sampler"], "seed": "4"}}, "the model chooses")
        self.file.write_bytes(signed(made))
        self.prove()
        self.file.write_text(json.dumps({**made, "n_predict": 30}))
        self.refuse(3, "the digest is not that of the other members")
        for name, value, why in (("content_id", "0" * 16, "another model: content id 0000000000000000"), ("config", "1" * 16, "another config"),
                                 ("tokenizer", None, "another tokenizer"), ("end_tokens", [], "other end tokens")):  # fmt: skip
            self.file.write_bytes(signed({**made, "model": {**made["model"], name: value}}))
            self.refuse(2, why)
        self.file.write_bytes(signed({**made, "arith": 2}))
        self.refuse(2, "of arithmetic 2")
        for text in (b"", b"{}", b"not JSON", b"\xff", b"[" * 100000):
            self.file.write_bytes(text)
            self.refuse(3, "receipt")
        self.file.unlink()
        self.assertIn("No such file", self.bad(4, FABLE, "--verify-receipt", self.file))

    def test_files_and_options(self):
        made = self.make("The cat", "-n", 5, "-s", 1)
        self.assertEqual(self.file.read_bytes()[-1:], b"\n")
        self.assertEqual(made["digest"], json.loads(signed(made))["digest"])
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode) & 0o077, 0o066 & ~self.umask())
        text = self.good(FABLE, "The cat", "-n", 5, "-s", 1, "-q", "--receipt", "-")
        self.assertTrue(text.endswith(self.file.read_bytes()))
        self.assertIn("--receipt", self.bad(4, FABLE, "The cat", "-n", 5, "--receipt", "/nowhere/x"))
        self.assertIn("cannot go together", self.bad(2, FABLE, "--receipt", self.file, "--verify-receipt", self.file))
        self.assertIn("takes no prompt", self.bad(2, FABLE, "The cat", "--verify-receipt", self.file))
        moved = self.dir / "another name.bin"
        shutil.copy(FABLE, moved)
        self.prove(model=str(moved))

    @staticmethod
    def umask() -> int:
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_python(self):
        self.make("The cat sat", "-n", 20, "-s", 3)
        with Model(FABLE) as model:
            found = model.verify_receipt(self.file.read_text())
            self.assertEqual((found.holds, found.n_tokens, found.first_wrong, found.why), (True, 20, None, ""))
            made = model.generate("The cat sat", n_predict=20, seed=3, receipt=True)
            "".join(made)
            self.assertEqual(made.result.receipt.encode(), self.file.read_bytes())
            bound = model.generate("The cat", n_predict=60, json_schema=json.loads(SCHEMA), receipt=True)
            "".join(bound)
            self.assertTrue(model.verify_receipt(bound.result.receipt).holds)
            wrong = json.loads(made.result.receipt)
            wrong["answer"][4] += 1
            found = model.verify_receipt(signed(wrong))
            self.assertEqual((found.holds, found.n_tokens, found.first_wrong, found.claimed), (False, 4, 4, wrong["answer"][4]))
            self.assertEqual(found.found, wrong["answer"][4] - 1)
            self.assertIn("token 4", found.why)
            with self.assertRaisesRegex(ConvertError, "receipt"):
                model.verify_receipt("{}")


if __name__ == "__main__":
    unittest.main()
