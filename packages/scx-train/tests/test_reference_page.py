"""What is promised of the data sets, sentence by sentence, and the tests that hold it.

The keys say the promises in short; each names tests of this folder, which a test finds.
"""

from __future__ import annotations

import pytest

from promised_tests import functions_in

TRAINING_DATASET = {
    "each loop over the data set is one epoch, and shards come in a new order": [
        "test_order.py::test_every_row_once_in_a_new_order_each_epoch",
    ],
    "batches are normalised to 10,000 and logged unless told otherwise": [
        "test_values.py::test_default_is_normalised_and_logged",
        "test_arguments.py::test_defaults",
    ],
    "counts come as they are with both transforms off": [
        "test_values.py::test_stored_types",
        "test_combinations.py::test_epochs",
    ],
    "the path is a str or a path": ["test_arguments.py::test_paths"],
    "batch_size is 1024, and goes down where memory is too little": [
        "test_arguments.py::test_defaults",
        "test_memory.py::test_what_gives_way_first",
    ],
    "no panel means all genes": ["test_combinations.py::test_epochs"],
    "a panel with a gene that is not there is refused at construction": [
        "test_arguments.py::test_panels_that_are_refused",
    ],
    "columns are ascending whatever the order of the panel, duplicates make batches narrower": [
        "test_arguments.py::test_panel_is_sorted_and_deduplicated_with_a_warning",
    ],
    "a panel out of order warns, and np.unique tells the columns": [
        "test_arguments.py::test_panel_is_sorted_and_deduplicated_with_a_warning",
        "test_arguments.py::test_ascending_panels_of_any_integer_dtype_pass_silently",
    ],
    "obs_columns is empty, and names what batches carry": [
        "test_arguments.py::test_defaults",
        "test_obs.py::test_columns_keep_the_order_asked_for_and_come_once",
        "test_obs.py::test_missing_column_names_those_there_are",
    ],
    "normalize scales to target_sum, over all genes also under a panel": [
        "test_values.py::test_counts",
        "test_values.py::test_scanpy_normalises_over_all_genes_then_the_panel_is_cut",
    ],
    "log1p follows normalize": ["test_combinations.py::test_epochs"],
    "target_sum is 10,000": [
        "test_arguments.py::test_defaults",
        "test_values.py::test_counts",
    ],
    "pflog takes precedence over normalize and log1p": [
        "test_pflog.py::test_it_takes_precedence",
        "test_combinations.py::test_epochs",
    ],
    "pflog_alpha pins the overdispersion, or it is estimated once from the counts": [
        "test_pflog.py::test_alpha_is_estimated_by_moments",
        "test_pflog.py::test_values",
        "test_combinations.py::test_epochs",
        "test_multimodal.py::test_an_overdispersion_is_estimated_from_the_cells_of_the_modality",
    ],
    "shard_group_size is 8, the shards that are mixed and read together": [
        "test_arguments.py::test_defaults",
        "test_order.py::test_how_far_a_group_mixes_a_file_sorted_by_a_label",
        "test_user_cases_epochs.py::test_how_a_file_sorted_by_a_label_is_mixed",
    ],
    "prefetch_batches is 4, the batches made ahead": [
        "test_arguments.py::test_defaults",
        "test_order.py::test_order_and_values_do_not_depend_on_threads_or_batches_ahead",
        "test_memory.py::test_report",
    ],
    "seed is 42, and with the epoch fixes the order": [
        "test_arguments.py::test_defaults",
        "test_order.py::test_order_equals_the_documented_shuffle",
    ],
    "the limit on memory leaves out the map, which is reported": [
        "test_memory.py::test_report",
        "test_user_cases_memory.py::test_a_file_larger_than_what_the_process_may_allocate",
        "test_user_cases_memory.py::test_a_file_larger_than_the_memory_of_its_group",
    ],
    "without a limit it follows what is asked for, from 512 to 4096 MB": [
        "test_memory.py::test_without_a_limit_it_adapts",
    ],
    "a limit reduces prefetch_batches to 2, then shard_group_size to 1, then batch_size to 64": [
        "test_memory.py::test_what_gives_way_first",
        "test_memory.py::test_settings_below_the_least_stay",
    ],
    "what does not fit even then sets budget_exceeded and warns": [
        "test_memory.py::test_a_limit_that_cannot_be_met_warns",
    ],
    "modality names one of several, the first by the alphabet with a warning, or means nothing": [
        "test_sources.py::test_a_modality_streams_its_own_cells",
        "test_sources.py::test_without_a_modality_the_first_by_the_alphabet_with_a_warning",
        "test_sources.py::test_modality_is_ignored_without_modalities",
    ],
    "n_obs, n_vars and n_output_genes": ["test_arguments.py::test_properties_and_repr"],
    "effective_batch_size is what is left of batch_size": [
        "test_memory.py::test_what_gives_way_first",
    ],
    "close ends all threads": [
        "test_lifecycle.py::test_no_thread_before_the_first_epoch_and_none_after_close",
    ],
    "close can be called again and is not final": [
        "test_lifecycle.py::test_close_is_not_final",
    ],
    "close does not wait for a decode in another thread for ever, nor stall it": [
        "test_lifecycle.py::test_closing_from_another_thread",
        "test_pipeline.py::test_a_wait_ends_when_another_thread_closes",
        "test_pipeline.py::test_what_a_stuck_thread_reads_from_is_kept",
    ],
    "dropping the data set does what close does": [
        "test_lifecycle.py::test_data_sets_that_are_dropped_leave_nothing",
    ],
    "memory_budget has six parts by purpose and what was tuned": ["test_memory.py::test_report"],
    "what a process uses is what memory_budget says": [
        "test_memory.py::test_what_is_used_is_what_is_said",
        "torch/test_user_cases_workers.py::test_private_memory_of_workers_together",
    ],
    "a data set may be closed by a finalizer before the process ends": [
        "test_processes.py::test_a_finalizer_closes_before_the_interpreter_ends",
        "test_processes.py::test_leaving_the_interpreter_in_the_middle_of_an_epoch",
    ],
    "closed and repr never raise": ["test_lifecycle.py::test_what_was_never_built_has_a_repr"],
    "closed is true from close until the next epoch": [
        "test_lifecycle.py::test_close_is_not_final",
        "test_processes.py::test_a_forked_child_is_told_what_to_do",
    ],
    "X is float32, cells by genes": [
        "test_values.py::test_counts",
        "test_user_cases_epochs.py::test_a_batch_of_one_cell",
    ],
    "cell_indices are the rows of the file as int64": [
        "test_order.py::test_rows_and_values_and_obs_belong_together",
    ],
    "categoricals are int32 codes and labels": [
        "test_obs.py::test_categorical_keeps_order_gaps_and_unused_categories",
        "test_obs.py::test_labels_that_are_numbers_become_text",
        "test_obs.py::test_text_becomes_a_categorical_with_sorted_labels",
    ],
    "numbers are int64 or float64, booleans and gaps among them": [
        "test_obs.py::test_whole_numbers_become_int64",
        "test_obs.py::test_floats_become_float64",
        "test_obs.py::test_booleans_become_int64",
        "test_obs.py::test_gaps_make_floats_with_nan",
        "test_obs.py::test_nullable_without_gaps_is_whole",
    ],
    "shards are permuted from seed and epoch and cut into groups": [
        "test_order.py::test_order_equals_the_documented_shuffle",
        "test_combinations.py::test_epochs",
    ],
    "rows are shuffled within a group and cut into batches": [
        "test_order.py::test_order_equals_the_documented_shuffle",
        "test_order.py::test_batch_size_only_cuts_the_order",
        "test_order.py::test_all_batches_are_full_but_the_last",
        "test_user_cases_epochs.py::test_rows_that_a_batch_of_8_leaves_over",
    ],
    "seed and epoch are chained, so that no two pairs have one order by a sum": [
        "test_order.py::test_seeds_that_a_sum_would_alias_differ",
    ],
    "the order is the same for any number of threads and any limit on memory": [
        "test_order.py::test_order_and_values_do_not_depend_on_threads_or_batches_ahead",
        "test_memory.py::test_the_order_does_not_depend_on_the_limit",
    ],
}

