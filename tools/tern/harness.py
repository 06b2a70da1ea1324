"""A model for EleutherAI's lm-evaluation-harness, and a launcher that knows it.

    python3 -m tern.harness run --model tern --model_args path=model.bin --tasks hellaswag

In:  the harness's requests. Out: sums of logprobs, and generated text. It follows the harness's own model for transformers (`hf`) in
what is encoded, cut and counted, so the same model gets the same scores.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any

try:
    from lm_eval import utils
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.api.model import TemplateLM
    from lm_eval.api.registry import register_model
    from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs
    from tqdm import tqdm
except ImportError as e:
    missing = f"{e}; run `pip install lm-eval` in this environment"
    if __name__ == "__main__":
        print(f"tern.harness: {missing}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(missing) from None

from .errors import USAGE, ConvertError
from .model import Model
from .score import logprobs
from .structs import ADD_SPECIAL, CHAT_GENERATE, PARSE_SPECIAL
from .values import U32

# What transformers' generate does if a task does not say otherwise: penalties of the model's own see the whole text.
DEFAULTS = {"temperature": 0, "top_k": 50, "top_p": 1.0, "min_p": 0.0, "repeat_last_n": U32, "seed": 0}
SPELLINGS = {"repetition_penalty": "repeat_penalty"}


@register_model("tern")
class TernLM(TemplateLM):
    """path: a weights file (also: `pretrained`). max_length: tokens of context and answer, by default as many as the model was made for.
    batch_size: answers that are generated at the same time; it changes no bit. cache_type, n_threads, cpu, load: as tern.Model takes
    them; the cache is f32 by default here, which rounds nothing. device: the harness names one by itself; it is always the CPU."""

    def __init__(
        self, path: str | None = None, *, pretrained: str | None = None, max_length: int = 0, max_gen_toks: int = 256, batch_size: int | str = 1,
        max_batch_size: int | None = None, device: str | None = None, cache_type: str = "f32", **options: Any,
    ):  # fmt: skip
        super().__init__()
        path = path or pretrained
        if not path:
            raise ConvertError("--model_args names no weights file; write path=model.bin", USAGE)
        n = max_batch_size or 8 if str(batch_size).startswith("auto") else int(batch_size)
        self.model = Model(path, n_ctx=max_length, n_seqs=n, cache_type=cache_type, **options)
        self.max_length, self.max_gen_toks, self.batch_size = self.model.n_ctx, max_gen_toks, n
        self._engine = self.model._engine

    # ---- tokens ----

    @property
    def eot_token_id(self) -> int:
        """The first token that ends a text."""
        return next((i for i in range(self.model.vocab) if self._engine.is_end(i)), -1)

    @property
    def prefix_token_id(self) -> int:
        """What stands before a text without context."""
        bos = self.model.info.bos
        return bos if bos >= 0 else self.eot_token_id

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """Ids of a text in which special tokens may be spelled out, with BOS where the tokenizer adds it and the text lacks it."""
        begin = self.model.detokenize([self.prefix_token_id], special=True)
        add = not string.startswith(begin) if add_special_tokens is None else add_special_tokens
        return self._engine.encode(string.encode(), PARSE_SPECIAL | (ADD_SPECIAL if add else 0))

    # ---- how probable a text is ----

    def _loglikelihood_tokens(self, requests: list, disable_tqdm: bool = False, **_: Any) -> list[tuple[float, bool]]:
        out: list = [None] * len(requests)
        # neighbours begin alike: what they share is evaluated once
        order = sorted(range(len(requests)), key=lambda i: requests[i][1] + requests[i][2])
        for i in tqdm(order, desc="Running loglikelihood requests", disable=disable_tqdm):
            texts, context, continuation = requests[i]
            ids = (context + continuation)[-(self.max_length + 1) :]
            if len(continuation) >= len(ids):
                raise ConvertError(f"a continuation has {len(continuation)} tokens, the context holds {self.max_length}", USAGE)
            values, best = logprobs(self._engine, ids, len(continuation), reuse=True)
            out[i] = (float(values.sum()), bool(best.all()))
            if texts is not None:
                self.cache_hook.add_partial("loglikelihood", texts, out[i])
        return out

    def loglikelihood_rolling(self, requests: list, disable_tqdm: bool = False) -> list[float]:
        out = []
        for (text,) in tqdm([r.args for r in requests], desc="Running rolling requests", disable=disable_tqdm):
            windows = utils.get_rolling_token_windows(self.tok_encode(text), self.prefix_token_id, self.max_length, 1)
            parts = [(None, *utils.make_disjoint_window(window)) for window in windows]
            out.append(sum(value for value, _ in self._loglikelihood_tokens(parts, disable_tqdm=True)))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), out[-1])
        return out

    # ---- answers ----

    def generate_until(self, requests: list, disable_tqdm: bool = False) -> list[str]:
        out: list = [None] * len(requests)
        with tqdm(total=len(requests), desc="Running generate_until requests", disable=disable_tqdm) as bar:
            for group in _alike(requests):
                for at in range(0, len(group), self.batch_size):
                    some = group[at : at + self.batch_size]
                    for i, text in zip(some, self._answers([requests[i].args[0] for i in some], requests[some[0]].args[1])):
                        out[i] = text
                        self.cache_hook.add_partial("generate_until", requests[i].args, text)
                    bar.update(len(some))
        return out

    def _answers(self, contexts: list[str], given: dict) -> list[str]:
        kwargs = normalize_gen_kwargs(given, self.max_gen_toks)
        stop = handle_stop_sequences(kwargs.pop("until", None), eos=None)
        n = kwargs.pop("max_gen_toks")
        if n >= self.max_length:
            raise ConvertError(f"max_gen_toks: {n} tokens leave no room for a prompt in a context of {self.max_length}", USAGE)
        options = DEFAULTS | {SPELLINGS.get(name, name): value for name, value in kwargs.items() if name not in ("do_sample", "use_cache")}
        prompts = [self.tok_encode(text)[n - self.max_length :] for text in contexts]
        return [result.text for result in self.model.generate(prompts, n_predict=n, stop=stop, **options)]

    # ---- conversations ----

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self._engine.chat_text(chat_history, CHAT_GENERATE if add_generation_prompt else 0).decode()

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        info = self._engine.chat_info()
        return info.name.decode() if chat_template and info else None

    @property
    def tokenizer_name(self) -> str:
        return f"{self.model.info.name}-{self.model.info.content_id}"

    def get_model_info(self) -> dict:
        """What the harness writes beside its results."""
        info = self.model.info
        return {"model_num_parameters": info.n_params, "model_dtype": info.type, "model_sha": info.content_id}


def _alike(requests: Iterable) -> list[list[int]]:
    """Requests with the same options, in their order."""
    groups: dict[str, list[int]] = {}
    for i, request in enumerate(requests):
        groups.setdefault(repr(request.args[1]), []).append(i)
    return list(groups.values())


def main() -> None:
    try:
        cli_evaluate()
    except ConvertError as e:
        print(f"tern.harness: {e}", file=sys.stderr)
        sys.exit(e.code)
    except KeyboardInterrupt:
        os._exit(130)


if __name__ == "__main__":
    main()
