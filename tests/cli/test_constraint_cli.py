"""Texts under a constraint from the command line and from Python: each option, each refusal, the reports, and that what is written is valid."""

import json
import re
import subprocess
import tempfile
import unittest

import jsonschema
from cli_case import RUN, Cli, write_guesser  # first: it makes the next importable
from terminal import Terminal

import tern  # isort: skip

FABLE = "models/fable.bin"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 10},
        "kind of animal": {"enum": ["cat", "dog", "little bird"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 30},
        "friends": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2},
    },
    "required": ["name", "kind of animal", "age"],
    "additionalProperties": False,
}
GRAMMAR = 'root ::= "The " animal " sat."\nanimal ::= "cat" | "dog" | [a-z]{1,3}\n'
UNKNOWN = {"properties": {"a": {"type": "string", "pattern": "(?=x)y"}}}


class Constrained(Cli):
    def text(self, *options, prompt="Once upon a time, a girl named Lily", **more) -> str:
        return self.good(FABLE, prompt, "--no-echo", "-q", *options, **more).decode()[:-1]

    def lines(self, *options) -> list[dict]:
        return [json.loads(line) for line in self.good(FABLE, "Tom", "-q", "--jsonl", *options).splitlines()]


class Forms(Constrained):
    def test_schemas(self):
        file = self.dir / "person.json"
        file.write_text(json.dumps(PERSON))
        for seed in range(6):
            options = ["-s", seed, "--temp", 1.2]
            text = self.text("--json-schema", json.dumps(PERSON), *options)
            jsonschema.validate(json.loads(text), PERSON)
            self.assertEqual(text, self.text("--json-schema-file", file, *options))
            self.assertEqual(text, self.text("-j", json.dumps(PERSON), *options, "-b", 2, "-t", 1, "--lookup"))
            free = self.text("-jf", file, *options, "--no-force")
            jsonschema.validate(json.loads(free), PERSON)
            self.assertEqual(list(json.loads(text))[:2], ["name", "kind of animal"])
            compact = self.text("-jf", file, *options, "--compact")
            self.assertEqual(compact, json.dumps(json.loads(compact), separators=(",", ":"), ensure_ascii=False))

    def test_json(self):
        done = 0
        for seed in range(6):
            *tokens, end = self.lines("--json", "-s", seed, "-n", 80)
            text = "".join(token["text"] for token in tokens)
            if end["stop"] == "complete":
                json.loads(text)
                done += 1
            else:
                self.assertEqual((end["stop"], end["tokens"]), ("length", 80))
        self.assertTrue(done)

    def test_numbers_end(self):
        """Digits are what this model likes best behind a digit."""
        for kind, most in (("integer", 2**53 - 1), ("number", 10**116), (["number", "array"], 10**116)):
            for seed in range(8):
                schema = {"type": kind, "items": {"type": "number"}, "maxItems": 2}
                *_, end = self.lines("-j", json.dumps(schema), "-s", seed)
                text = self.text("-j", json.dumps(schema), "-s", seed, prompt="Tom")
                self.assertEqual(end["stop"], "complete", text)
                jsonschema.validate(json.loads(text), schema)
                for number in re.findall(r"-?[0-9][^], ]*", text):
                    self.assertLessEqual(abs(float(number)), most)

    def test_numbers_beyond_digits(self):
        """Each is a number of the schema, for a validator that calculates with doubles, too."""
        for schema in ({"const": 1e300}, {"enum": [-1e300]}, {"const": 1e-300}, {"minimum": 1e300}, {"maximum": -1e300}, {"type": "integer", "minimum": 1e300},
                       {"exclusiveMinimum": 1e300, "exclusiveMaximum": 1.1e300}, {"exclusiveMinimum": 0, "maximum": 1e-300}):  # fmt: skip
            schema = {"type": "array", "items": {"type": "number", **schema}, "minItems": 1, "maxItems": 2, "uniqueItems": True}
            for seed in range(2):
                text = self.text("-j", json.dumps(schema), "-s", seed)
                self.assertTrue(0 < len(json.loads(text)) <= 2 and "e" in text, text)
                jsonschema.validate(json.loads(text), schema)

    def test_expressions_choices_and_grammars(self):
        file = self.dir / "cat.gbnf"
        file.write_text(GRAMMAR)
        for seed in range(4):
            self.assertRegex(self.text("--regex", "[A-Z][a-z]{2,6} is [1-9][0-9]?", "-s", seed), r"\A[A-Z][a-z]{2,6} is [1-9][0-9]?\Z")
            self.assertIn(self.text("--choice", "yes|no|not at all", "-s", seed), ("yes", "no", "not at all"))
            for name in ("--grammar", "--grammar-file"):
                self.assertRegex(self.text(name, file, "-s", seed), r"\AThe [a-z]{1,3} sat\.\Z")
        self.assertEqual(self.text("--choice", "a long text that has no alternative", "--logit-bias", "5+inf"), "a long text that has no alternative")

    def test_formats(self):
        schema = json.dumps({"type": "string", "format": "date"})
        self.assertRegex(json.loads(self.text("-j", schema)), r"\A\d{4}-\d\d-\d\d\Z")
        self.assertRegex(json.loads(self.text("-j", schema, "--format=enforce")), r"\A\d{4}-\d\d-\d\d\Z")
        free = {json.loads(self.text("-j", json.dumps({"type": "string", "format": "date", "maxLength": 8}), "--format", "annotate"))}
        self.assertTrue(all(len(text) <= 8 for text in free))

    def test_other_vocabularies(self):
        """A model of single bytes, on which every place is met."""
        for seed in range(3):
            text = self.good(self.model, "x", "--no-echo", "-q", "-j", json.dumps(PERSON), "-s", seed, "--top-k", 0).decode()
            jsonschema.validate(json.loads(text), PERSON)


    def test_guesses_change_nothing(self):
        guesser = self.dir / "guesser.bin"
        write_guesser(guesser)
        options = ["x", "-j", json.dumps(PERSON), "--fingerprint", "--jsonl", "--temp", 1.5, "-n", 150]
        for model, guesses in ((guesser, ["--mtp"]), (FABLE, ["--lookup"]), (FABLE, ["--draft", FABLE])):
            for seed in range(2):
                texts = [self.good(model, *options, "-s", seed, *more).splitlines() for more in ([], guesses)]
                ends = [json.loads(lines.pop()) for lines in texts]
                self.assertEqual(*texts)
                self.assertEqual(*([end[name] for name in ("stop", "tokens", "forced_tokens", "fingerprint", "fingerprint_rows")] for end in ends))


