"""Errors of libraries about damaged files become one sentence; other errors remain."""

import errno
import zlib

import pytest

from skmanifold.datasets._files import refuse_damaged


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            zlib.error("Error -3\nwhile\0decompressing"),
            "x.npz cannot be read as a table (error: Error -3 while decompress",
        ),
        (KeyError("shape"), "x.npz cannot be read as a table (KeyError: 'shape')."),
        (ValueError(), "x.npz cannot be read as a table (ValueError)."),
        (OSError("Unable to read data."), "x.npz cannot be read as a table (OSError: Unable to read data)."),
        (OSError(errno.EINVAL, "Invalid argument"), "x.npz cannot be read as a table (OSError: [Errno 22] Invalid"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x.npz"), "x.npz cannot be read as a table (UnicodeDecodeError:"),
        (MemoryError("x" * 1000), "x.npz cannot be read as a table (MemoryError: xxx"),
    ],
)
def test_errors_of_libraries_become_one_sentence(error, sentence):
    with pytest.raises(ValueError, match=r"^x\.npz") as caught, refuse_damaged("x.npz", "a table"):
        raise error
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(").")
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x.npz has no rows."),
        FileNotFoundError(errno.ENOENT, "No such file"),
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.ENOSPC, "No space left on device"),
        ImportError("no pyarrow"),
        KeyboardInterrupt(),
    ],
)
def test_other_errors_remain(error):
    with pytest.raises(type(error)) as caught, refuse_damaged("x.npz", "a table"):
        raise error
    assert caught.value is error


def test_errors_of_a_loop_over_a_generator_remain():
    def rows():
        with refuse_damaged("x.npz", "a table"):
            yield from range(3)

    def use():
        for _ in rows():
            raise KeyError("of the loop")

    with pytest.raises(KeyError, match="of the loop"):
        use()
