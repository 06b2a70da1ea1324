"""The Python side of tern. In: files, and options that a script in tools/ has parsed. Out: files, arrays, or one clear sentence.

    with tern.Model("models/fable.bin") as model:
        logits, cache = model.run_with_cache("The cat sat on the mat")

environment.py  a Python that has the packages
errors.py    the one error that a person sees
weights/     the weights file: key blocks, tiles, writer, reader
programs.py  what `make` builds: programs as processes, and where the library is
library.py   libtern.so through ctypes
activations.py  what happened inside a model, under TransformerLens' names
look.py      what a model did with a text: a page, and arrays
model.py     a model as notebooks use it
verify.py    every step of a model against probes of the original
plot.py      results of ./bench as a figure
convert/     from a foreign model to a weights file
testing/     what the golden tests and the check scripts share
training/    the model that ships
regroup.py   a model with another number of KV heads, and what that costs

Each uses itself and those above it; so do the rooms in convert/. tests/convert/test_rooms.py holds them to that.
"""

from typing import TYPE_CHECKING

from .errors import ConvertError as Error

if TYPE_CHECKING:
    from .library import Zoo
    from .model import Model

__all__ = ["Error", "Model", "Zoo"]


def __getattr__(name: str):
    """Model and Zoo load numpy, which some scripts work without."""
    if name == "Model":
        from .model import Model

        return Model
    if name == "Zoo":
        from .library import Zoo

        return Zoo
    raise AttributeError(f"module 'tern' has no attribute '{name}'")
