"""The command that installs the package with an extra: errors and pages show this one."""

from __future__ import annotations

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
