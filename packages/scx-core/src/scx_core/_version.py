"""The version of scx-core, and the check with which its companions pin it."""

from __future__ import annotations

import os

__version__ = "0.1.0"


def require_version(package: str, version: str) -> None:
    """Refuse to load a companion package beside an scx-core of another version.

    The packages are released together and share private interfaces, so that only equal versions
    fit. Installers see to it by the pinned requirement; this check catches what they cannot, such
    as an older checkout that comes first on ``sys.path``.

    Parameters
    ----------
    package
        Distribution name of the companion, as in ``pip install <package>``.
    version
        The companion's own version.

    Raises
    ------
    ImportError
        When ``version`` is not that of the loaded scx-core; names both and the command that
        installs a matching pair.
    """
    if version == __version__:
        return
    raise ImportError(
        f"{package} {version} needs scx-core {version}, but scx-core {__version__} is loaded from "
        f"{os.path.dirname(__file__)}. Install a matching pair with: "
        f'python -m pip install "{package}=={version}" "scx-core=={version}"',
        name="scx_core",
        path=__file__,
    )
