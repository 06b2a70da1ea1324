"""Files of other projects. In: the path of a safetensors or GGUF file. Out: its keys, and its tensors as matrices that hand
out some rows at a time, in the form that weights/tiles.py takes. Every length that a file states is checked against its size.
"""
