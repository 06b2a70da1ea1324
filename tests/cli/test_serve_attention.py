"""POST /attention of `serve`: the weights that the engine shows, beside answers that stay what they are."""

import base64
import ctypes
import json
import os
import struct
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
from serve_case import MODEL, SLOW, WHY, ServeCase, Server, until

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
LIBRARY = ROOT / os.environ.get("BUILD", "build") / "libtern.so"
os.environ["TERN_LIBRARY"] = str(LIBRARY)

import tern  # noqa: E402

STORY = "Once upon a time there was a little girl named Lily. She loved to play outside in the sun. " * 12


class Shape(ctypes.Structure):
    """struct tern_shape"""

    _fields_ = [(n, ctypes.c_uint64) for n in ("dim", "hidden", "n_layers", "n_heads", "n_kv_heads", "head_dim", "vocab", "max_seq")]
    _fields_ += [("tied", ctypes.c_int), ("window", ctypes.c_uint64), ("keys", ctypes.c_char_p)]


def write_mixed(path: Path) -> Path:
    """Random weights; a layer of each mixer: recurrent, convolution, attention with a window."""
    keys = b"mixer=2/4/1,k_heads=1,v_heads=2,k_dim=8,v_dim=8,conv_width=3"
    shape = Shape(64, 128, 3, 4, 2, 16, 256, 1024, 1, 300, keys)
    write = ctypes.CDLL(str(LIBRARY)).tern_random_model
    assert write(str(path).encode(), ctypes.byref(shape), 0, ctypes.c_uint64(7), 0, None) == 0
    return path


