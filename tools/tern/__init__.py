"""The Python side of tern. In: files, and options that a script in tools/ has parsed. Out: files, or one clear sentence.

errors.py    the one error that a person sees
weights/     the weights file: key blocks, tiles, writer, reader
programs.py  ./run and ./quantize as processes
library.py   libtern.so through ctypes
verify.py    every step of a model against probes of the original
plot.py      results of ./bench as a figure
regroup.py   a model with another number of KV heads, and what that costs
convert/     from a foreign model to a weights file
testing/     what the golden tests and the check scripts share
training/    the model that ships

Each uses itself and those above it; so do the rooms in convert/. tests/convert/test_rooms.py holds them to that.
"""
