"""Where the promises about cell sets, collation, downsampling and neighbourhoods are tested.

As test_reference_page.py for the other data sets: each promise in its own words, and the tests that
hold it to its word. A test that goes or is renamed fails here.
"""

from __future__ import annotations

import pytest

from promised_tests import functions_in

SETS = "cell_sets/test_cell_sets_"

CELL_SETS = {
    "the arguments have the documented defaults": [f"{SETS}refusals.py::test_defaults"],
    "paths are a list, file_id is the place in it": [
        f"{SETS}refusals.py::test_paths",
        f"{SETS}values.py::test_files_with_1_5_and_0_values_a_row_read_as_one",
    ],
    "remap tables drop, sort, sum and clip; both arguments or neither": [
        f"{SETS}values.py::test_remap_drops_sorts_sums_and_clips",
        f"{SETS}values.py::test_nan_and_negative_values_count_as_0_under_a_remap",
        f"{SETS}values.py::test_unmapped_genes_of_unsigned_tables",
        f"{SETS}refusals.py::test_arguments",
    ],
    "a set over files of different genes needs a remap": [
        f"{SETS}refusals.py::test_sets_over_files_of_different_genes_need_a_remap",
    ],
    "values are raw counts unless normalise or log1p is asked for": [
        f"{SETS}values.py::test_batch_has_the_keys_and_dtypes_of_the_page",
        f"{SETS}values.py::test_transforms",
    ],
    "scatter_block_index warns where no file is framed": [
        f"{SETS}refusals.py::test_scatter_block_index_warns_that_no_file_is_framed",
    ],
    "max_plan_rows is enforced with a RuntimeError, and charged": [
        f"{SETS}refusals.py::test_max_plan_rows_is_enforced",
        f"{SETS}life.py::test_memory_budget",
    ],
    "reader_limit bounds open files; wider plans go one file after the other, and not ahead": [
        f"{SETS}life.py::test_counters_of_the_readers",
        f"{SETS}life.py::test_plans_wider_than_the_limit_are_not_decoded_ahead",
        f"{SETS}values.py::test_streams_equal_gathers",
    ],
    "thousands of files take no file descriptors, and with a limit a fraction of the memory": [
        f"{SETS}life.py::test_many_files_take_no_descriptors",
        f"{SETS}streams.py::test_5000_files",
    ],
    "counts are drawn down by row, file and seed, before anything else": [
        f"{SETS}values.py::test_downsampling_is_that_of_the_function",
        f"{SETS}streams.py::test_what_is_no_count_names_the_file",
    ],
    "plans are four arrays of any integer dtype, lists or tuples": [
        f"{SETS}values.py::test_plans_of_any_integer_dtype",
        f"{SETS}values.py::test_the_plan_may_change_after_it_was_given",
        f"{SETS}refusals.py::test_plans",
    ],
    "batches have the documented keys and dtypes": [
        f"{SETS}values.py::test_batch_has_the_keys_and_dtypes_of_the_page",
    ],
    "n_files, n_cols, closed and a final close": [f"{SETS}life.py::test_properties_and_close"],
    "gather gives the batch that the iterator would, and raises as it does": [
        f"{SETS}values.py::test_streams_equal_gathers",
        f"{SETS}refusals.py::test_plans",
        f"{SETS}life.py::test_an_empty_plan",
    ],
    "suggested_cache_shards counts shards over all files": [
        f"{SETS}life.py::test_suggested_cache_shards",
    ],
    "metrics have both halves with all keys": [
        f"{SETS}life.py::test_idle_counters_and_metrics",
        f"{SETS}life.py::test_plans_wider_than_the_limit_are_not_decoded_ahead",
    ],
    "what the budget says is what is used": [
        f"{SETS}memory.py::test_what_is_used_is_what_is_said",
    ],
    "errors of the generator and of plans come in their place": [
        f"{SETS}life.py::test_errors_of_the_generator_come_in_their_place",
        f"{SETS}streams.py::test_damage_names_the_file_and_comes_in_its_place",
    ],
    "a generator may wait for the batch before": [
        f"{SETS}life.py::test_a_generator_may_wait_for_the_batch_before",
    ],
    "iterators outlive their data set, and leave nothing behind": [
        f"{SETS}streams.py::test_streams_at_the_same_time",
        f"{SETS}life.py::test_abandoned_iterators_end_their_threads",
        f"{SETS}machine.py::test_random_streams",
    ],
    "another process is told about num_workers=0; workers build their own": [
        f"{SETS}life.py::test_another_process_is_refused",
        "torch/test_cell_set_iterable.py::test_every_plan_once_an_epoch_and_in_order",
    ],
    "deleted rows are refused, the others keep their numbers": [
        f"{SETS}refusals.py::test_deleted_rows_keep_their_numbers_and_are_refused",
        "test_deleted_rows.py::test_plans_that_name_a_deleted_row",
        "test_paired_plans.py::test_deleted_cells_never_come",
    ],
}

