"""A model as programs and notebooks use it: text and tokens, generation, logits, what happens inside."""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence as Several
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from . import batch, chat, hidden, programs, score
from .activations import ActivationCache
from .errors import USAGE, ConvertError
from .generate import Generation, Result, one
from .library import Engine, Observation
from .look import Look
from .options import Options, check_names, token_ids
from .receipt import Verdict, verify
from .sequence import Sequence
from .structs import ADD_SPECIAL, COPY, LOCK, MTP, PARSE_SPECIAL, TYPES
from .values import U32, callback as called, encoded, path as named, text, texts, whole

Prompt = str | Several[int]  # a text, or token ids as they are
VIEWS = ("atlas", "lens", "why", "surprise")
LOADS = {"map": 0, "copy": COPY, "lock": LOCK}
OPTIONS = {"--hooks": "names_filter", "--layers": "layers", "--head": "head", "--stage": "stage", "--why": "token"}  # of ./look: as here
TOO_LARGE = re.compile(r"capture\.npz would have (\d+ MiB)")


def _spelled(ids: list[int]) -> str:
    """Ids as ./look takes them, in one argument, which the system limits."""
    text = ",".join(map(str, ids))
    if len(text) >= 1 << 17:
        raise ConvertError(f"the prompt has {len(ids)} tokens, too many for ./look; take at most 20000", USAGE)
    return text


@dataclass(frozen=True)
class Info:
    """What a model is; tern.h says more of each (struct tern_model_info). `content_id` names the weights: files with the same id give the
    same bits."""

    n_layers: int
    dim: int
    vocab: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden: int
    max_seq: int
    window: int
    n_params: int
    file_bytes: int
    token_bytes: int
    content_id: str
    type: str
    name: str
    source: str
    licence: str
    converter: str
    cpu: str
    n_threads: int
    threads_why: str
    bos: int
    has_chat: bool
    is_sealed: bool
    has_mtp: bool


