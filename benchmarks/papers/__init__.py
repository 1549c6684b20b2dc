"""The experiments of the five papers; `python -m benchmarks.papers` runs them.

Each module is one figure or table. It has `cases(quick)`, the settings of its runs as flat dictionaries, `run(**case)`,
which returns what a run measured as one dictionary or a list of them, `show(rows)`, which shows tables, and, if there
is a figure, `draw(rows)`, which returns it. The first line of its docstring is the title.

A module may have `LATER_CASES`, functions of the rows measured so far and of `quick` that return further settings with
the same names. Each is called when all earlier runs are done, for example after a search, to run the best settings.
"""
