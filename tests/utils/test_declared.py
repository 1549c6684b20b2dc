"""Annotations as conditions on saved attributes."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import pytest

from skmanifold.utils._conditions import Array, Integer, Length, Point, Unsatisfied, index
from skmanifold.utils._declared import Keyed, Lacking, Saved, check, saved_fields

Matrix = Annotated[np.ndarray, Array("float64", "K p", low=0)]
Vector = Annotated[np.ndarray, Array("float64", "K")]
T = TypeVar("T")


class Pair(NamedTuple, Generic[T]):
    first: Matrix
    second: T

    def _disagreement(self, sizes):
        return "has a first number above 9" if self.first[0, 0] > 9 else None


class Holder:
    p: Annotated[int, Integer(1, size="p")]
    pair: Saved[Pair[Vector]]
    labels: Lacking[Annotated[np.ndarray, index("n", below="K")]]
    unsaved: int

    def __init__(self, **attributes):
        vars(self).update(attributes)


ONES, TWO = np.ones((2, 3)), np.zeros(2)


@pytest.mark.parametrize(
    ("hint", "value", "told"),
    [
        (int, 3, None),
        (int, -1, "is -1"),
        (int, True, "is a bool, not a whole number"),
        (int, 2.0, "is a float, not a whole number"),
        (float, 1, None),
        (float, np.nan, "is NaN"),
        (bool, 1, "is 1, not one of False, True"),
        (str, 1, "is a int and not a str"),
        (np.uint64, 1, "is a int and not a uint64"),
        (Any, object(), None),
        (int | None, None, None),
        (int | None, "a", "is a str, not a whole number"),
        (Literal["a", "b"], "c", "is 'c', not one of 'a', 'b'"),
        (Literal["a", "b"] | float, 0.5, None),
        (list[int], [1, -1], r"x\[1\] is -1"),
        (list[int], (1,), "is a tuple, not a list"),
        (Annotated[list[int], Length(2)], [1], "has the length 1"),
        (tuple[int, ...], (1, 2, 3), None),
        (tuple[int, float], (1,), "has the length 1"),
        (Annotated[int, Integer(low=2)], 1, "is 1, not from 2"),
        (Matrix | Vector, TWO, None),
        (Matrix | Vector, -ONES, "contains a negative number"),
        (Matrix | Vector, np.zeros((1, 1, 1)), "has 3 dimensions, not 2"),
        (Annotated[tuple[Annotated[np.ndarray, Array("float64", "1 ...")]], Point("2 3")], (ONES,), "has 2 dimensions"),
        (Annotated[dict, Keyed(("a",), a=Matrix, b=Vector)], {"a": ONES, "b": TWO}, None),
        (
            Annotated[dict, Keyed(("a",), a=Matrix, b=Vector)],
            {"a": ONES, "b": np.zeros(3)},
            r"x\['b'\] has the length 3",
        ),
        (Annotated[dict, Keyed(("a",), a=Matrix)], {}, "lacks 'a'"),
        (Annotated[dict, Keyed(a=Matrix)], {"c": 1}, "has the unknown key 'c'"),
        (Pair, Pair(ONES, "anything"), None),
        (Pair[Vector], Pair(ONES, "anything"), "second is a str, not an array"),
        (Pair[Vector], Pair(ONES, np.zeros(3)), r"second has the length 3, but must have the length 2 \(K\)"),
        (Pair[Vector], Pair(10 * ONES, TWO), "x has a first number above 9"),
        (Pair, (ONES, TWO), "is a tuple and not a Pair"),
        (Holder, Holder(p=3, pair=Pair(ONES, TWO)), None),
        (Holder, Holder(p=4, pair=Pair(ONES, TWO)), r"x\.pair\.first has the length 3, but must .* 4 \(p\)"),
        (Holder, Holder(p=3), "lacks pair"),
        (Holder, Holder(p=3, pair=Pair(ONES, TWO), unsaved=1), "has the undeclared attribute 'unsaved'"),
    ],
)
def test_a_value_satisfies_its_annotation_or_is_refused(hint, value, told):
    if told is None:
        check(hint, value, "x", {})
    else:
        with pytest.raises(Unsatisfied, match=told):
            check(hint, value, "x", {})


def test_sizes_are_known_where_they_are_declared():
    check(Holder, Holder(p=3, pair=Pair(ONES, TWO), labels=np.array([0, 5])), "x", {})  # K is that of the pair alone
    with pytest.raises(Unsatisfied, match="contains 5, but must be less than 2"):
        check(Holder, Holder(p=3, pair=Pair(ONES, TWO), labels=np.array([0, 5])), "x", {"K": 2})


class Heir(Holder):
    extra: Saved[int]
    p: Annotated[int, Integer(1, size="q")]


def test_subclasses_inherit_and_replace_declarations():
    assert list(saved_fields(Holder)) == ["p", "pair", "labels"]
    assert list(saved_fields(Heir)) == ["p", "pair", "labels", "extra"]
    assert saved_fields(Heir)["p"] == Annotated[int, Integer(1, size="q")]
