"""The models of the golden tests, family by family, and what to switch off in each: the quirks.

To add a family: one entry in golden_dense.py, golden_classic.py, golden_experts.py or golden_mixers.py, then
tools/golden.py NAME.
"""

from .golden_classic import CLASSIC
from .golden_dense import DENSE
from .golden_experts import EXPERTS
from .golden_mixers import MIXERS

FAMILIES = [*DENSE, *CLASSIC, *EXPERTS, *MIXERS]
