"""The weights file in Python (src/weights/FORMAT.md). In: section bodies, and tensors that hand out their tiles piece by piece;
or a path. Out: a file; or its sections and tensors as numpy arrays. Nothing here knows of other formats.
"""
