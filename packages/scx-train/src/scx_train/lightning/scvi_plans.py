"""Whether a trainer's model takes the batches that a data module was built to give."""

from __future__ import annotations

from typing import Any

SEMI_SUPERVISED = "SCANVI"
PLAN_OF_PAIRS = "SemiSupervisedTrainingPlan"


def refuse_other_model(trainer: Any, model_name: str) -> None:
    """RuntimeError where a training plan of scvi-tools would get what it cannot learn from.

    Pairs of batches fail deep inside a model that takes one batch at a time, and a model that
    learns from labels would silently learn none from single batches.
    """
    plan = getattr(trainer, "lightning_module", None)
    kinds = {each.__name__ for each in type(plan).__mro__ if each.__module__.startswith("scvi.")}
    if not kinds:
        return  # a module of the user's own may take either
    gives_pairs = model_name == SEMI_SUPERVISED
    if (PLAN_OF_PAIRS in kinds) == gives_pairs:
        return
    model = type(getattr(plan, "module", plan)).__name__
    if gives_pairs:
        raise RuntimeError(
            f"this ScxDataModule was built with model_name={model_name!r} and gives pairs of "
            f"batches, but the model that is trained ({model}) takes one batch at a time: build "
            "another one, without model_name"
        )
    raise RuntimeError(
        f"this ScxDataModule was built for model_name={model_name!r} and gives no batches of "
        f"labeled cells, but the model that is trained ({model}) learns from labels: build another "
        f"one with model_name={SEMI_SUPERVISED!r} and labels_key"
    )