class Reports(Constrained):
    def test_lines_of_json(self):
        *tokens, end = self.lines("-j", json.dumps(PERSON), "-s", 3)
        self.assertEqual(end["stop"], "complete")
        jsonschema.validate(json.loads("".join(t["text"] for t in tokens)), PERSON)
        forced = [t for t in tokens if t.get("forced")]
        self.assertGreater(len(forced), 5)
        self.assertEqual((end["forced_tokens"], end["tokens"]), (len(forced), len(tokens)))
        self.assertTrue(all(("logprob" in t) != ("forced" in t) for t in tokens))
        *tokens, end = self.lines("-j", json.dumps(PERSON), "-s", 3, "--no-force")
        self.assertTrue("forced_tokens" not in end and all("logprob" in t for t in tokens))
        *_, end = self.lines("-j", json.dumps(PERSON), "-n", 7)
        self.assertEqual((end["stop"], end["tokens"]), ("length", 7))
        *_, end = self.lines("--choice", "one two three", "--stop", "two")
        self.assertEqual(end["stop"], "string")

    def test_a_refused_schema(self):
        for more in ([], ["--constraint-budget", 8]):
            done = self.run_it(FABLE, "x", "--jsonl", "-j", json.dumps(UNKNOWN), *more)
            (line,) = map(json.loads, done.stdout.splitlines())
            self.assertEqual(done.returncode, 2)
            self.assertEqual((line["stop"], line["code"], line["keyword"], line["at"]), ("refused", 2, "pattern", "#/properties/a"))
            self.assertIn(line["error"], done.stderr.decode())

    def test_where_a_refusal_lies(self):
        """Words that are no keyword are not named as one."""
        both = {"allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)], "type": "object"}
        for options, keyword, at in (
            (["-j", '{"type": "integer", "enum": ["x"]}'], "enum", "#"), (["-j", "[]"], None, "#"), (["-j", json.dumps(both)], "anyOf", "#/allOf/"),
            (["--grammar", self.dir / "missing"], None, None),
        ):  # fmt: skip
            done = self.run_it(FABLE, "x", "--jsonl", *options)
            (line,) = map(json.loads, done.stdout.splitlines())
            self.assertEqual((line["stop"], line["code"], line.get("keyword")), ("refused", done.returncode, keyword), line)
            self.assertTrue(line.get("at", "") == (at or "") or line["at"].startswith(at + "1"), line)

    def test_a_text_that_fails_halfway(self):
        """So many readings are alive behind some hundred bytes that the constraint gives up."""
        with tempfile.NamedTemporaryFile("w", suffix=".gbnf") as f:
            f.write('root ::= root root | root root root | "a" | "b" | "ab" root?\n')
            f.flush()
            done = self.run_it(FABLE, "x", "--jsonl", "--grammar", f.name, "-n", 600)
        *tokens, end = map(json.loads, done.stdout.splitlines())
        self.assertEqual((end["stop"], end["code"], done.returncode), ("failed", 6, 6), done.stderr)
        self.assertEqual(end["tokens"], len(tokens))
        self.assertIn(end["error"], done.stderr.decode())

    def test_statistics(self):
        done = self.run_it(FABLE, "x", "-j", json.dumps(PERSON))
        self.assertRegex(done.stderr.decode(), r"; forced \d+")
        done = self.run_it(FABLE, "x", "--choice", "yes and yes again", "-v", "--logprobs", 1)
        self.assertRegex(done.stderr.decode(), r"(?m)^forced: +\d+ token")
        self.assertRegex(done.stderr.decode(), r"(?m)^ended by: +complete$")
        self.assertRegex(done.stderr.decode(), r'(?m)^\d+: \d+ ".*" forced$')

    def test_what_lax_leaves_out(self):
        done = self.run_it(FABLE, "x", "-n", 5, "-j", json.dumps(UNKNOWN), "--json-schema-lax")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr.decode(), r"(?m)^not enforced: .*pattern.*#/properties/a")