MULTIMODAL = {
    "batches have a matrix for each modality, row for row the same cells": [
        "test_multimodal.py::test_rows_of_all_matrices_are_the_same_cells",
    ],
    "one order, that of a single matrix": [
        "test_multimodal.py::test_the_order_is_that_of_a_single_matrix",
    ],
    "panels and transforms by modality": [
        "test_multimodal.py::test_panels_by_modality",
        "test_multimodal.py::test_transforms_by_modality",
        "test_multimodal.py::test_layouts_by_modality",
    ],
    "tuples instead of dicts": ["test_multimodal.py::test_tuples"],
    "modalities whose shards differ are refused": ["test_multimodal.py::test_shards_that_differ"],
    "unknown modalities are refused": ["test_multimodal.py::test_refusals"],
    "close is not final, closed and repr never raise": [
        "test_multimodal.py::test_life_is_that_of_a_training_dataset",
    ],
    "one budget": ["test_multimodal.py::test_one_budget_for_all"],
    "a forked child is told what to do": ["test_multimodal.py::test_another_process"],
}

SCVI = {
    "the data module has the arguments and defaults of the data set": [
        "torch/test_lightning.py::test_properties_and_defaults",
        "torch/test_lightning.py::test_options_reach_the_data_set",
    ],
    "it needs Lightning, and says so": [
        "torch/test_lightning.py::test_without_lightning_the_message_says_what_to_install",
        "torch/test_lightning.py::test_pytorch_lightning_will_do",
    ],
    "models are built from the registry, and what asks for a manager is told so": [
        "torch/test_scvi.py::test_what_stands_for_a_manager_of_an_anndata",
        "torch/test_scvi.py::test_results_are_in_file_order_and_those_of_the_anndata",
    ],
    "a model of counts warns of values that are none": [
        "torch/test_scvi.py::test_a_model_of_counts_warns_of_other_values",
    ],
    "n_obs, n_vars and n_output_genes": [
        "torch/test_lightning.py::test_properties_and_defaults",
    ],
    "train_dataloader takes batches as they come": [
        "torch/test_lightning.py::test_properties_and_defaults",
        "torch/test_lightning.py::test_training_and_validation_share_no_cell",
    ],
    "val_dataloader is None without validation cells, and validates with them": [
        "torch/test_lightning.py::test_properties_and_defaults",
        "torch/test_lightning.py::test_training_and_validation_share_no_cell",
    ],
    "scvi-tools trains from it as from the AnnData": [
        "torch/test_scvi.py::test_the_loss_is_that_of_training_from_the_anndata",
    ],
    "also models that learn from labels": [
        "torch/test_scvi.py::test_pairs_of_batches",
        "torch/test_scvi.py::test_a_model_that_learns_from_labels",
    ],
    "pyscx has it by its name": ["torch/test_scvi.py::test_the_name_of_pyscx"],
}

