"""How much memory there is, and what is refused because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scx_core import _memory as memory


def test_requests_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_bytes", lambda: 10**9)
    memory.check_room(10**9, what="top_k: k=5", advice="take less")
    message = r"top_k: k=5 takes 1\.5 GB, but this process can have 1\.0 GB .*: take less"
    with pytest.raises(ValueError, match=message):
        memory.check_room(15 * 10**8, what="top_k: k=5", advice="take less")
    monkeypatch.setattr(memory, "memory_bytes", lambda: None)
    memory.check_room(10**30, what="top_k: k=5", advice="take less")


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "5000\n"}, [5000]),
        ("0::/\n", {"memory.max": "7000\n"}, [7000]),
        (
            "4:cpu,memory:/x\n1:cpu:/y\n0::/\n",
            {"memory/x/memory.limit_in_bytes": "10", "memory/memory.limit_in_bytes": "9"},
            [10, 9],
        ),
        ("0::/a\n", {}, []),
    ],
)
def test_limits_of_groups(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    groups: str,
    files: dict[str, str],
    expected: list[int],
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = tmp_path / "cgroup"
    own.write_text(groups)
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "OWN_GROUPS", own)
    assert list(memory._cgroup_limits()) == expected


def test_this_machine_has_some() -> None:
    found = memory.memory_bytes()
    assert found is None or found > 2**27
