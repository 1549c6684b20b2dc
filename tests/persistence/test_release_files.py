"""Files that releases wrote load, answer as they did, and their streams continue as they would have."""

import json

import pytest

from ._release_files import DATA, differences, write

NAMES = ["StochasticLDA-esca-stream", "directions"]


@pytest.mark.filterwarnings("ignore:EM stopped after")
def test_files_of_all_releases_are_read():
    assert {path.name: differences(path) for path in DATA.glob("*") if differences(path)} == {}


def test_files_are_written_once_and_other_answers_are_found(tmp_path):
    folder = tmp_path / "0.1.0"
    write(folder, NAMES)
    assert {path.name for path in folder.iterdir()} == {"answers.json", *(f"{name}.npz" for name in NAMES)}
    assert differences(folder) == []
    with pytest.raises(FileExistsError):
        write(folder, NAMES)
    expected = json.loads((folder / "answers.json").read_text())
    expected["directions"][0]["score"] += 1e-3
    (folder / "answers.json").write_text(json.dumps(expected))
    (folder / f"{NAMES[0]}.npz").unlink()
    assert differences(folder) == NAMES