class Attention(ServeCase):
    ARGUMENTS = ["--parallel", "4", "--max-attention", "2048"]

    def tokens(self, text, **more):
        return self.post("/tokenize", {"content": text, "add_special": True, **more})[2]["tokens"]

    def attention(self, tokens, layer, **more):
        """The answer, with its weights as an array."""
        status, _, body = self.post("/attention", {"tokens": tokens, "layer": layer, **more})
        self.assertEqual(status, 200, body)
        return body | {"weights": np.frombuffer(base64.b64decode(body["weights"]), "<f4").reshape(body["n_heads"], len(tokens))}

    def refused(self, **body):
        status, _, answer = self.post("/attention", body)
        self.assertEqual(status, 400, answer)
        return answer["error"]["param"], answer["error"]["message"]

    def test_weights_are_those_of_the_engine(self):
        with tern.Model(MODEL) as model:
            look = model.look("The cat sat on the mat. The dog saw the cat, and")
            tokens = [int(t) for t in look.tokens]
            self.assertEqual(self.get("/props")[2]["attention_heads"], [look.attention(i).shape[0] for i in range(model.n_layers)])
            for layer in range(model.n_layers):
                expected = look.attention(layer)
                for end in (1, 7, len(tokens)):  # whatever was evaluated before
                    got = self.attention(tokens[:end], layer)
                    np.testing.assert_array_equal(got["weights"], expected[:, end - 1, :end])
                    self.assertEqual((got["layer"], got["head"], got["n_tokens"]), (layer, None, end))
                one = self.attention(tokens, layer, head=3)
                np.testing.assert_array_equal(one["weights"], expected[3:4, -1])
                self.assertEqual((one["head"], one["n_cached"]), (3, len(tokens) - 1))

    def test_an_answer_is_found_evaluated(self):
        prompt = self.tokens(STORY)[:200]
        ask = {"prompt": prompt, "max_tokens": 40, "temperature": 0, "logprobs": 0, "return_tokens": True, "ignore_eos": True}
        choice = self.post("/v1/completions", ask)[2]["choices"][0]
        got = self.attention(prompt + choice["tokens"][:39], 2)
        self.assertGreaterEqual(got["n_cached"], 200)
        self.assertEqual(got["n_cached"] + 1, got["n_tokens"])

    def test_pieces(self):
        tokens = self.tokens("A café")
        pieces = self.attention(tokens, 0, with_pieces=True)["tokens"]
        self.assertEqual(pieces, self.tokens("A café", with_pieces=True))

    def test_other_answers_keep_their_bits(self):
        prompt = self.tokens(STORY)[:150]
        ask = {"prompt": prompt, "max_tokens": 200, "seed": 5, "temperature": 1, "receipt": True, "ignore_eos": True}
        numbers = lambda body: [body["choices"][0]["receipt"][k] for k in ("answer", "fingerprint")]  # noqa: E731
        alone = numbers(self.post("/v1/completions", ask)[2])
        over, n = threading.Event(), [0]

        def look():
            while not over.is_set():
                self.attention(prompt[: 50 + n[0] % 100] + [7, n[0] % 500], n[0] % 5)
                n[0] += 1

        threads = [threading.Thread(target=look) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            for _ in range(2 if SLOW else 6):
                self.assertEqual(numbers(self.post("/v1/completions", ask)[2]), alone)
        finally:
            over.set()
            for t in threads:
                t.join()
        self.assertGreater(n[0], 10)

    def test_limit(self):
        tokens = self.tokens(STORY + STORY)  # of 2048 weights, 8 heads are 256 tokens
        for n in (255, 256):
            self.assertEqual(self.attention(tokens[:n], 0)["n_tokens"], n)
        field, why = self.refused(tokens=tokens[:257], layer=0)
        self.assertEqual(field, "tokens")
        self.assertIn("are 257, for 8 heads: at most 2048 weights are allowed; ask for one `head`", why)
        self.assertEqual(self.attention(tokens[:257], 0, head=7)["n_heads"], 1)

    def test_refusals(self):
        tokens = self.tokens("A cat")
        for body, field in (({}, "tokens"), ({"tokens": []}, "tokens"), ({"tokens": ["a"], "layer": 0}, "tokens"),
                            ({"tokens": [10**6], "layer": 0}, "tokens"), ({"tokens": tokens}, "layer"), ({"tokens": tokens, "layer": 5}, "layer"),
                            ({"tokens": tokens, "layer": -1}, "layer"), ({"tokens": tokens, "layer": 0, "head": 8}, "head"),
                            ({"tokens": tokens, "layer": 0, "with_pieces": 1}, "with_pieces")):  # fmt: skip
            with self.subTest(body):
                self.assertEqual(self.refused(**body)[0], field)
        self.assertIn("512", self.refused(tokens=[5] * 513, layer=0, head=0)[1])
        self.assertEqual(self.post("/attention", {"tokens": tokens, "layer": 0, "new": 1})[1]["x-tern-ignored"], "new")

    def test_clients_that_leave(self):
        """Their jobs end, and what others ask next has its bits."""
        tokens = self.tokens(STORY)[:200]
        before = self.attention(tokens, 1)["weights"]
        for i in range(20):
            with Gone(self.server, {"tokens": [i + 20, *tokens], "layer": 0}):
                pass
        until(lambda: self.server.metric("tern_requests_processing") == 0, what="the end of the jobs")
        np.testing.assert_array_equal(self.attention(tokens, 1)["weights"], before)


class Gone:
    """A request whose client leaves at once."""

    def __init__(self, server, body):
        data = json.dumps(body).encode()
        self.s = server.connect()
        self.s.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: a reset
        self.s.sendall(b"POST /attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)

    def __enter__(self):
        return self.s

    def __exit__(self, *_):
        self.s.close()


@unittest.skipIf(WHY, WHY)
class OtherMixers(unittest.TestCase):
    def test_layers_without_weights_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write_mixed(Path(folder) / "mixed.bin")
            server = Server("--cache-type", "q8", model=str(path))
            self.addCleanup(server.stop)
            tokens = [i % 256 for i in range(700)]  # far beyond the window
            self.assertEqual(server.get("/props")[2]["attention_heads"], [0, 0, 4])
            for layer, kind in ((0, "recurrent"), (1, "a convolution")):
                status, _, body = server.post("/attention", {"tokens": tokens, "layer": layer})
                self.assertEqual((status, body["error"]["param"]), (400, "layer"))
                self.assertIn(f"{layer} has no attention weights: it is {kind}", body["error"]["message"])
            rows = []
            for _ in range(2):
                status, _, body = server.post("/attention", {"tokens": tokens, "layer": 2})
                self.assertEqual(status, 200, body)
                rows.append(np.frombuffer(base64.b64decode(body["weights"]), "<f4").reshape(4, 700))
            self.assertEqual(body["n_cached"], 699)
            np.testing.assert_array_equal(*rows)
            self.assertTrue((rows[0][:, :400] == 0).all() and (rows[0][:, 400:] > 0).all())
            np.testing.assert_allclose(rows[0].sum(1), 1, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