class Usage(Constrained):
    def test_refusals(self):
        file = self.dir / "bad.gbnf"
        file.write_text("root ::= (")
        no_token = self.dir / "token.gbnf"
        no_token.write_text('root ::= [a-z]+ <think> "a"')
        for options, word in (
            (["-j", json.dumps(UNKNOWN)], "pattern"), (["-j", "{"], "json-schema|schema"), (["--regex", "("], "expression"), (["--grammar", file], "grammar|rule|bad.gbnf"),
            (["--json", "--regex", "x"], "--json and --regex cannot go together"), (["--choice", "a", "--grammar", file], "cannot go together"),
            (["--json", "--ignore-eos"], "cannot go together"), (["--compact"], "belongs to --json"), (["--regex", "x", "--compact"], "belongs to --json"),
            (["--choice", "x", "--format=annotate"], "belongs to"), (["--no-force"], "belongs to"), (["--constraint-budget", 5], "belongs to"),
            (["--json-schema-lax"], "belongs to"), (["--json", "--format", "maybe"], "enforce"), (["--json", "--info"], "cannot go together"),
            (["--grammar", "root ::= x"], "holds the grammar"), (["--grammar", no_token], "line 1: rule root names <think>"), (["--json", "--constraint-budget", 0], "constraint-budget"),
        ):  # fmt: skip
            self.assertRegex(self.bad(2, FABLE, *options, *([] if "--info" in options else ["-p", "x"])), word)
        self.bad(4, FABLE, "x", "--json-schema-file", self.dir / "missing")
        self.bad(4, FABLE, "x", "--grammar", self.dir / "missing")

    def test_a_small_budget(self):
        wide = {"enum": [f"{i:x}" * 40 for i in range(30000)]}
        file = self.dir / "wide.json"
        file.write_text(json.dumps(wide))
        self.assertIn("budget", self.bad(6, FABLE, "x", "-jf", file, "--constraint-budget", 1))

    def test_an_ambiguous_grammar(self):
        """The budget is not what ends such a text, and it is not blamed."""
        file = self.dir / "ambiguous.gbnf"
        file.write_text('root ::= x | "a"\nx ::= root root root | root root')
        done = self.run_it(FABLE, "x", "-n", 500, "--temp", 0, "--logit-bias", "2-inf", "--grammar", file)
        self.assertEqual(done.returncode, 6)
        self.assertRegex(done.stderr.decode(), "run: constraint: .*ambiguous")

    def test_chats(self):
        """Every answer is bound; a thought before it is free."""
        chat = [FABLE, "--template", "chatml", "-q", "--choice", "it is so|certainly not"]
        for seed in range(3):
            self.assertIn(self.good(*chat, "Is it?", "-s", seed).decode(), ("it is so\n", "certainly not\n"))
        qwen = [FABLE, "--template", "qwen3", "-q", "--jsonl", "--choice", "it is so|certainly not", "--chat", "Is it?", "-n", 20, "-s", 3]
        ends = [json.loads(self.good(*qwen, "--think", think).splitlines()[-1])["stop"] for think in ("off", "on")]
        self.assertEqual(ends, ["complete", "length"])  # it would have to end its thought first
        t = Terminal([*map(str, chat), "-s", "3"])
        self.addCleanup(t.close)
        t.until(b">>> ")
        for question in ("One?", "Two?"):
            self.assertIn(t.say(question).strip(), (b"it is so", b"certainly not"))


