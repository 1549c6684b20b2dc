"""Optional packages: the command that installs them, which errors and pages show, and their import."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# From a checkout, because there is no release. With the first release: 'pip install "skmanifold{extras}"'.
# The quotes are double so that bash, zsh, PowerShell and cmd all read the brackets as text.
INSTALL = 'pip install -e ".{extras}"'


def install_command(*extras: str) -> str:
    """The command that installs the package with extras.

    Parameters
    ----------
    *extras : str
        Names of optional dependencies in ``pyproject.toml``, such as "arviz".

    Returns
    -------
    command : str
        The command, which is the same for every shell.
    """
    return INSTALL.format(extras=f"[{','.join(extras)}]" if extras else "")


def optional_module(name: str, whom: str, extra: str) -> Any:
    """A module of an optional package; without it an ImportError says who needs it, and how it is installed.

    Parameters
    ----------
    name : str
        Name of the module, whose package has the same name on PyPI with hyphens in place of underscores.
    whom : str
        What needs the package.
    extra : str
        Name of the optional dependencies that contain the package.

    Returns
    -------
    module : module
        The imported module.

    Raises
    ------
    ImportError
        If the module cannot be imported.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0].replace("_", "-")
        raise ImportError(f"{whom} needs {package}: {install_command(extra)}") from error