class Model:
    """A model and the memory to evaluate texts of up to n_ctx tokens (0: as many as the model was made for, reduced to fit in
    half the memory). Whatever goes wrong is a tern.Error with the engine's sentence.

        with tern.Model("models/fable.bin") as model:
            for piece in model.generate("The cat sat", n_predict=30):
                print(piece, end="", flush=True)

    n_batch: rows of one step (0: 512). n_seqs: sequences, of which each call uses one or more and each Sequence holds one. cache_type: f16,
    f32 or q8, what keys and values are rounded to. n_threads: 0 means the number of CPU cores you may use. cpu: a kernel target; all give
    the same bits. load: "map" the file, "copy" it into memory, or "lock" the mapped file in memory. mtp: with the layer that guesses
    tokens, for generate(mtp=4). fingerprint: hash every row of logits, for `fingerprint`.

    One call at a time may use a model; open it a second time for a second thread. Ctrl-C ends any call. A model that was opened before
    os.fork cannot be used in the child.

    `n_layers`, `vocab`, `n_ctx`: of the model and its context.
    """

    def __init__(
        self, path: str | Path, *, n_ctx: int = 0, n_batch: int = 0, n_seqs: int = 1, cache_type: str = "f16", n_threads: int = 0,
        cpu: str | None = None, load: str = "map", mtp: bool = False, fingerprint: bool = False,
    ):  # fmt: skip
        if load not in LOADS:
            raise ConvertError(f"load: {load!r} is not one of {', '.join(LOADS)}", USAGE)
        path = named("path", path)
        numbers = {name: whole(name, n, 0, U32) for name, n in (("n_ctx", n_ctx), ("n_batch", n_batch))}
        cpu = None if cpu is None else text("cpu", cpu).decode() or None
        library = programs.library()
        self._engine = Engine(
            library, path, numbers["n_ctx"], cpu=cpu, n_threads=whole("n_threads", n_threads, 0, 2**31 - 1), cache_type=cache_type,
            n_batch=numbers["n_batch"], n_seqs=whole("n_seqs", n_seqs, 1, U32), load_how=LOADS[load] | (MTP if mtp else 0), fingerprint=bool(fingerprint),
        )  # fmt: skip
        self.n_layers, self.vocab, self.n_ctx = self._engine.info.n_layers, self._engine.info.vocab, self._engine.n_ctx
        self._fingerprints, self._template = fingerprint, None  # ...: none is in use
        self._program = [library.parent / "look", path.resolve(), "--quiet", "--cache-type", cache_type]
        self._program += ["--threads", n_threads] * bool(n_threads) + ["--cpu", cpu] * bool(cpu)

    @classmethod
    def get(
        cls, name: str, out: str | Path | None = None, *, type: str | None = None, revision: str | None = None, **how: Any
    ) -> "Model":
        """A model of the Hugging Face hub by its name (owner/model, and perhaps :TYPE of a GGUF file), as tools/get.py gets it:
        downloaded, every byte checked, converted, quantized to `type` or what suits this machine, and checked again. A file that is there
        already is opened. out: the weights file; by default MODEL-TYPE.bin in this folder. how: as for Model.

        HF_TOKEN, HF_ENDPOINT and HF_HOME hold. Says what it does on standard output. tern.Error where the hub has no such model, the
        model is not supported, or a package is missing. Example: tern.Model.get("Qwen/Qwen3-0.6B", n_ctx=4096)
        """
        try:
            from .convert import hub, job  # noqa: F401  job.get needs it
        except ImportError as e:
            raise ConvertError(f"Model.get needs more packages than numpy ({e}): pip install tern-engine has them", USAGE) from None
        if type is not None and type not in TYPES:
            raise ConvertError(f"type: {type!r} is not one of {', '.join(TYPES)}", USAGE)
        encoded("name", name)
        where = None if out is None else str(named("out", out))
        if revision is not None:
            text("revision", revision)
        file = job.found(name, where, (type,) if type else ("q8", "q4c")) if where or not revision else None
        if not file:
            file, _ = job.get(f"{name}@{revision}" if revision else name, where, type)
        return cls(file, **how)

    def close(self) -> None:
        """Ends what it is doing and frees its memory, except for views of it (copy=False), which keep it until they are gone. A look at
        this model keeps its page, but computes no more arrays."""
        self._engine.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __reduce__(self):
        raise ConvertError("a model cannot be copied, pickled or sent to another process; open it again there", USAGE)

    @property
    def info(self) -> Info:
        """What the model is. Example: model.info.n_params"""
        _, raw = self._engine.model, self._engine.info
        values = {name: getattr(raw, name) for name in Info.__dataclass_fields__}
        values |= {name: value.decode(errors="replace") for name, value in values.items() if isinstance(value, bytes)}
        flags = {name: bool(values[name]) for name in ("has_chat", "is_sealed", "has_mtp")}
        return Info(**values | flags | {"type": raw.type_name, "content_id": f"{raw.content_id:016x}"})

    @property
    def fingerprint(self) -> str:
        """16 digits: a hash of the position and the logits of every row of logits so far, as ./run --fingerprint prints it. Equal bits have
        equal fingerprints. For models that were opened with fingerprint=True."""
        if not self._fingerprints:
            raise ConvertError("open the model with fingerprint=True", USAGE)
        return f"{self._engine.lib.tern_fingerprint(self._engine.context, None):016x}"

    def check(self) -> None:
        """Verifies the checksum of every tensor. Reads the whole file. tern.Error names the first that is damaged."""
        self._engine.check()

    def verify_receipt(self, receipt: str | bytes) -> Verdict:
        """Proves or refutes that this model gave the answer of a receipt: evaluates it once, several times as fast as it was made. A text
        that is no receipt, or is of another model, raises tern.Error. Example: model.verify_receipt(open("answer.json").read()).holds"""
        text = receipt.encode() if isinstance(receipt, str) else receipt
        return self._engine.run(lambda: verify(self._engine, text))

    # ---- text and tokens ----

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of a text, with BOS where the model's tokenizer adds it. With `special`, special tokens spelled out in the text become
        their ids. Example: model.tokenize("The cat")"""
        return self._engine.encode(encoded("the text", text), ADD_SPECIAL | (PARSE_SPECIAL if special else 0))

    def detokenize(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of token ids; special tokens such as BOS appear only if asked for. Example: model.detokenize([317, 261, 1099])"""
        return self._engine.decode(token_ids(self._engine, ids, "ids"), special).decode(errors="replace")

    def _ids(self, prompt: Prompt, name: str = "the prompt") -> list[int]:
        """The ids of a prompt; an empty one is BOS, if the model has one."""
        _ = self._engine.model  # it is open
        ids = self._engine.encode(encoded(name, prompt)) if isinstance(prompt, str) else token_ids(self._engine, prompt, name)
        bos = self._engine.info.bos
        if not ids and bos < 0:
            raise ConvertError(f"{name} has no tokens", USAGE)
        return ids or [bos]

    def _more_ids(self, prompt: Prompt, is_first: bool) -> list[int]:
        """The ids of what follows in a sequence."""
        if is_first or not isinstance(prompt, str):
            return self._ids(prompt) if is_first else token_ids(self._engine, prompt)
        return self._engine.encode(encoded("the prompt", prompt), 0)

    # ---- generation ----

    @overload
    def generate(self, prompt: Prompt, **options: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Several[Prompt], **options: Any) -> list[Result]: ...
    def generate(self, prompt, **options):
        """Goes on with a text. Returns an iterator over pieces of text, whose `result` has everything at the end; of a list of prompts,
        a list of Results, made as one batch, each with the bits that it has alone.

        options: those of tern_generate_params and tern_sampler_params in tern.h, under their names:
          n_predict=-1   at most so many tokens; -1: to an end token or a full context
          stop           a string or several that end the text; they are not passed on
          ignore_end     go on after end tokens
          temperature, top_k, top_p, min_p, typical_p, top_n_sigma, xtc_probability, xtc_threshold, repeat_penalty, repeat_last_n,
          frequency_penalty, presence_penalty, dry_multiplier, dry_base, dry_allowed_length, dry_last_n, dry_breakers, mirostat,
          mirostat_tau, mirostat_eta; by default what the model file states, and else tern's
          seed           of the random numbers; by default another one each time, which the result states
          bias           {token: value} that is added to its logit; -inf: never this token
          order          of the samplers: "penalties;top_k;temperature"
          shift, keep=4  go on when the context is full, keeping so many tokens of the beginning
          json=True, json_schema (a dict, a text, or a pydantic class), regex, grammar (GBNF), choice (a list of texts), or constraint (a
                         tern.Constraint)   what the text must be; nothing else can be written, and the reason is "complete" at its end.
                         A thought before an answer of `chat` is free. compact=True: JSON without blanks; format="annotate": the
                         schema's formats are not enforced; json_schema_lax=True: what cannot be enforced is listed in result.left_out
                         instead of refused; constraint_budget=64: MiB that it may take; no_force=True: choose every token, also where
                         only one continuation is left
          lookup, draft (a Model), draft_max, mtp   guess tokens: faster on some texts, and the same bits
          logits_all     compute the logits of every token of the prompt, for `fingerprint`
          receipt=True   result.receipt is a text with which verify_receipt proves the answer, on any machine; there is none after a shift
          on_token(token, logits f32 [vocab], or None where it was forced), on_prompt(done, total)   called in the thread of the engine.
                         What they return does not matter; to end the text, stop reading the iterator and close it
        A list of prompts takes no shift, guesses, callbacks and receipt.

        Example: "".join(model.generate("The cat sat", n_predict=30, temperature=0))
        """
        chosen = Options(self._engine, options)
        several = isinstance(prompt, Several | np.ndarray) and not isinstance(prompt, str | bytes | bytearray) and getattr(prompt, "ndim", 1)
        if not several or (len(prompt) and not isinstance(prompt[0], str | Several | np.ndarray)):
            return Generation(one(self._engine, chosen, self._ids(prompt)))
        return batch.generate(self._engine, [self._ids(p, f"prompt {i}") for i, p in enumerate(prompt)], chosen)

    def chat(
        self, messages: Several[Mapping[str, Any]], think: bool | None = None, *, template: str | None = None, **options: Any
    ) -> chat.Chat:
        """Answers the last message. Returns an iterator over pieces of text, each with a `kind`: "answer", "thought" or "mark"; `result` has
        `answer`, `thoughts` and `message`, which is to be appended to the messages for the next turn.

        messages: at most one "system" first, then "user" and "assistant" in turns. think: whether to think first; None: as the template
        does by default. template: the name of a built-in one, in place of the model's. options: those of generate.

        Example: "".join(model.chat([{"role": "user", "content": "Hello"}], template="chatml", n_predict=20))
        """
        if template != self._template:
            self._template = ...
            chat.use(self._engine, template)
            self._template = template
        return chat.begin(self._engine, messages, think, options)

    def sequence(self) -> Sequence:
        """An empty text to feed, cut, copy and save. Example: with model.sequence() as story: story.feed("Once")"""
        return Sequence(self._engine, self._more_ids)

    # ---- what it computes ----

    def logits(self, prompt: Prompt, *, last: int | None = None, copy: bool = True) -> np.ndarray:
        """f32 [n, vocab]: row i rates each token as the one after token i. `last`: only of so many tokens at the end. copy=False gives a
        read-only view of the engine's memory, at most 32 rows: it keeps that memory, even when the model is closed, and the next step of
        the model overwrites it. Example: model.logits("The cat sat")[-1].argmax()"""
        ids = self._ids(prompt)
        rows = self._engine.logits(ids, last=None if last is None else whole("last", last, 1, len(ids)), copy=copy)
        self._engine.check_numbers()
        return rows

    def logprobs(self, prompt: Prompt, *, last: int | None = None) -> np.ndarray:
        """f64 [n - 1]: the natural logarithm of the probability of each token after the first, or of the `last` ones. Their bits are exact,
        too. Example: model.logprobs("The cat sat").sum()"""
        ids = self._ids(prompt)
        if len(ids) < 2:
            raise ConvertError(f"the prompt has {len(ids)} token; a logprob needs one before it", USAGE)
        return score.logprobs(self._engine, ids, whole("last", len(ids) - 1 if last is None else last, 1, len(ids) - 1))[0]

    def hidden(self, prompt: Prompt, layer: int | None = None) -> np.ndarray:
        """f32 [n, dim]: the stream after a layer, from 0 on (-1: the last one); by default what the head reads, after the final norm.
        Example: model.hidden("The cat sat", layer=2)"""
        return hidden.states(self._engine, self._ids(prompt), layer)

    def embed(self, text: str | Several[str], *, pooling: str = "mean", normalize: bool = True) -> np.ndarray:
        """f32 [dim], or [n, dim] of a list: the mean of hidden() over the tokens, or its last row; with length 1 if normalized.
        Example: model.embed(["a cat", "a dog"])"""
        if isinstance(text, str):
            return hidden.embed(self._engine, self._ids(text), pooling, normalize)
        if not isinstance(text, Several | np.ndarray) or isinstance(text, bytes | bytearray):
            raise ConvertError(f"{text!r:.80} is neither a text nor a list of texts", USAGE)
        rows = [hidden.embed(self._engine, self._ids(encoded(f"text {i}", one).decode()), pooling, normalize) for i, one in enumerate(text)]
        return np.stack(rows) if rows else np.empty((0, self._engine.info.dim), np.float32)

    def observe(self, prompt: Prompt, callback: Callable[[Observation], None]) -> None:
        """Evaluates a prompt; the callback gets what every step of every layer gives (tern_observe in tern_lab.h says which), as long as
        it runs. Example: model.observe("The cat", lambda o: print(o.layer, o.operation, o.values.shape))"""
        self._engine.observe(self._ids(prompt), set(), called("callback", callback))

    def run_with_cache(
        self, prompt: Prompt, names_filter: str | Iterable[str] | Callable[[str], bool] | None = None
    ) -> tuple[np.ndarray, ActivationCache]:
        """(logits f32 [1, n, vocab], what happened inside by TransformerLens' names); see ActivationCache for names and shapes.

        names_filter: the arrays to keep, by name (a star stands for any characters), several names, or a function of the name that
        says whether to. None keeps all: some 10 * n_layers * n * (dim + heads * n) floats. At most 4 GiB; ./look --capture writes
        more to a file.
        """
        ids = self._ids(prompt)
        if callable(names_filter):  # a capture of one token tells the names
            names_filter = [name for name in self._capture(ids[:1], "*") if name != "tokens" and names_filter(name)]
        names = [name.decode() for name in texts("names_filter", names_filter or "*" if isinstance(names_filter, str | None) else names_filter)]
        if not names:
            raise ConvertError("names_filter chooses no array", USAGE)
        arrays = self._capture(ids, ",".join(names))
        tokens = arrays.pop("tokens")
        return self._engine.logits(ids)[None], ActivationCache(arrays, tokens, self.n_layers)

    def _capture(self, ids: list[int], hooks: str) -> dict[str, np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "capture.npz")
            self._look("--prompt-ids", _spelled(ids), "--capture", file, "--hooks", hooks)
            with np.load(file) as arrays:
                return dict(arrays)

    def _look(self, *options) -> None:
        """Runs the program look, which writes into a folder that goes away. What it says of its options, it says of ours."""
        try:
            programs.call([*self._program, *options], must_clean_up=False)
        except ConvertError as e:
            said = str(e)
            if size := TOO_LARGE.search(said):
                said = f"the arrays would have {size[1]}, more than 4 GiB: choose fewer by names_filter, or write them with ./look --capture"
            for option, name in OPTIONS.items():
                said = said.replace(option, name)
            raise ConvertError(said, e.code) from None

    # ---- what people see ----

    def look(
        self, prompt: Prompt, view: str = "atlas", *, layers: Iterable[int] | None = None, head: tuple[int, int] | None = None,
        stage: str | None = None, token: str = "", height: int = 640,
    ) -> Look:  # fmt: skip
        """A page that a notebook shows, `height` pixels high, and its numbers as arrays (see Look).

        view: atlas     the attention of every head, of `layers` only, or of one `head` (layer, head); `stage` as in Look.attention
              lens      what each layer would say next
              why       what each part of the model adds to the logit of `token`, by default the most probable one
              surprise  the bits that each token of a text takes
        """
        if view not in VIEWS:
            raise ConvertError(f"{view!r} is no view: there are {', '.join(VIEWS)}", USAGE)
        whole("height", height, 1, U32)
        if layers is not None and (isinstance(layers, str) or not isinstance(layers, Iterable)):
            raise ConvertError(f"layers: {layers!r} is no list of layers", USAGE)
        layers = None if layers is None else [whole("layers", layer, 0, U32) for layer in layers]
        if head is not None:
            if not isinstance(head, Several) or len(head) != 2:
                raise ConvertError(f"head: {head!r} is not a pair of layer and head, as in (2, 0)", USAGE)
            head = tuple(whole("head", n, 0, U32) for n in head)
        stage = None if stage is None else text("stage", stage).decode()
        token = text("token", token).decode()
        options = {"--head": head and f"{head[0]}.{head[1]}", "--layers": layers and ",".join(map(str, layers)), "--stage": stage}
        chosen = [part for option, value in options.items() if value for part in (option, value)]
        if view == "surprise" and not isinstance(prompt, str):
            raise ConvertError("the view surprise needs a text, not token ids", USAGE)
        ids = self._ids(prompt)
        with tempfile.TemporaryDirectory() as folder:
            page, file = Path(folder, "page.html"), Path(folder, "text.txt")
            source = ["--prompt-ids", _spelled(ids)]
            if view == "surprise":
                file.write_bytes(prompt.encode())
                source = []
            job = {"atlas": [], "lens": ["--lens"], "why": ["--why", token], "surprise": ["--surprise", file]}[view]
            self._look(*source, *job, *chosen, "--output", page)
            return Look(self._engine, ids, page.read_bytes().decode(), layers, height)