class Python(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tern.Model(FABLE, n_seqs=3)
        cls.addClassCleanup(cls.model.close)

    def same(self, options, *arguments):
        text = self.model.generate("Tom", seed=5, n_predict=90, **options)
        got = "".join(text)
        want = subprocess.run([RUN, FABLE, "Tom", "-s5", "-n90", "-q", "--no-echo", *arguments], capture_output=True, text=True, check=True).stdout
        self.assertEqual(got + "\n", want)
        return text.result

    def test_the_text_of_the_program(self):
        r = self.same({"json_schema": PERSON}, "--json-schema", json.dumps(PERSON))
        self.assertEqual(r.reason, "complete")
        self.assertGreater(r.n_forced, 5)
        jsonschema.validate(json.loads(r.text), PERSON)
        self.same({"json_schema": json.dumps(PERSON), "compact": True, "no_force": True}, "-j", json.dumps(PERSON), "--compact", "--no-force")
        self.same({"regex": "[a-z]{3,9} or not"}, "--regex", "[a-z]{3,9} or not")
        self.same({"choice": ["yes", "no"]}, "--choice", "yes|no")
        self.same({"json": True}, "--json")

    def test_several_texts(self):
        """A batch gives each text what it gets alone."""
        for options in ({"json_schema": PERSON}, {"choice": "no way|certainly"}, {"regex": "[a-z]{1,5}", "no_force": True}, {"json": True, "n_predict": 9}):
            prompts = ["Tom", "One day", "The cat"]
            together = self.model.generate(prompts, seed=2, **options)
            for prompt, got in zip(prompts, together, strict=True):
                text = self.model.generate(prompt, seed=2, **options)
                self.assertEqual("".join(text), got.text)
                want = text.result
                self.assertEqual((got.tokens, got.reason, got.n_forced), (want.tokens, want.reason, want.n_forced))

    def test_forced_tokens_have_no_logits(self):
        seen = []
        text = self.model.generate("Tom", choice=["one two three four"], on_token=lambda token, logits: seen.append((token, logits is None)))
        self.assertEqual("".join(text), "one two three four")
        self.assertEqual(([token for token, _ in seen], sum(forced for _, forced in seen)), (text.result.tokens, text.result.n_forced))

    def test_one_constraint_for_many(self):
        with tern.Constraint(self.model, "choice", "yes|no") as form:
            for prompt in ("One", "Two"):
                self.assertIn("".join(self.model.generate(prompt, constraint=form)), ("yes", "no"))
        with self.assertRaisesRegex(tern.Error, "closed"):
            list(self.model.generate("One", constraint=form))

    def test_choices_with_marks(self):
        for text in ("a|b", "c\\", "\\|d\\\\"):
            self.assertEqual("".join(self.model.generate("T", choice=[text])), text)

    def test_tokens_out_of_range(self):
        with tern.Constraint(self.model, "choice", "yes|no") as form:
            state = form.start()
            for call in (lambda: state.accept(2**32 + 65), lambda: state.rollback(-1), lambda: state.accept("a")):
                self.assertRaisesRegex(tern.Error, "outside|whole number", call)

    def test_chat(self):
        answer = self.model.chat([{"role": "user", "content": "Is it?"}], template="chatml", choice=["yes", "no"])
        self.assertIn("".join(answer), ("yes", "no"))
        self.assertEqual(answer.result.reason, "complete")

    def test_refusals(self):
        for options, word in (
            ({"json": True, "regex": "x"}, "cannot go together"), ({"compact": True}, "belongs to"), ({"json_schema": UNKNOWN}, "pattern"),
            ({"json_schema": {1, 2}}, "json_schema"), ({"choice": []}, "no text"), ({"json_schema": False}, "nothing is valid"), ({"json": {}}, "json_schema="), ({"regex": 5}, "not a text"),
            ({"json": True, "format": "maybe"}, "enforce or annotate"), ({"constraint": 5}, "not a tern.Constraint"),
            ({"json": True, "ignore_end": True}, "end token"), ({"json": True, "constraint_budget": 0}, "outside"),
        ):  # fmt: skip
            with self.assertRaisesRegex(tern.Error, re.escape(word)):
                list(self.model.generate("x", **options))
        r = self.model.generate(["x"], json_schema=UNKNOWN, json_schema_lax=True, n_predict=3)[0]
        self.assertRegex(" ".join(r.left_out), "pattern")


if __name__ == "__main__":
    unittest.main()
