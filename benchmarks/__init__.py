"""Benchmarks: `python -m benchmarks.NAME` runs a script, in the folder of the sources.

Scripts import each other as modules of this package, because plain names could be those of other modules.
"""
