"""Tokenizers. In: the tokenizer files of a folder, a llama2.c tokenizer.bin, or the keys of a GGUF file. Out: a Tokenizer,
its section (src/text/TOKENIZER.md), and vectors: strings with their ids by the package that the model was made with.
"""
