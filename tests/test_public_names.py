"""What a package offers is listed, typed and described."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from checkout import PACKAGES, run_python


@pytest.mark.parametrize("name", PACKAGES)
def test_package_says_that_it_is_typed(name: str) -> None:
    module = importlib.import_module(name)
    assert (Path(module.__file__ or "").parent / "py.typed").is_file()


@pytest.mark.parametrize("name", PACKAGES)
def test_list_of_names_is_sorted_and_true(name: str) -> None:
    module = importlib.import_module(name)
    assert "__version__" in module.__all__
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for public in module.__all__:
        assert hasattr(module, public), f"{name}.{public} is listed, but not there"


def undescribed(module_name: str) -> list[str]:
    module = importlib.import_module(module_name)
    missing = [] if module.__doc__ else [module_name]
    for name in module.__all__:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        missing += [] if inspect.getdoc(value) else [f"{module_name}.{name}"]
        if not inspect.isclass(value) or issubclass(value, BaseException):
            continue
        for member_name, member in vars(value).items():
            described = inspect.isroutine(member) or isinstance(member, property)
            if described and not member_name.startswith("_") and not inspect.getdoc(member):
                missing.append(f"{module_name}.{name}.{member_name}")
    return missing


@pytest.mark.parametrize("name", PACKAGES)
def test_everything_public_has_a_docstring(name: str) -> None:
    assert undescribed(name) == []


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_lists_what_is_offered(name: str) -> None:
    module = importlib.import_module(name)
    listed = [public for public in dir(module) if not public.startswith("__")]
    modules = {"scx_train": ["lightning", "torch"], "pyscx": ["tokenize"]}.get(name, [])
    offered = {public for public in module.__all__ if not public.startswith("__")}
    assert set(listed) == offered | set(modules)


@pytest.mark.parametrize(
    ("package", "name", "near"),
    [
        ("scx_core", "opn", "'open'"),
        ("scx_core", "experiment_", "'Experiment'"),
        ("scx_train", "TrainingDataSet", "'TrainingDataset'"),
        ("scx_tokenize", "rank_token", "'rank_tokens'"),
        ("cellucid_prepare", "Check", "'check'"),
        ("pyscx", "tokenise", "'tokenize'"),
    ],
)
def test_a_name_that_is_not_there_is_told_near_ones(package: str, name: str, near: str) -> None:
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=rf"^{package} \S+ has no '{name}'; .*{near}") as told:
        getattr(module, name)
    assert told.value.name == name


def test_a_module_that_nobody_imported_is_told() -> None:
    code = "import scx_train\ntry: scx_train.torch\nexcept AttributeError as error: print(error)"
    said = run_python(code).stdout
    assert "scx_train.torch is a module: `import scx_train.torch`" in said
