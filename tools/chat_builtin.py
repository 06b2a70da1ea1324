#!/usr/bin/env python3
"""Writes src/text/chat_builtin.c, the chat templates that are built into the engine.

    tools/chat_builtin.py

Example: tools/chat_builtin.py && git diff src/text/chat_builtin.c

They come from tools/tern/convert/chat/templates. It takes a few seconds.
"""

import argparse

from tern import script

if __name__ == "__main__":
    script.begin("jinja2", "numpy", "tqdm", "xxhash")

from tern.convert.chat.builtin import c_source
from tern.programs import ROOT


def run(_: argparse.Namespace) -> None:
    (ROOT / "src" / "text" / "chat_builtin.c").write_text(c_source())


def main(arguments: list[str] | None = None) -> int:
    return script.guarded(script.parser("chat_builtin.py", __doc__), run, arguments)


if __name__ == "__main__":
    script.run(main)
