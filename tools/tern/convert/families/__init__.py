"""Families of models. In: the keys of a config, by the names that transformers or llama.cpp give them, and what the user has
set. Out: features in the words of src/weights/FORMAT.md, and for each tensor of ours the Places of its rows in the source.
"""
