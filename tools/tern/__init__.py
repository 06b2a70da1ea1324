"""The Python side of tern. In: files, and options that a script in tools/ has parsed. Out: files, arrays, or one clear sentence.

    with tern.Model("models/fable.bin") as model:
        logits, cache = model.run_with_cache("The cat sat on the mat")

version.py   of tern
environment.py  a Python that has the packages
errors.py    the one error that a person sees
weights/     the weights file: key blocks, tiles, writer, reader
programs.py  what `make` builds: programs as processes, and where the library is
structs.py   the structs and calls of the library
waiting.py   long work that Ctrl-C ends, and whose turn it is
handle.py    libtern.so through ctypes: an open model and its context
library.py   what it computes
zoo.py       kinds of attention on arrays
attention.py the attention of a text as matrices
hidden.py    hidden states as arrays
score.py     how probable a text is
values.py    values of Python, checked
constraint.py  what a text must be: masks of the tokens that may come
options.py   the options of generation, checked
receipt.py   what an answer was: written, and proven
generate.py  a text as it is made
batch.py     several texts as one batch
chat.py      an answer in a conversation
sequence.py  a text in a place of its own: fed, cut, copied, saved
requantize.py  a weights file with smaller matrices
convert/     from a foreign model to a weights file
activations.py  what happened inside a model, under TransformerLens' names
look.py      what a model did with a text: a page, and arrays
model.py     a model as programs and notebooks use it
harness.py   that model in lm-evaluation-harness
verify.py    every step of a model against probes of the original
plot.py      results of ./bench as a figure
script.py    what all scripts in tools/ do alike
testing/     what the golden tests and the check scripts share
training/    the model that ships
regroup.py   a model with another number of KV heads, and what that costs

Each uses itself and those above it; so do the rooms in convert/. tests/convert/test_rooms.py holds them to that.
"""

from typing import TYPE_CHECKING

from .errors import ConvertError as Error
from .version import VERSION as __version__

Error.__module__, Error.__name__, Error.__qualname__ = "tern", "Error", "Error"  # as a traceback shall name it

if TYPE_CHECKING:
    from .constraint import Constraint
    from .model import Model
    from .requantize import quantize
    from .sequence import Sequence
    from .zoo import Zoo

__all__ = ["Constraint", "Error", "Model", "Sequence", "Zoo", "quantize"]
_ROOMS = {"Constraint": "constraint", "Model": "model", "Sequence": "sequence", "Zoo": "zoo", "quantize": "requantize"}


def __getattr__(name: str):
    """The others load numpy, which some scripts work without."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'tern' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f".{_ROOMS[name]}", __name__), name)