FORKS = {
    "data sets that are built in the worker work with every start method": [
        "test_processes.py::test_workers_of_every_kind",
        "torch/test_start_methods.py::test_workers",
    ],
    "also after the parent used the library": [
        "test_processes.py::test_a_child_builds_its_own_after_the_parent_streamed",
        "torch/test_start_methods.py::test_workers",
    ],
    "a data set of the parent raises in a worker, and says to use num_workers=0": [
        "test_processes.py::test_a_forked_child_is_told_what_to_do",
        "torch/test_start_methods.py::test_workers",
    ],
    "a data set cannot be pickled": [
        "test_processes.py::test_sending_a_data_set_to_another_process_says_what_to_do",
    ],
    "a wrapper that builds in every worker gives every cell as often as there are workers, "
    "and epoch 0 again: ours does not": [
        "torch/test_user_cases_workers.py::test_a_wrapper_of_ones_own_needs_a_share_and_an_epoch",
        "torch/test_user_cases_workers.py::test_64_rows_in_shards_of_8",
        "torch/test_iterable.py::test_epochs_are_those_of_the_data_set",
    ],
}

CASES = {
    "64 rows, workers 0 to 3, rebuilt for the second epoch": [
        "torch/test_user_cases_workers.py::test_64_rows_in_shards_of_8",
        "test_user_cases_epochs.py::test_64_rows_in_shards_of_8_rebuilt_for_the_second_epoch",
    ],
    "101 rows and 4 ranks, 3 shards and 4 ranks": [
        "test_user_cases_epochs.py::test_four_ranks_with_batches_of_8",
    ],
    "rows left over at the end of the file and of a group": [
        "test_user_cases_epochs.py::test_rows_that_a_batch_of_8_leaves_over",
    ],
    "a file sorted by a label": [
        "test_user_cases_epochs.py::test_how_a_file_sorted_by_a_label_is_mixed",
    ],
    "batches of one cell": ["test_user_cases_epochs.py::test_a_batch_of_one_cell"],
    "Lightning with several processes": [
        "torch/test_lightning.py::test_two_processes_have_equal_numbers_of_batches",
    ],
    "memory of 1, 2 and 4 workers": [
        "torch/test_user_cases_workers.py::test_private_memory_of_workers_together",
    ],
    "a file larger than memory": [
        "test_user_cases_memory.py::test_a_file_larger_than_what_the_process_may_allocate",
        "test_user_cases_memory.py::test_a_file_larger_than_the_memory_of_its_group",
    ],
    "every start method, built here and there, 0 to 2 workers": [
        "torch/test_start_methods.py::test_workers",
    ],
    "a file that is replaced under a reader": [
        "test_user_cases_memory.py::test_a_writer_replaces_the_file_of_a_running_epoch",
    ],
    "a file that is cut off": [
        "test_user_cases_memory.py::test_a_file_cut_by_4_kb_is_refused_at_once",
    ],
    "fifty epochs that end early": ["test_lifecycle.py::test_early_exits_leak_nothing"],
    "going on in the middle of an epoch, also of a rank and with workers": [
        "test_resume.py::test_going_on_in_the_middle",
        "torch/test_resuming.py::test_a_stateful_loader_goes_on",
        "torch/test_resuming.py::test_a_stateful_loader_of_each_rank_goes_on",
    ],
}

