"""The experiments of the five papers; `python -m benchmarks.papers` runs them.

Each module is one figure or table. It has `cases(quick)`, the settings of its runs as flat dictionaries, `run(**case)`,
which returns what a run measured as one dictionary or a list of them, `show(rows)`, which shows tables, and, if there
is a figure, `draw(rows)`, which returns it. The first line of its docstring is the title.
"""
