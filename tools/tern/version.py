"""The version of tern, for the package and for the files that the converter writes."""

VERSION = "0.1.0"  # TERN_VERSION of include/tern.h
