"""What contests gave as tables in Markdown: medians and ranges, ours beside each peer, and every winner in bold."""

from __future__ import annotations

import numpy as np
from _compare_turns import OURS

HEAD_OF_SUMMARY = ("contest", "measure", "best of ours", "best peer", "ours against it", "won by")


def contest_table(contest, outcomes):
    """A row for each contestant; for each measure that is a contest, how ours, the first, stands beside it."""
    head = ["method"]
    for measure in contest.measures:
        head.append(measure.name)
        if measure.better:
            head.append("ours against it")
    values = _values(outcomes)
    rows = [head]
    for outcome in outcomes:
        cells = [outcome.contestant.name]
        if outcome.turns is None:
            rows.append(cells + [outcome.reason] + [""] * (len(head) - 2))
            continue
        own = values[outcome.contestant]
        for j, measure in enumerate(contest.measures):
            text = _spread(own[:, j], measure.digits)
            best = measure.better and outcome.contestant in _winners(values, j, measure)
            cells.append(f"**{text}**" if best else text)
            if measure.better:
                is_first = outcome is outcomes[0]
                cells.append("" if is_first else _against(values[outcomes[0].contestant], own, j, measure))
        rows.append(cells)
    return markdown(rows)


def summary_rows(contest, outcomes):
    """For each measure that is a contest: the best of ours, the best peer, and which of them won."""
    values, rows = _values(outcomes), []
    for j, measure in enumerate(contest.measures):
        if not measure.better:
            continue
        sides = [
            {who: own for who, own in values.items() if (who.package == OURS) == is_ours} for is_ours in (True, False)
        ]
        if not all(sides):
            missing = sorted({o.contestant.package for o in outcomes if o.contestant.package != OURS})
            absent = f"{', '.join(missing)} not there" if missing else "none has this task"
            rows.append([contest.title, measure.name, _winners(sides[0], j, measure)[0].name, absent, "", ""])
            continue
        ours, peer = (_winners(side, j, measure)[0] for side in sides)
        gains = _gains(values[ours], values[peer], j, measure)
        level = 1.0 if measure.by == "ratio" else 0.0
        winner = ours if np.median(gains) > level else peer
        won = "level: both won turns, or neither" if gains.min() <= level <= gains.max() else f"**{winner.name}**"
        rows.append([contest.title, measure.name, ours.name, peer.name, _spread_of_gains(gains, measure), won])
    return rows


def markdown(rows):
    head, *body = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def _values(outcomes):
    return {outcome.contestant: np.array(outcome.turns, float) for outcome in outcomes if outcome.turns}


def _winners(values, j, measure):
    """The best by median; several if they look the same."""
    sign = 1 if measure.better == "higher" else -1
    medians = {who: float(np.median(own[:, j])) for who, own in values.items()}
    best = max(medians.values(), key=lambda median: sign * median)
    return [who for who, median in medians.items() if _number(median, measure.digits) == _number(best, measure.digits)]


def _gains(ours, other, j, measure):
    """Turn by turn, how much better ours is: above 1 or above 0 if it is."""
    first, second = (ours, other) if measure.better == "higher" else (other, ours)
    return first[:, j] / second[:, j] if measure.by == "ratio" else first[:, j] - second[:, j]


def _against(ours, other, j, measure):
    return _spread_of_gains(_gains(ours, other, j, measure), measure)


def _spread_of_gains(gains, measure):
    return _spread(gains, ".3g") if measure.by == "ratio" else _spread(gains, "+" + measure.digits)


def _spread(values, digits):
    middle, least, most = (_number(value, digits) for value in (np.median(values), np.min(values), np.max(values)))
    return middle if least == most else f"{middle} ({least} to {most})"


def _number(value, digits):
    """With three digits of precision, large numbers stay whole."""
    return f"{value:,.0f}" if digits.endswith("g") and abs(value) >= 100 else f"{value:{digits}}"
