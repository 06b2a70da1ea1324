"""What the golden tests and the check scripts share. In: a golden test's text file, a seed, or a model of transformers. Out:
toy and golden models, hard strings, test vocabularies, probes: the same bytes every time, as C makes them in tests/support.
"""