INDEX_PLAN = {
    "the arguments have the documented defaults": ["test_index_plan_memory.py::test_defaults"],
    "a panel with a gene that is not there is refused at construction": [
        "test_index_plan_errors.py::test_arguments",
    ],
    "a panel out of order warns, columns are ascending, duplicates make batches narrower": [
        "test_index_plan_values.py::test_panel_is_sorted_and_said_so",
    ],
    "values are normalised and logged by default, as those of training": [
        "test_index_plan_values.py::test_values",
        "test_index_plan_values.py::test_defaults_are_those_of_the_training_data_set",
    ],
    "obs and obs_paired carry obs_columns in the forms that training has": [
        "test_index_plan_values.py::test_obs_of_both_sides",
    ],
    "pairs[i] are the rows of X[i] and X_paired[i], a list of tuples": [
        "test_index_plan_values.py::test_values",
    ],
    "sort_by_shard reorders by the lower shard of a pair; without it the order is the caller's": [
        "test_index_plan_values.py::test_pairs_of_equal_shards_keep_their_order",
        "test_index_plan_values.py::test_plans_in_their_own_order",
    ],
    "lookahead gives way to 1, then cache_shards to 1, then it is a RuntimeError": [
        "test_index_plan_memory.py::test_lookahead_gives_way",
        "test_index_plan_memory.py::test_lookahead_before_cache_shards",
        "test_index_plan_memory.py::test_too_little_is_an_error_that_says_what_fits",
    ],
    "lookahead 0 reads nothing ahead": [
        "test_plan_engine.py::test_lookahead_0_pulls_on_demand",
        "test_index_plan_memory.py::test_lookahead_0_stays_0",
        "test_index_plan_lifecycle.py::test_counters",
    ],
    "max_plan_size is what the budget counts with, and is kept to": [
        "test_index_plan_memory.py::test_report",
        "test_index_plan_errors.py::test_plans_that_are_too_wide",
    ],
    "plans may be any iterable, of lists, tuples and arrays of any integer dtype": [
        "test_plan_engine.py::test_every_plan_once_and_in_order",
        "test_index_plan_values.py::test_forms_of_a_plan",
    ],
    "plans are pulled lazily, at most lookahead ahead": [
        "test_plan_engine.py::test_nothing_is_pulled_before_the_first_batch_is_asked_for",
        "test_plan_engine.py::test_no_more_plans_are_pulled_than_lookahead",
    ],
    "a generator that waits for the batch before makes progress, and others' plans go on": [
        "test_plan_engine.py::test_a_generator_that_waits_for_each_batch_makes_progress",
        "test_plan_engine.py::test_what_was_produced_is_decoded_while_the_generator_waits",
        "test_index_plan_lifecycle.py::test_hard_negatives_with_a_rendezvous",
    ],
    "plans are pulled without waiting for the consumer": [
        "test_plan_engine.py::test_plans_are_pulled_in_the_background",
    ],
    "the end of the plans ends the batches": [
        "test_index_plan_lifecycle.py::test_any_lookahead_gives_the_same"
    ],
    "other exceptions are a RuntimeError with their cause": [
        "test_plan_engine.py::test_what_a_generator_raises",
        "test_index_plan_errors.py::test_an_exception_of_the_generator",
    ],
    "empty plans are skipped": ["test_index_plan_values.py::test_empty_plans_are_skipped"],
    "rows out of range are an IndexError at their plan, missing columns a KeyError at once": [
        "test_index_plan_errors.py::test_rows_out_of_range",
        "test_index_plan_errors.py::test_a_column_that_is_missing_names_those_there_are",
    ],
    "forks are told about num_workers=0": [
        "test_index_plan_lifecycle.py::test_a_forked_process_is_told_what_to_do",
        "torch/test_plan_iterable.py::test_start_methods",
    ],
    "mapping strategies are sources of plans": ["torch/test_cell_load.py::test_strategy"],
    "the budget reports its six keys, what was tuned, and max_blocking_threads": [
        "test_index_plan_memory.py::test_report",
    ],
    "what the budget says is what is used": [
        "test_index_plan_memory.py::test_what_is_used_is_what_is_said",
    ],
    "suggested_cache_shards counts the shards of a plan": [
        "test_index_plan_lifecycle.py::test_suggested_cache_shards",
    ],
    "close is final, closed and repr never raise": [
        "test_index_plan_lifecycle.py::test_close_is_final",
        "test_index_plan_lifecycle.py::test_names",
    ],
    "iterators outlive their data set": [
        "test_index_plan_lifecycle.py::test_iterators_outlive_the_data_set",
    ],
    "dropping does what close does": [
        "test_index_plan_lifecycle.py::test_nothing_is_left_of_early_exits",
        "test_plan_engine.py::test_early_exits_close_the_generator",
        "test_index_plan_machine.py::test_random_lives",
    ],
    "metrics have both halves with all keys, also after the end": [
        "test_index_plan_lifecycle.py::test_counters",
    ],
    "scatter_block_index warns where no shard is cut into groups": [
        "test_index_plan_errors.py::test_groups_of_rows_that_are_not_there_warn",
    ],
}

PAGES = {
    "TrainingDataset": TRAINING_DATASET,
    "MultimodalTrainingDataset": MULTIMODAL,
    "IndexPlanDataset": INDEX_PLAN,
    "scvi-tools": SCVI,
    "forks": FORKS,
    "user cases": CASES,
}


@pytest.mark.parametrize(
    ("page", "promise"),
    [(page, promise) for page, promises in PAGES.items() for promise in promises],
    ids=lambda value: str(value),
)
def test_promise_has_tests(page: str, promise: str) -> None:
    for name in PAGES[page][promise]:
        file, _, test = name.partition("::")
        assert test.startswith("test_")
        assert test in functions_in(file), name
