"""Prepared pages of pyLDAvis that a browser shows as they are, whatever the words; imported only with pyLDAvis."""

from __future__ import annotations

import pyLDAvis


class PreparedData(pyLDAvis.PreparedData):
    """Data of a page whose JSON can be part of a script in HTML."""

    def to_json(self) -> str:
        """The data as JSON without "<", which only occurs in strings and could end the script, as in ``</script>``."""
        return super().to_json().replace("<", r"\u003c")
