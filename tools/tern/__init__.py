"""The Python side of tern: models of other projects become weights files (convert), and the golden tests (testing) and the
model that ships (training) are made here. In: files, and options that a script in tools/ has parsed. Out: files.

errors.py   the one error that a person sees
weights/    the weights file: key blocks, tiles, writer, reader
convert/    from a foreign model to a weights file
testing/    what the golden tests and the check scripts share
training/   the model that ships
library.py  libtern.so through ctypes
programs.py ./run and ./quantize as processes

A room uses itself and the rooms above it in this list, and so do the rooms inside convert/.
"""
