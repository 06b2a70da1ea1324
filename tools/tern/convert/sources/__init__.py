"""Readers of foreign models. In: a Hugging Face directory, a GGUF file or a llama2.c checkpoint. Out: a Source: features,
matrices, tokenizer, the text of the chat template, and notes for the user.
"""
