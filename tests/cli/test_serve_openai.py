"""serve through OpenAI's own client: the other routes, receipts, errors, keys, and a queue that is full."""

import json
import re
import subprocess
import tempfile
import unittest

from cli_case import ROOT, RUN
from openai_case import HI, Client, openai
from serve_case import together


class Routes(Client):
    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["fable"])
        self.assertEqual(self.client.models.retrieve("gpt-5").id, "gpt-5")

    def test_tokens_and_back(self):
        text = "The cat\u00e9 sat \U0001f600 <|im_start|>"
        r = self.post("/tokenize", {"content": text, "with_pieces": True})[2]
        raw = b"".join(bytes(t["piece"]) if isinstance(t["piece"], list) else t["piece"].encode() for t in r["tokens"])
        self.assertEqual(raw.decode(), text)
        self.assertEqual(self.post("/detokenize", {"tokens": [t["id"] for t in r["tokens"]]})[2]["content"], text)

    def test_apply_template(self):
        r = self.post("/apply-template", {"messages": HI})[2]
        self.assertEqual(r["prompt"], f"<|im_start|>user\n{HI[0]['content']}<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(len(r["tokens"]), self.chat().usage.prompt_tokens)

    def test_every_metric_has_a_help(self):
        text = self.get("/metrics")[2]
        names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
        helps = {line.split()[2]: line for line in text.splitlines() if line.startswith("# HELP ")}
        self.assertEqual([n for n in names if not helps.get(n, "").endswith(".")], [])

    def test_props(self):
        p = self.get("/props")[2]
        for value in p["default_generation_settings"]["params"].values():
            self.assertLess(len(str(value)), 8, "a float is written as people write it")
        self.assertEqual((p["model_alias"], p["chat_template"], p["default_generation_settings"]["n_ctx"]), ("fable", "chatml", 512))

    def test_the_description_has_all_routes(self):
        status, _, described = self.get("/openapi.json")
        self.assertEqual(status, 200)
        rows = re.findall(r'\{"(GET|POST)", "(/[^"]*)", ([^,]*)', (ROOT / "src/app/serve/routes.c").read_text())
        routes = {(path + ("{id}" if "PREFIX" in flags else ""), method.lower()) for method, path, flags in rows}
        self.assertEqual({(path, m) for path, item in described["paths"].items() for m in item if m in ("get", "post")},
                         routes - {("/", "get"), ("/openapi.json", "get")})  # fmt: skip

    def test_errors_have_their_classes(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.get("/nothing", cast_to=object)
        with self.assertRaises(openai.BadRequestError):
            self.client.post("/chat/completions", cast_to=object, body={"messages": "x"})

    # ---- receipts

    def test_receipts(self):
        for more in ({"extra_body": {"receipt": True}}, {"extra_headers": {"x-tern-receipt": "1"}}):
            self.assertTrue(self.chat(**more).choices[0].receipt)
        chunks = list(self.chat(stream=True, extra_body={"receipt": True}))
        self.assertTrue(chunks[-1].choices[0].receipt)

    def test_the_header_for_receipts(self):
        for value, want in (("1", True), ("true", True), ("Yes", True), ("0", False), ("false", False), ("no", False)):
            r = self.chat(max_tokens=2, extra_headers={"x-tern-receipt": value}).choices[0]
            self.assertEqual(hasattr(r, "receipt"), want, value)
        self.refused("x-tern-receipt", "perhaps", extra_headers={"x-tern-receipt": "perhaps"})

    def test_saved_answers_are_proven(self):
        """As they came, receipt and all."""
        for path, more in {"chat/completions": {"messages": HI}, "completions": {"prompt": "Hi"}, "messages": {"messages": HI}, "responses": {"input": "Hi"}}.items():
            with self.subTest(path), tempfile.NamedTemporaryFile("w", suffix=".json") as f:
                length = "max_output_tokens" if path == "responses" else "max_tokens"
                f.write(json.dumps(self.post(f"/v1/{path}", {**more, length: 9, "seed": 7, "receipt": True})[2]))
                f.flush()
                done = subprocess.run([RUN, self.MODEL, "--template", "chatml", "--verify-receipt", f.name], capture_output=True, text=True)
                self.assertRegex(done.stdout, "^proven: ", done.stderr)


class Busy(Client):
    ARGUMENTS = ["--chat-template", "chatml", "--parallel", "1", "--queue", "1", "--api-key", "secret"]

    def test_keys(self):
        with self.assertRaises(openai.AuthenticationError):
            self.chat()

    def test_a_full_queue_is_tried_again(self):
        def client(retries):
            return openai.OpenAI(base_url=self.url + "/v1", api_key="secret", max_retries=retries)

        def long(c, n):
            return c.chat.completions.create(model="x", messages=HI, max_tokens=n, seed=1, extra_body={"ignore_eos": True}).usage.completion_tokens

        with client(0) as once, client(8) as often:
            def ask(i):
                try:
                    return long(often if i % 2 else once, 300)
                except openai.InternalServerError as e:
                    self.assertEqual((e.status_code, e.type), (503, "server_error"))
                    self.assertTrue(float(e.response.headers["retry-after"]) >= 1)
                    return 503

            got = together(8, ask)
        self.assertEqual({got[i] for i in range(1, 8, 2)}, {300})


if __name__ == "__main__":
    unittest.main()
