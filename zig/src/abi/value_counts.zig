//! `scx_values_count`: what a search for medians over many batches counts of one.

const std = @import("std");
const csr_rows = @import("csr_rows.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const kernel = @import("../kernels/value_counts.zig");

const assert = std.debug.assert;
const AbiError = errors.AbiError;
const AbiRows = csr_rows.AbiRows;
const Failure = errors.Failure;
const Report = errors.Report;

/// `scx_value_counts`
pub const ValueCounts = extern struct {
    struct_bytes: u32,
    threads: u32,
    factors: ?[*]const f64,
    n_genes: u64,
    slots: ?[*]const i32,
    prefixes: ?[*]const u32,
    second_slots: ?[*]const i32,
    second_prefixes: ?[*]const u32,
    bits_done: u32,
    bits: u32,
    table: ?[*]u32,
    n_slots: u64,
    totals: ?[*]f64,
};

comptime {
    assert(@sizeOf(ValueCounts) == 88);
}

const who = "values_count: ";
/// More buckets than that are no table any more.
const bits_max = 24;

export fn scx_values_count(rows: ?*const AbiRows, counts: ?*const ValueCounts, n_values_out: ?*u64, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(count(rows, counts, n_values_out, &report), &report, error_out);
}

fn count(rows_in: ?*const AbiRows, counts_in: ?*const ValueCounts, n_values_out: ?*u64, report: *Report) Failure!void {
    const out = try handle.required(*u64, n_values_out, "n_values_out", report);
    out.* = 0;
    const rows = try csr_rows.checkedRows(rows_in, who, report);
    const counts = try handle.required(*const ValueCounts, counts_in, "counts", report);
    try handle.checkSize(ValueCounts, counts.struct_bytes, "scx_value_counts", report);
    try rows.checkIds(who, counts.n_genes, counts.threads, report);
    if (rows.indices.len == 0) return;
    if (counts.bits > bits_max or counts.bits_done > kernel.value_bits - counts.bits) return report.fail(
        error.BadArgument,
        who ++ "bits_done = {d} and bits = {d} are no part of the {d} bits of a value",
        .{ counts.bits_done, counts.bits, kernel.value_bits },
    );
    const n_buckets = std.math.mul(u64, counts.n_slots, @as(u64, 1) << @intCast(counts.bits)) catch
        return report.fail(error.BadArgument, who ++ "{d} slots are too many", .{counts.n_slots});
    var counting: kernel.Counting = .{
        .rows = rows,
        .factors = (try handle.required([*]const f64, counts.factors, "factors", report))[0..rows.count()],
        .first = try targets(counts, counts.slots, counts.prefixes, report),
        .second = if (counts.second_slots == null) null else try targets(counts, counts.second_slots, counts.second_prefixes, report),
        .bits_done = @intCast(counts.bits_done),
        .bits = @intCast(counts.bits),
        .table = (try handle.required([*]u32, counts.table, "table", report))[0..@intCast(n_buckets)],
        .n_slots = @intCast(counts.n_slots),
        .totals = if (counts.totals) |totals| totals[0..@intCast(counts.n_genes)] else null,
    };
    out.* = try counting.run(counts.threads, report);
}

fn targets(counts: *const ValueCounts, slots_in: ?[*]const i32, prefixes_in: ?[*]const u32, report: *Report) Failure!kernel.Targets {
    const n_genes: usize = @intCast(counts.n_genes);
    const slots = (try handle.required([*]const i32, slots_in, "slots", report))[0..n_genes];
    const prefixes = (try handle.required([*]const u32, prefixes_in, "prefixes", report))[0..n_genes];
    var largest: i32 = -1;
    for (slots) |slot| largest = @max(largest, slot);
    if (largest >= counts.n_slots) return report.fail(error.BadArgument, who ++
        "slot {d} is beyond the table of {d}", .{ largest, counts.n_slots });
    return .{ .slots = slots, .prefixes = prefixes };
}
