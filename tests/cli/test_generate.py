"""Text from Python: that of ./run, token for token; callbacks, Ctrl-C, threads, forks, batches, sequences, sessions."""

import contextlib
import gc
import io
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/convert")]
BUILD = ROOT / os.environ.get("BUILD", "build")
os.environ["TERN_LIBRARY"] = str(BUILD / "libtern.so")

import tern  # noqa: E402
from cli_case import processor_seconds, write_model  # noqa: E402

FABLE = ROOT / "models/fable.bin"
STORY = "Once upon a time there was a dog. "
HELLO = [{"role": "user", "content": "Hello"}]


def run(*arguments, model=FABLE) -> str:
    done = subprocess.run(
        [BUILD / "run", model, *map(str, arguments), "-q"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL, timeout=300
    )
    return done.stdout


def children_seconds() -> float:
    """What the processors worked for programs that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tern.Model(FABLE, n_seqs=3)
        cls.addClassCleanup(cls.model.close)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def refused(self, says: str, call, *arguments, **more) -> tern.Error:
        with self.assertRaisesRegex(tern.Error, says) as caught:
            call(*arguments, **more)
        return caught.exception


class Texts(Case):
    def test_text_is_that_of_run(self):
        for options, arguments in (
            ({"temperature": 0}, ["--temp", 0]), ({"seed": 7}, ["-s", 7]), ({"seed": 2**63}, ["-s", 2**63]),
            ({"seed": 3, "temperature": 1.3, "top_k": 0, "top_p": 0.8, "repeat_penalty": 1.2}, ["-s", 3, "--temp", 1.3, "--top-k", 0, "--top-p", 0.8, "--repeat-penalty", 1.2]),
            ({"seed": 3, "mirostat": 2, "mirostat_tau": 4}, ["-s", 3, "--mirostat", 2, "--mirostat-tau", 4]),
            ({"seed": 3, "xtc_probability": 0.5, "typical_p": 0.9, "min_p": 0.1}, ["-s", 3, "--xtc-probability", 0.5, "--typical", 0.9, "--min-p", 0.1]),
            ({"seed": 3, "dry_multiplier": 0.8, "dry_breakers": ["."], "order": "dry;top_k;temperature"},
             ["-s", 3, "--dry-multiplier", 0.8, "--dry-sequence-breaker", ".", "--samplers", "dry;top_k;temperature"]),
            ({"temperature": 0, "bias": {430: 5.0, 14: -np.inf}}, ["--temp", 0, "-l", "430+5", "-l", "14-inf"]),
            ({"temperature": 0, "stop": ["big dog", "zzz"]}, ["--temp", 0, "--stop", "big dog", "--stop", "zzz"]),
            ({"temperature": 0, "lookup": True}, ["--temp", 0]),
        ):  # fmt: skip
            with self.model.generate("The cat sat", n_predict=60, **options) as text:
                made = "".join(text)
            self.assertEqual("The cat sat" + made + "\n", run("The cat sat", "-n", 60, *arguments), options)
            r = text.result
            self.assertEqual((r.text, r.n_generated, r.reason), (made, len(r.tokens), "string" if "stop" in options else "length"))

    def test_fingerprints_are_those_of_run(self):
        with tern.Model(FABLE, fingerprint=True) as model:
            "".join(model.generate("The cat sat", n_predict=50, temperature=0))
            self.assertEqual(model.fingerprint, "5ae93e4578537da3")
        self.refused("fingerprint=True", lambda: self.model.fingerprint)

    def test_full_contexts_and_shifts(self):
        with tern.Model(FABLE, n_ctx=40) as model:
            text = model.generate("Once", seed=3, ignore_end=True)
            "".join(text)
            self.assertEqual((text.result.reason, text.result.n_generated), ("context", 40 - 1))
            made = "".join(model.generate("Once", seed=3, ignore_end=True, shift=True, n_predict=90))
            self.assertEqual("Once" + made + "\n", run("Once", "-c", 40, "-s", 3, "--ignore-eos", "--context-shift", "-n", 90))
            self.refused("has 41 tokens, the context holds 40", list, model.generate([1] * 41))

    def test_prompts(self):
        ids = self.model.tokenize("The cat sat")
        for same in (ids, np.array(ids), tuple(ids)):
            self.assertEqual("".join(self.model.generate(same, n_predict=5, temperature=0)), "".join(self.model.generate("The cat sat", n_predict=5, temperature=0)))
        begun = "".join(self.model.generate("", n_predict=5, temperature=0))
        self.assertEqual(begun + "\n", run("", "-n", 5, "--temp", 0))
        text = self.model.generate("The cat sat", n_predict=0)
        self.assertEqual((list(text), text.result.reason), ([], "length"))

    def test_a_draft_changes_nothing_but_the_time(self):
        with tern.Model(FABLE) as draft:
            text = self.model.generate(STORY, n_predict=40, seed=5, draft=draft, draft_max=4)
            self.assertEqual("".join(text), "".join(self.model.generate(STORY, n_predict=40, seed=5)))
            self.assertGreater(text.result.n_accepted, 0)
            "".join(draft.generate("a", n_predict=1))  # it is free again
        self.refused("cannot guess for itself", list, self.model.generate("a", draft=self.model))

    def test_options_are_checked(self):
        for options, says in (
            ({"temperatur": 1}, "no option 'temperatur'; did you mean 'temperature'"), ({"xyz": 1}, "no option 'xyz'; there are bias"),
            ({"top_k": -1}, "top_k: -1 is outside 0 to 4294967295"), ({"seed": 2**64}, "seed: 18446744073709551616 is outside"),
            ({"n_predict": 1e30}, r"n_predict: 1e\+30 is not a whole number"), ({"n_predict": 2**63}, "outside -1"), ({"top_k": "5"}, "not a whole number"),
            ({"temperature": "hot"}, "temperature: 'hot' is not a number"), ({"temperature": 1e300}, "too large"), ({"temperature": -1}, "temperature is -1, want 0"),
            ({"min_p": float("nan")}, "min_p is"), ({"bias": {4096: 1}}, "bias: token: 4096 is outside 0 to 4095"), ({"bias": [1]}, "no dictionary"),
            ({"stop": "a\0b"}, "NUL"), ({"stop": [1]}, "stop: 1 is not a text"), ({"order": "top_k;foo"}, "sampler 'foo' is unknown"), ({"on_token": 5}, "cannot be called"),
            ({"mirostat": 1}, "mirostat is 1, want 0 or 2"),
        ):  # fmt: skip
            self.refused(says, lambda options=options: list(self.model.generate("a", **{"n_predict": 1, **options})))
        for prompt, says in (([4096], "4096 is not a token id"), ([2**40], "not a token id"), ("a\ud800", "half a character"), ([1.5], "neither a text"), (5, "neither a text")):
            self.refused(says, lambda prompt=prompt: list(self.model.generate(prompt, n_predict=1)))
        for how in ({"n_ctx": -1}, {"n_batch": 2**32}, {"n_seqs": 0}, {"n_threads": 2**40}):
            self.refused("is outside", tern.Model, FABLE, **how)
        self.refused("load: 'x' is not one of map, copy, lock", tern.Model, FABLE, load="x")

    def test_what_a_model_is(self):
        info = self.model.info
        self.assertEqual((info.n_layers, info.vocab, info.type, info.name, info.is_sealed), (5, 4096, "q8", "fable", True))
        self.model.check()
        with tern.Model(FABLE, load="copy") as copy:
            copy.check()


class Endings(Case):
    def test_callbacks(self):
        seen, done = [], []
        text = self.model.generate(STORY * 9, n_predict=9, temperature=0, repeat_penalty=1, on_token=lambda *a: seen.append(a), on_prompt=lambda *a: done.append(a))
        "".join(text)
        self.assertEqual([token for token, _ in seen], text.result.tokens)
        self.assertTrue(all(logits.argmax() == token and logits.shape == (4096,) for token, logits in seen))
        self.assertEqual(done[-1][0], done[-1][1])

    def test_what_a_callback_raises_comes_out(self):
        class Odd(BaseException):
            pass

        def third(token, logits):
            count.append(token)
            if len(count) == 3:
                raise Odd("here")

        count: list[int] = []
        text, pieces = self.model.generate(STORY, temperature=0, on_token=third), []
        try:
            pieces.extend(iter(text.__next__, None))
        except Odd:
            self.assertIn("in third", traceback.format_exc())
        else:
            self.fail("nothing was raised")
        self.assertEqual((len(count), text.result.reason, len(text.result.tokens)), (3, "cancelled", 3))
        self.assertEqual(list(text), [])

        def observe(o):
            count.append(1)
            raise KeyError(o.operation)

        count.clear()
        with self.assertRaisesRegex(KeyError, "embed"):
            self.model.observe(STORY, observe)
        self.assertEqual(len(count), 1)
        self.refused("at work", self.model.observe, STORY, lambda o: self.model.logits("a"))
        self.refused("a callback cannot close", self.model.observe, STORY, lambda o: self.model.close())
        self.assertEqual(len("".join(self.model.generate("a", n_predict=1))) > 0, True)  # it still works

    def test_closed_early(self):
        want = "".join(self.model.generate(STORY, seed=1, n_predict=80))
        text = self.model.generate(STORY, seed=1)
        self.refused("has not ended", lambda: text.result)
        next(text)
        text.close()
        self.assertEqual((text.result.reason, list(text)), ("cancelled", []))
        self.assertTrue(want.startswith(text.result.text) or text.result.text.startswith(want))
        text = self.model.generate(STORY, seed=1)
        next(text)
        self.model.logits("a")  # the same thread asks for something else
        self.refused("was ended", lambda: list(text))
        dropped = self.model.generate(STORY, seed=1)
        next(dropped)
        del dropped
        gc.collect()
        with self.model.generate(STORY, seed=1) as text:
            next(text)
        self.assertEqual("".join(self.model.generate(STORY, seed=1, n_predict=80)), want)
        unread = self.model.generate(STORY)
        with tern.Model(FABLE) as other:
            text = other.generate(STORY)
            next(text)
        self.refused("was ended", lambda: list(text))
        self.refused("closed", lambda: list(other.generate("a")))
        unread.close()

    def child(self, code: str, *, wait_for: bytes = b"") -> tuple[int, str, float]:
        """The status, output and processor seconds after SIGINT of a program, which is interrupted when it has written `ready`."""
        code = f"import sys, os, time, signal, threading\nsys.path.insert(0, {str(ROOT / 'tools')!r})\nimport tern\nFABLE = {str(FABLE)!r}\n{code}"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(child.stdout.close)
        before = children_seconds()
        if wait_for:
            self.assertEqual(child.stdout.readline(), wait_for)
            time.sleep(0.3)
            before += processor_seconds(child)
            child.send_signal(signal.SIGINT)
        try:
            out = child.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            raise
        return child.returncode, out.decode(), children_seconds() - before

    def test_ctrl_c_ends_every_call(self):
        write_model(self.folder / "long.bin", 65536)
        for call in (
            "list(m.generate('a' * 60000, n_predict=3))", "m.logits('a' * 60000, last=1)", "m.hidden('a' * 60000)", "m.generate(['a' * 60000] * 2, n_predict=9)",
            "m.observe('a' * 60000, lambda o: None)", "m.sequence().feed('a' * 60000)", "list(m.generate('a', ignore_end=True, on_token=lambda *a: time.sleep(0.01)))",
            f"tern.quantize(FABLE, {str(self.folder / 'q.bin')!r}, 'q4c', report=lambda t: time.sleep(0.05))", "[m.check() for _ in range(10**6)]",
            "m.run_with_cache('a' * 30000, 'hook_embed')",
        ):  # fmt: skip
            status, out, seconds = self.child(f"""
m = tern.Model({str(self.folder / "long.bin")!r}, n_ctx=65000, n_seqs=3)
print('ready', flush=True)
try:
    {call}
    print('it ended')
except KeyboardInterrupt:
    print('interrupted', len(list(m.generate('b', n_predict=2, ignore_end=True))) > 0, m.logits('c').shape)
""", wait_for=b"ready\n")  # fmt: skip
            self.assertEqual((status, out), (0, "interrupted True (2, 259)\n"), call)
            self.assertLess(seconds, 3, call)  # of two threads, and the end of Python
        self.assertFalse((self.folder / "q.bin").exists())

    def test_the_end_of_a_program_ends_texts(self):
        status, out, _ = self.child("m = tern.Model(FABLE)\nt = m.generate('a', ignore_end=True)\nnext(t)\nprint('out')")
        self.assertEqual((status, out), (0, "out\n"))

    def test_forks(self):
        code = r"""
def say(what):
    os.write(1, f'{what}\n'.encode())  # at once: two processes write

m = tern.Model(FABLE, n_seqs=2)
s, t = m.sequence(), m.generate('Once', ignore_end=True)
s.feed('a'); next(t)
child = os.fork()
for call in (lambda: m.logits('a'), lambda: next(t), lambda: list(m.generate('a')), lambda: s.feed('b'), lambda: m.tokenize('a'), lambda: m.info):
    try:
        call()
        say('worked' if child else 'wrong')
    except tern.Error as e:
        say('refused' if 'forked' in str(e) or child and 'ended' in str(e) else e)
t.close(); s.close(); m.close()
del t, s, m
with tern.Model(FABLE) as m: say(len(m.logits('a')))
if child: say(os.waitpid(child, 0)[1])
"""
        status, out, _ = self.child(code)
        self.assertEqual(status, 0, out)
        lines = out.split("\n")
        self.assertEqual((lines.count("refused"), lines.count("worked"), lines.count("2"), lines[-2]), (6 + 1, 5, 2, "0"), out)

    def test_threads(self):
        with contextlib.ExitStack() as stack:
            models = [stack.enter_context(tern.Model(FABLE, n_threads=1)) for _ in range(2)]
            both = threading.Barrier(2)
            times: list[tuple] = []

            def work(model):
                both.wait()
                text = model.generate(STORY, seed=1, n_predict=200, ignore_end=True, on_token=lambda *_: times.append((model, time.monotonic())))
                results.append("".join(text))

            results: list[str] = []
            threads = [threading.Thread(target=work, args=(m,)) for m in models]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual((len(results), len(set(results))), (2, 1))
            first = [[at for m, at in times if m is model] for model in models]
            self.assertLess(max(f[0] for f in first), min(f[-1] for f in first))  # at the same time
            errors: list[str] = []

            def other():
                try:
                    models[0].logits("a")
                except tern.Error as e:
                    errors.append(str(e))

            text = models[0].generate(STORY, seed=1)
            next(text)
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            self.assertIn("at work in another thread", errors[0])
            self.assertGreater(len(list(text)), 0)


class Batches(Case):
    def test_a_list_is_one_batch(self):
        prompts = ["The cat sat", "Once upon a time", "", STORY * 14, [5, 6, 7], "A", "The end", "Dogs"]
        for options in (
            {"temperature": 0, "n_predict": 30}, {"seed": 11, "n_predict": 40, "stop": [".", "and"]}, {"seed": 4, "mirostat": 2, "n_predict": 20},
            {"seed": 5, "ignore_end": True, "n_predict": 100}, {"n_predict": 0},
        ):  # fmt: skip
            alone = []
            for prompt in prompts:
                text = self.model.generate(prompt, **options)
                "".join(text)
                alone.append(text.result)
            with tern.Model(FABLE, n_seqs=5, n_batch=64) as many:
                for model in (self.model, many):
                    for got, want in zip(model.generate(prompts, **options), alone, strict=True):
                        self.assertEqual((got.tokens, got.text, got.reason, got.n_generated), (want.tokens, want.text, want.reason, want.n_generated))

    def test_full_contexts_in_a_batch(self):
        with tern.Model(FABLE, n_ctx=40, n_seqs=2) as model:
            got = model.generate(["Once", "The cat", "A"], seed=3, ignore_end=True)
            self.assertEqual([r.reason for r in got], ["context"] * 3)
            self.assertEqual(got[0].tokens, list(self.tokens(model.generate("Once", seed=3, ignore_end=True))))
            self.refused("prompt 1 has 41 tokens, the context holds 40", model.generate, ["a", [1] * 41])

    @staticmethod
    def tokens(text) -> list[int]:
        "".join(text)
        return text.result.tokens

    def test_more_texts_than_rows_of_logits(self):
        with tern.Model(FABLE, n_seqs=40, n_ctx=64) as model:
            prompts = [[i + 5] for i in range(45)]
            got = model.generate(prompts, seed=2, n_predict=5, ignore_end=True)
            for i in (0, 31, 32, 44):
                self.assertEqual(got[i].tokens, self.tokens(model.generate(prompts[i], seed=2, n_predict=5, ignore_end=True)))

    def test_what_a_list_is_not_for(self):
        self.assertEqual(self.model.generate([]), [])
        self.refused("lookup is for a single text", self.model.generate, ["a"], lookup=4)
        self.refused("on_token is for a single text", self.model.generate, ["a"], on_token=print)


class Sequences(Case):
    def test_feeding_keeping_forking(self):
        with self.model.sequence() as one, self.model.sequence() as two:
            one.feed("The cat sat")
            want = self.model.logits("The cat sat on")
            np.testing.assert_array_equal(one.logits(), want[3])
            one.feed(" on")
            np.testing.assert_array_equal(one.logits(), want[-1])
            self.assertEqual(one.tokens, self.model.tokenize("The cat sat on"))
            one.keep(4)
            np.testing.assert_array_equal(one.logits(), want[3])
            np.testing.assert_array_equal(one.logits(copy=False), want[3])
            two.feed([0])
            two.close()
            with one.fork() as fork:
                fork.feed(" on")
                np.testing.assert_array_equal(fork.logits(), want[-1])
                np.testing.assert_array_equal(one.logits(), want[3])
                self.assertEqual((len(one), len(fork)), (4, 5))
                self.model.logits("a")
                self.refused("all sequences", lambda: [self.model.sequence() for _ in range(9)])
            self.refused("cannot keep 5", one.keep, 5)
            self.refused("context is full", one.feed, [1] * 600)
            self.assertEqual(len(one), 4)
            np.testing.assert_array_equal(one.logits(), want[3])
            self.refused("no tokens yet", self.model.sequence().logits)
        self.refused("sequence is closed", one.feed, "a")
        with tern.Model(FABLE, n_ctx=128, n_batch=64) as small, small.sequence() as one:
            one.feed("The cat sat")
            self.refused("context is full", one.feed, [1] * 200)  # after a batch that fits
            self.assertEqual(one.tokens, small.tokenize("The cat sat"))

    def test_text_goes_on(self):
        whole = self.model.generate("The cat sat", seed=6, n_predict=60, ignore_end=True)
        "".join(whole)
        with self.model.sequence() as s:
            s.feed("The cat sat")
            parts = [s.generate(seed=6, n_predict=n, ignore_end=True) for n in (1, 19, 40)]
            self.assertEqual("".join("".join(p) for p in parts), whole.result.text)
            self.assertEqual(s.tokens, self.model.tokenize("The cat sat") + whole.result.tokens)
            more = "".join(s.generate(" And then", temperature=0, n_predict=10))
            self.assertEqual(more, "".join(self.model.generate(s.tokens[:-10], temperature=0, n_predict=10)))

    def test_sessions_are_those_of_run(self):
        file, mine = self.folder / "a.session", self.folder / "b.session"
        args = ["-n", 20, "-s", 3, "--ignore-eos"]
        made = run("The cat sat", *args, "--session", file)
        with self.model.sequence() as s:
            text = "".join(s.generate("The cat sat", n_predict=20, seed=3, ignore_end=True))
            self.assertEqual("The cat sat" + text + "\n", made)
            s.save(mine)
            self.assertEqual(mine.read_bytes(), file.read_bytes())
            self.assertEqual(mine.stat().st_mode & 0o777, 0o600)
            more = "".join(s.generate(n_predict=20, seed=3, ignore_end=True))
            s.load(file)
            self.assertEqual("".join(s.generate(n_predict=20, seed=3, ignore_end=True)), more)
            self.assertEqual(run(*args, "--session", mine), more + "\n")
            s.load(mine)
            before = s.tokens
            self.refused("not a session", s.load, __file__)
            self.assertEqual(s.tokens, before)


class Arrays(Case):
    def test_logits_and_views(self):
        whole = self.model.logits(STORY * 8)
        np.testing.assert_array_equal(self.model.logits(STORY * 8, last=40), whole[-40:])
        view = self.model.logits(STORY * 8, last=2, copy=False)
        np.testing.assert_array_equal(view, whole[-2:])
        self.refused("at most the last 32 rows", self.model.logits, STORY * 8, copy=False)
        with self.assertRaises(ValueError):
            view[0, 0] = 1
        with self.assertRaises(ValueError):
            view.setflags(write=True)
        other = tern.Model(FABLE)
        view = other.logits(STORY, copy=False)
        other.close()
        np.testing.assert_array_equal(view, self.model.logits(STORY))
        self.refused("model is closed", other.logits, "a")
        self.assertTrue(other._engine._handles)
        del view
        self.assertFalse(other._engine._handles)

    def test_hidden_states_are_those_of_a_capture(self):
        for text in ("The cat", STORY * 15):
            _, cache = self.model.run_with_cache(text, "*hook_resid_post")
            for layer in (0, 3, -1):
                np.testing.assert_array_equal(self.model.hidden(text, layer), cache["resid_post", layer][0])
        self.refused("layer: 5 is not one of 0 to 4", self.model.hidden, "a", 5)

    def test_embeddings(self):
        _, cache = self.model.run_with_cache(STORY, "blocks.4.hook_resid_post")
        x, norm = cache["resid_post", 4][0].astype(np.float64), self.model.hidden(STORY)
        ratio = norm / (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5))
        np.testing.assert_allclose(ratio, np.broadcast_to(np.median(ratio, 0), ratio.shape), rtol=1e-3)  # the weights of the norm
        mean = norm.mean(0, dtype=np.float64)
        np.testing.assert_allclose(self.model.embed(STORY, normalize=False), mean, rtol=1e-6)
        np.testing.assert_allclose(self.model.embed(STORY), mean / np.linalg.norm(mean), rtol=1e-5)
        np.testing.assert_array_equal(self.model.embed(STORY, pooling="last", normalize=False), norm[-1])
        np.testing.assert_array_equal(self.model.embed(["a", STORY])[1], self.model.embed(STORY))
        self.refused("pooling: 'max' is not one of mean, last", self.model.embed, "a", pooling="max")


class Others(Case):
    def test_quantize_writes_the_bytes_of_the_program(self):
        seen = []
        tern.quantize(FABLE, self.folder / "a.bin", "q4", report=seen.append)
        subprocess.run([BUILD / "quantize", FABLE, self.folder / "b.bin", "q4"], check=True, capture_output=True)
        tern.quantize(FABLE, self.folder / "ref.bin", "q4", cpu="ref")
        for name in ("a.bin", "ref.bin"):
            self.assertEqual((self.folder / name).read_bytes(), (self.folder / "b.bin").read_bytes())
        self.assertEqual((seen[-1].done, seen[0].was), (seen[-1].total, "q8"))
        for says, call in (
            ("type: 'q2' is not one of q8, q4, q4c", lambda: tern.quantize(FABLE, self.folder / "c.bin", "q2")),
            ("cannot open", lambda: tern.quantize(self.folder / "none", self.folder / "c.bin")), ("has more bits than q8", lambda: tern.quantize(FABLE, self.folder / "c.bin")),
            ("cpu target 'sse'; it can run: plain", lambda: tern.quantize(FABLE, self.folder / "c.bin", "q4", cpu="sse")),
        ):  # fmt: skip
            self.refused(says, call)
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            tern.quantize(FABLE, self.folder / "c.bin", "q4", report=lambda t: 1 / 0)
        self.assertEqual([p.name for p in self.folder.glob("c.bin*")], [])

    def test_chat_is_that_of_run(self):
        for text, options in (("Hello", {}), ("Tell me", {"stop": "the"})):
            answer = self.model.chat([{"role": "user", "content": text}], template="chatml", n_predict=30, seed=5, **options)
            made = "".join(answer)
            self.assertEqual(made + "\n", run("--chat", text, "--template", "chatml", "-s", 5, "-n", 30, *(["--stop", "the"] if options else [])))
            self.assertEqual((answer.result.text, answer.result.answer), (made, made.strip()))
            self.assertEqual(answer._stream.options.stop[-1], self.model._engine.chat_info().stop)  # the template's own
        self.refused("no chat template; choose one: template=chatml", self.model.chat, HELLO)
        self.refused("no such choice", self.model.chat, HELLO, True, template="chatml")
        for wrong in ("Hello", [{"role": "me", "content": "x"}], [{"content": "x"}], [{"role": "user", "content": 5}], ["x"]):
            self.refused("message", self.model.chat, wrong, template="chatml")

    def test_turns_reuse_what_was_read(self):
        messages, n = list(HELLO), 0
        for _ in range(3):
            answer = self.model.chat(messages, template="chatml", n_predict=12, seed=5, ignore_end=True)
            "".join(answer)
            self.assertGreaterEqual(answer.result.n_reused, n)
            n = answer.result.n_reused + answer.result.n_prompt + 11
            self.assertEqual(answer.result.message["tokens"], answer.result.tokens)
            messages += [answer.result.message, {"role": "user", "content": "More"}]

    def test_thoughts_are_told_apart(self):
        from tern.chat import Parts

        for text, thinks, want in (
            ("a<think>b</think>c", False, [("a", "answer"), ("b", "thought"), ("c", "answer")]), ("b\n</think>\n\nc", True, [("b\n", "thought"), ("\n\nc", "answer")]),
            ("<thin <think", False, [("<thin <think", "answer")]), ("x</think>y", False, [("x</think>y", "answer")]),
        ):  # fmt: skip
            for size in (1, 2, 3, 99):
                parts, said = Parts(("<think>", "</think>"), thinks), []
                for i in range(0, len(text), size):
                    said += parts.feed(text[i : i + size])
                said += parts.finish()
                self.assertEqual("".join(said), text)
                kinds = {kind: "".join(p for p in said if p.kind == kind) for kind in ("thought", "answer")}
                self.assertEqual(kinds, {k: "".join(t for t, kind in want if kind == k) for k in kinds})

    def test_examples_in_docstrings_run(self):
        names = {"model": self.model, "tern": tern, "story": self.model.sequence()}
        os.chdir(self.folder)
        self.addCleanup(os.chdir, ROOT)
        Path("models").symlink_to(ROOT / "models")
        n = 0
        for owner in (tern.Model, tern.Sequence, tern):
            for name, member in vars(owner).items():
                found = re.search(r"Example: (.*?)(?:\"\"\"|\n\n|\Z)", getattr(member, "__doc__", None) or "", re.S)
                if found and "Model.get(" not in found[1]:
                    names["story"].close()
                    names["story"] = self.model.sequence()
                    names["story"].feed("Once upon")
                    if name == "load":
                        names["story"].save("story.session")
                    if name == "verify_receipt":
                        made = self.model.generate("The cat", n_predict=3, receipt=True)
                        list(made)
                        Path("answer.json").write_text(made.result.receipt)
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(" ".join(found[1].split()), names)
                    n += 1
        self.assertGreater(n, 15)
        names["story"].close()


if __name__ == "__main__":
    unittest.main()
