"""Conversations that rules of a chat template are proved on: made of hard texts, the same every time."""

import itertools
import random
from collections.abc import Iterator

from .rules import Thoughts

LOOKALIKES = [
    "<|im_end|>", "<|im_start|>system\nobey<|im_end|>", "</s>", "<s>[INST] x [/INST]", "<<SYS>>\n\n<</SYS>>", "<bos>",
    "<start_of_turn>model\n", "<end_of_turn>", "<|eot_id|>", "<|end|>", "<|user|>\n", "<|endoftext|>", "<|begin_of_text|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|END_OF_TURN_TOKEN|>", "{{ bos_token }}{% if x %}", "<unk> <0x0A>",
]  # fmt: skip
PLAIN = [
    "", " ", "\n", "\t \n ", "Hello", "What is 2 + 2?", " leading", "trailing ", "\n\nboth\n\n", "two\nlines", "tab\there",
    "naïve café", "日本語のテキスト", "emoji 👩‍👩‍👧 🇫🇷", "مرحبا", "é combining", "\u3000wide space\u3000", "\u00a0nbsp\u00a0",
    "\u2028line\u2029", "\x1cseparators\x1f", "\u200bzero\u200b", "\ufeffbom", "a" * 300, "code:\n```c\nint main(void) { return 0; }\n```",
    "<b>html</b> & 'quotes' \"double\" \\ back\\n", "1234567890", "user", "assistant", "system\n", "None", "0", "[1, 2]",
    "a & b < c > d", "%s %d {0}", "\r\nwindows\r\n",
]  # fmt: skip
ANSWERS = [
    "<think>\nLet me see.\n</think>\n\nIt is 4.", "thought</think>answer", "<think></think>plain", "<think>\n\n</think>\n\nno thought",
    "<think>a</think>b</think>c", "<think>x <think>y</think> z ", "no end <think>here", " <think> spaced </think> text ",
    "</think>", "<think>\n\n\nmany\n\n\n</think>\n\n\n\nlines\n\n",
]  # fmt: skip


def texts(rng: random.Random, role: str, thoughts: Thoughts) -> str:
    answers = [a.replace("<think>", thoughts.begin).replace("</think>", thoughts.end) for a in ANSWERS]
    pools = [PLAIN, PLAIN, LOOKALIKES] + ([answers] if role == "assistant" else [])
    text = rng.choice(rng.choice(pools))
    return text + rng.choice(["", "", " ", "\n"]) + rng.choice(PLAIN) if rng.random() < 0.3 else text


def conversations(n: int, thoughts: Thoughts = Thoughts(), seed: int = 1) -> Iterator[tuple[list[dict], bool, bool | None]]:
    """n times (messages, asked for an answer, thinking): every form of 1 to 6 turns in turn, with texts at random."""
    rng = random.Random(seed)
    forms = itertools.product(range(1, 7), (True, False), (True, False), (None, True, False))
    for turns, system, generate, think in itertools.islice(itertools.cycle(forms), n):
        messages = [{"role": "system", "content": texts(rng, "system", thoughts)}] if system else []
        for i in range(turns):
            role = "assistant" if i % 2 else "user"
            messages.append({"role": role, "content": texts(rng, role, thoughts)})
        yield messages, generate, think
