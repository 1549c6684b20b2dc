"""What every refusal has in common."""

import re

import pytest


def refuse(message, mixture, X, error=ValueError, method="fit", **given):
    """A method raises one sentence, and leaves no trace of a fit."""
    with pytest.raises(error, match=message) as refusal:
        getattr(mixture, method)(X, **given)
    if "scikit-learn" not in str(refusal.value):  # its advice on missing values is long
        sentence = re.sub(r" Got .* instead\.$", "", str(refusal.value))
        assert len(re.findall(r"\.(?=\s|$)", sentence)) <= 1
        assert "\n" not in sentence
    assert vars(mixture).keys() == mixture.get_params(deep=False).keys()
