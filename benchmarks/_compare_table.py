"""Results of comparisons as data that JSON can keep, and as tables in Markdown with every winner in bold."""

from __future__ import annotations

import re

import numpy as np

from benchmarks._compare_turns import OURS

HEAD_OF_SUMMARY = ("comparison", "measure", "compared methods", "winner", "advantage")
UNDECIDED = "undecided"


def results_of(contest, outcomes):
    """What a comparison found: for every method and measure the median, least and largest value of the runs."""
    values = {o.contestant: np.array(o.turns, float) for o in outcomes if o.turns}
    first = values.get(outcomes[0].contestant)
    rows = []
    for outcome in outcomes:
        who, own = outcome.contestant, values.get(outcome.contestant)
        is_compared = own is not None and outcome is not outcomes[0]
        rows.append(
            {
                "method": who.name,
                "package": who.package,
                "reason": outcome.reason,
                "values": None if own is None else [_statistics(column) for column in own.T],
                "advantages": [
                    _statistics(_gains(first, own, j, measure)) if is_compared and measure.better else None
                    for j, measure in enumerate(contest.measures)
                ],
            }
        )
    measures = [measure._asdict() for measure in contest.measures]
    found = {"title": contest.title, "data": contest.data, "note": contest.note, "measures": measures, "rows": rows}
    by_name = {who.name: own for who, own in values.items()}
    found["best"] = [
        _best_of_sides(found, j, by_name, measure) for j, measure in enumerate(contest.measures) if measure.better
    ]
    return found


def _best_of_sides(found, j, values, measure):
    """The best of ours and of the others by one measure, and the advantage of ours run by run."""
    sides = [
        [row for row in found["rows"] if row["values"] and (row["package"] == OURS) == is_ours]
        for is_ours in (True, False)
    ]
    ours, other = (_winners(side, j, found["measures"][j])[0] if side else None for side in sides)
    advantage = None
    if ours and other:
        advantage = _statistics(_gains(values[ours], values[other], j, measure))
    return {"measure": j, "ours": ours, "other": other, "advantage": advantage}


def contest_table(found):
    """A row for each method; for each measure that decides, the advantage of the first row."""
    head = ["method"]
    for measure in found["measures"]:
        head.append(measure["name"])
        if measure["better"]:
            head.append("advantage of the first row")
    rows = [head]
    done = [row for row in found["rows"] if row["values"]]
    for row in found["rows"]:
        cells = [row["method"]]
        if row["values"] is None:
            rows.append(cells + [row["reason"]] + [""] * (len(head) - 2))
            continue
        for j, measure in enumerate(found["measures"]):
            text = _spread(row["values"][j], measure["digits"])
            is_best = measure["better"] and row["method"] in _winners(done, j, measure)
            cells.append(f"**{text}**" if is_best else text)
            if measure["better"]:
                cells.append(_spread_of_advantage(row["advantages"][j], measure))
        rows.append(cells)
    return markdown(rows)


def summary_rows(found):
    """For each measure that decides: the best of ours, the best of the others, and which of them won."""
    rows = []
    for best in found["best"]:
        measure = found["measures"][best["measure"]]
        if best["advantage"] is None:
            missing = sorted({row["package"] for row in found["rows"] if row["package"] != OURS})
            absent = f"{', '.join(missing)} not available" if missing else "no other"
            rows.append([found["title"], measure["name"], f"{_short(best['ours'])} / {absent}", "", ""])
            continue
        median, low, high = best["advantage"]
        level = 1.0 if measure["by"] == "ratio" else 0.0
        winner = "skmanifold" if median > level else "other"
        won = UNDECIDED if low <= level <= high else f"**{winner}**"
        advantage = _spread_of_advantage(best["advantage"], measure)
        methods = f"{_short(best['ours'])} / {_short(best['other'])}"
        rows.append([found["title"], measure["name"], methods, won, advantage])
    return rows


def _short(method):
    """A method's name without its settings."""
    return re.sub(r"\([^()]*=[^()]*\)", "", method)


def markdown(rows):
    """A table whose first row is the head."""
    head, *body = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def _statistics(values):
    return [float(np.median(values)), float(np.min(values)), float(np.max(values))]


def _winners(rows, j, measure):
    """Names of the best by median; several if they look the same."""
    sign = 1 if measure["better"] == "higher" else -1
    medians = {row["method"]: row["values"][j][0] for row in rows}
    best = max(medians.values(), key=lambda median: sign * median)
    shown = _number(best, measure["digits"])
    return [name for name, median in medians.items() if _number(median, measure["digits"]) == shown]


def _gains(ours, other, j, measure):
    """Run by run, how much better ours is: above 1 or above 0 if it is."""
    first, second = (ours, other) if measure.better == "higher" else (other, ours)
    return first[:, j] / second[:, j] if measure.by == "ratio" else first[:, j] - second[:, j]


def _spread_of_advantage(advantage, measure):
    if advantage is None:
        return ""
    return _spread(advantage, ".3g" if measure["by"] == "ratio" else "+" + measure["digits"])


def _spread(statistics, digits):
    middle, least, most = (_number(value, digits) for value in statistics)
    return middle if least == most else f"{middle} ({least} to {most})"


def _number(value, digits):
    """With three digits of precision, large numbers stay whole."""
    return f"{value:,.0f}" if digits.endswith("g") and abs(value) >= 100 else f"{value:{digits}}"
