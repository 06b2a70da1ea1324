"""The model that ships (models/fable.bin). In: raw texts. Out: clean splits, a vocabulary, checkpoints, a Hugging Face folder,
and figures about it. Only this room and tools/golden.py need PyTorch.
"""
