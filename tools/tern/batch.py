"""Several texts as one batch: each step evaluates the next token of every text, and beside them the prompts of those that join.

In:  an engine, prompts as ids, options. Out: a Result for each, in their order. Each text has the bits that it has alone.
"""

import ctypes
import time
from collections import deque

from .errors import INTERNAL, USAGE, ConvertError
from .generate import Result
from .library import Decoder, Engine
from .options import Options
from .structs import ROWS, WANTS_LOGITS, SamplerParams

ALONE = ("receipt", "shift", "lookup", "draft", "mtp", "on_token", "on_prompt")  # options of a single text


class Text:
    """One text in a sequence: what tern_generate does with it, step by step."""

    def __init__(self, engine: Engine, options: Options, ids: list[int], seq: int):
        self.engine, self.options, self.seq, self.n, self.n_prompt = engine, options, seq, len(ids), len(ids)
        self.tokens = (ctypes.c_int32 * (engine.n_ctx + 1))(*ids)  # and those that are chosen: the sampler's history
        self.result = Result(seed=options.sampler.seed, left_out=options.left_out)
        self.sampler = SamplerParams.from_buffer_copy(options.sampler)
        self.state = options.constraint and options.constraint.start()
        self.sampler.constraint = self.state and self.state.handle
        self.mu = ctypes.c_float(2 * self.sampler.mirostat_tau)
        self.sampler.mu = ctypes.pointer(self.mu)
        self.text, self.is_over, self.began = bytearray(), False, time.monotonic()
        self.decoder = Decoder(engine) if engine.has_text else None
        for token in ids if self.decoder else ():
            self.decoder("push", token)
        self.done = self._seq("reuse", self.tokens, 0 if options.params.logits_all else len(ids))
        self.result.n_reused, self.result.n_prompt = self.done, len(ids) - self.done

    def _seq(self, name: str, *arguments) -> int:
        return getattr(self.engine.lib, f"tern_seq_{name}")(self.engine.context, self.seq, *arguments)

    def add(self, rows: int, logits: int) -> tuple[int, int]:
        """Adds its next tokens to the batch, within `rows` and rows of `logits`; how many, and how many give logits."""
        n = min(rows, self.n - self.done)
        every = self.options.params.logits_all
        if every:
            n = min(n, logits)
        self._seq("expect", self.n_prompt if self.done < self.n_prompt else 0)
        last = self.done + n
        for i in range(self.done, last):
            self.engine.add(self.tokens[i], WANTS_LOGITS if every or i + 1 == self.n else 0, self.seq)
        self.done = last
        return n, n if every else int(last == self.n)

    def choose(self, row: int) -> None:
        """The next token, from a row of logits, and those that are forced behind it; then what ends the text."""
        lib, context, p, r = self.engine.lib, self.engine.context, self.options.params, self.result
        if not r.tokens:
            r.prompt_seconds = time.monotonic() - self.began
            if p.n_predict == 0 or (self.state and self.state.is_over):
                return self._end("complete" if self.state and self.state.is_over else "length")
            if self._force():
                return None
        token = lib.tern_sample(context, ctypes.byref(self.sampler), lib.tern_logits(context, row), self.tokens, self.n, self.n)
        if token < 0:
            self.state.mask()  # its budget may be gone
            raise ConvertError("the constraint allows no token, and the text is not finished: a dead end, which is a bug in tern", INTERNAL)
        self._take(token)
        self._force()

    def _force(self) -> int:
        """Takes the tokens that must come next; how many."""
        forced = self.state.forced() if self.state and not self.options.params.no_force and not self.is_over else []
        for i, token in enumerate(forced):
            if self.is_over:
                return i
            self._take(token)
            self.result.n_forced += 1
        return len(forced)

    def _take(self, token: int) -> None:
        """The token is the next one of the text."""
        p, r = self.options.params, self.result
        if self.state:
            self.state.accept(token)
        self.tokens[self.n] = token
        self.n += 1
        r.tokens.append(token)
        is_end = not p.ignore_end and self.engine.is_end(token)
        if self.decoder and not is_end:
            self.text += self.decoder("push", token)
        if self._cut():
            self._end("string")
        elif self.state and (is_end or self.state.is_over):
            self._end("complete")
        elif is_end:
            self._end("end")
        elif len(r.tokens) == p.n_predict:
            self._end("length")
        elif self.n > self.engine.n_ctx:
            self._end("context")

    def _cut(self) -> bool:
        """Cuts the text where a stop string begins."""
        at = [i for i in map(self.text.find, self.options.stop) if i >= 0]
        if at:
            del self.text[min(at) :]
        return bool(at)

    def _end(self, reason: str) -> None:
        r, self.is_over = self.result, True
        if self.decoder and reason != "string":
            self.text += self.decoder("finish")
            reason = "string" if self._cut() else reason
        r.reason, r.text, r.n_generated = reason, self.text.decode(errors="replace"), len(r.tokens)
        r.generate_seconds = time.monotonic() - self.began - r.prompt_seconds


def generate(engine: Engine, prompts: list[list[int]], options: Options) -> list[Result]:
    """The texts of all prompts; as many at a time as there are free sequences."""
    for name in ALONE:
        if options.given.get(name):
            raise ConvertError(f"{name} is for a single text, not for a list of prompts", USAGE)
    for i, ids in enumerate(prompts):
        if len(ids) > engine.n_ctx:
            raise ConvertError(f"prompt {i} has {len(ids)} tokens, the context holds {engine.n_ctx}: open the model with a larger n_ctx, or shorten it", USAGE)
    return engine.run(lambda: _all(engine, prompts, options)) if prompts else []


def _all(engine: Engine, prompts: list[list[int]], options: Options) -> list[Result]:
    seqs: list[int] = []
    try:
        while len(seqs) < min(ROWS, len(prompts), engine.n_batch) and (engine.free_seqs or not seqs):
            seqs.append(engine.take_seq())
        return _in_turns(engine, prompts, options, seqs)
    finally:
        for seq in seqs:
            engine.give_seq(seq)


def _in_turns(engine: Engine, prompts: list[list[int]], options: Options, seqs: list[int]) -> list[Result]:
    results: list[Result] = [Result() for _ in prompts]
    waiting, free, texts = deque(enumerate(prompts)), list(seqs), {}
    while waiting or texts:
        while waiting and free:
            i, ids = waiting.popleft()
            texts[i] = Text(engine, options, ids, free.pop(0))
            results[i] = texts[i].result
        _step(engine, list(texts.values()))
        for i, text in list(texts.items()):
            if text.is_over:
                free.append(texts.pop(i).seq)
    return results


def _step(engine: Engine, texts: list[Text]) -> None:
    """One batch: the texts that go on, then as much of the others' prompts as it holds."""
    rows, logits, at = engine.n_batch, ROWS, []
    for text in sorted(texts, key=lambda t: t.n - t.done > 1):
        if rows and logits:
            added, given = text.add(rows, logits)
            rows, logits = rows - added, logits - given
            if given and text.done == text.n:
                at.append((text, ROWS - logits - 1))
    engine.forward()
    engine.check_numbers()
    for text, row in at:
        text.choose(row)