COLLATION = {
    "the arguments come in the documented order": [
        "cell_sets/test_collate.py::test_order_of_arguments_and_version",
    ],
    "modes, shared and ragged queries, library sizes": [
        "cell_sets/test_collate.py::test_modes_and_queries",
        "cell_sets/test_collate.py::test_any_batch",
    ],
    "the crop comes before the drop, nothing from beyond it comes in": [
        "cell_sets/test_collate.py::test_crop_comes_before_drop",
        "cell_sets/test_collate.py::test_a_gene_listed_twice_is_dropped_when_either_is_marked",
    ],
    "hide_readout leaves one mask token": [
        "cell_sets/test_collate.py::test_hide_readout_by_set",
    ],
    "refusals, on empty batches as well": [
        "cell_sets/test_collate.py::test_refusals",
        "cell_sets/test_collate.py::test_arguments_are_checked_on_an_empty_batch_too",
    ],
    "a batch goes in as it is": [f"{SETS}values.py::test_a_gathered_batch_can_be_collated"],
}

DOWNSAMPLING = {
    "rows within the target are only rounded": [
        "cell_sets/test_downsample.py::test_rows_within_the_target_are_rounded_only",
    ],
    "totals, zeros and keys": [
        "cell_sets/test_downsample.py::test_what_holds_for_any_draw",
        "cell_sets/test_downsample.py::test_a_row_depends_on_its_key_alone",
        "cell_sets/test_downsample.py::test_seed_file_row_and_method_each_change_the_draw",
    ],
    "draws are binomial or multinomial": ["cell_sets/test_downsample.py::test_moments"],
    "a file's identity is that of its canonical path": [
        "cell_sets/test_downsample.py::test_file_identity_is_of_the_canonical_path",
        "cell_sets/test_downsample.py::test_file_identity_of_a_known_text",
    ],
}

NEIGHBORHOODS = {
    "stored edges in the order of columns, the k best by weight, ties by column": [
        "neighborhoods/test_graph.py::test_any_graph",
        "neighborhoods/test_graph.py::test_the_k_best_come_by_column",
        "neighborhoods/test_graph.py::test_infinite_distances_are_never_preferred",
        "neighborhoods/test_graph.py::test_weights_are_compared_as_float32",
    ],
    "coordinates give exact neighbours, nearest first": [
        "neighborhoods/test_coords.py::test_any_points",
        "neighborhoods/test_coords.py::test_many_points_against_scipy",
    ],
    "one to three dimensions, k or radius, finite coordinates": [
        "neighborhoods/test_coords.py::test_refusals",
        "neighborhoods/test_coords.py::test_wide_embeddings_are_refused",
        "neighborhoods/test_coords.py::test_a_coordinate_that_is_none",
    ],
    "file_id is needed and has no position, weight_order is needed with k": [
        "neighborhoods/test_coords.py::test_file_id_has_no_default_and_no_position",
        "neighborhoods/test_graph.py::test_refusals",
    ],
    "deleted rows are no centres, no neighbours and no candidates": [
        "neighborhoods/test_graph.py::test_a_deleted_row_is_no_candidate_for_k",
        "neighborhoods/test_graph.py::test_any_graph",
        "neighborhoods/test_coords.py::test_any_points",
    ],
    "a path, a PathLike or an open experiment": [
        "neighborhoods/test_coords.py::test_what_may_be_given",
        "neighborhoods/test_graph.py::test_what_may_be_given",
    ],
    "batch_plans reorders sets, never members, and drops none": [
        "neighborhoods/test_batches.py::test_sets_come_in_their_order_and_none_is_dropped",
        "neighborhoods/test_batches.py::test_a_seed_reorders_sets_never_members",
    ],
}

CASES = {
    "50 small files, few readers, half of the iterators abandoned: memory stays": [
        f"{SETS}life.py::test_memory_after_the_third_pass_is_that_after_the_first",
    ],
    "a writer replaces a file that a reader has open: the reader keeps the old content": [
        f"{SETS}streams.py::test_a_writer_replaces_a_file_of_a_running_stream",
        f"{SETS}life.py::test_a_file_that_was_replaced_is_refused_when_it_is_opened_again",
        "test_index_plan_lifecycle.py::test_a_writer_replaces_the_file_of_running_plans",
    ],
    "plans over 10,000 and 100,000 groups": [
        f"{SETS}streams.py::test_what_comes_before_the_first_batch_does_not_grow",
        "test_index_plan_lifecycle.py::test_what_comes_before_the_first_batch_does_not_grow",
        "test_paired_plans.py::test_the_set_up_grows_as_the_strata_do",
        "test_paired_plans.py::test_many_strata",
    ],
    "a pair plan built twice from one seed is the same": [
        "test_paired_plans.py::test_seed_and_epoch",
        "test_paired_plans.py::test_another_process_makes_the_same_plans",
    ],
    "strata without a control are reported, never filled from elsewhere": [
        "test_paired_plans.py::test_strata_without_a_control_are_reported",
        "test_paired_plans.py::test_every_perturbed_cell_once_with_a_control_of_its_stratum",
    ],
    "a plan iterable of what has no plans is refused at construction": [
        "torch/test_plan_iterable.py::test_what_would_fail_in_every_worker",
    ],
}

PAGES = {
    "SparseCellSetDataset": CELL_SETS,
    "collation": COLLATION,
    "downsampling": DOWNSAMPLING,
    "neighbourhoods": NEIGHBORHOODS,
    "user cases": CASES,
}


@pytest.mark.parametrize(
    ("page", "promise"),
    [(page, promise) for page, promises in PAGES.items() for promise in promises],
    ids=lambda value: str(value),
)
def test_promise_has_tests(page: str, promise: str) -> None:
    assert PAGES[page][promise]
    for name in PAGES[page][promise]:
        file, _, test = name.partition("::")
        assert test in functions_in(file), name
