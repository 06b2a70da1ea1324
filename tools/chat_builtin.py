#!/usr/bin/env python3
"""Writes src/text/chat_builtin.c, the chat templates that are built into the engine, from the templates in
tools/tern/convert/chat/templates. Usage: tools/chat_builtin.py (a few seconds)."""

import argparse

if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.split(" Usage")[0]).parse_args()
    from tern.convert.chat.builtin import c_source
    from tern.programs import ROOT

    (ROOT / "src" / "text" / "chat_builtin.c").write_text(c_source())
