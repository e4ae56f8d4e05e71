//! Normalised values of a batch, counted by some of their bits: a step of the search for each gene's median.
//!
//! The bits of a positive float32, 31 of them, are in the order of the values. A gene whose median is known in its upper
//! `bits_done` bits (its prefix) has a slot: a column of a table in which the values with this prefix are counted by
//! the `bits` that follow. A gene may have two, as two values are in the middle where their number is even.
//!
//! Threads share the genes among them, so each entry of the table and of the totals belongs to one, and what is added to
//! a total comes in the order of the rows.

const std = @import("std");
const errors = @import("../errors.zig");
const parallel = @import("../codec/parallel.zig");
const CsrRows = @import("csr_rows.zig").CsrRows;

const assert = std.debug.assert;
const Failure = errors.Failure;
const Report = errors.Report;

/// Of a positive float32.
pub const value_bits = 31;

/// Counting fewer values than this is quicker than starting a thread.
const values_per_thread_min = 1 << 16;

/// Where values are counted, by gene.
pub const Targets = struct {
    /// The column of the table; negative for none.
    slots: []const i32,
    prefixes: []const u32,
};

pub const Counting = struct {
    rows: CsrRows,
    /// What each row's values are multiplied with.
    factors: []const f64,
    first: Targets,
    second: ?Targets,
    bits_done: u5,
    bits: u5,
    /// 2^bits rows of `n_slots` entries. Most counts of a cell are 1 or 2, which all become the same value: with a row for
    /// each bucket they are counted side by side, in the order of the genes.
    table: []u32,
    n_slots: usize,
    /// The values themselves are added up here, by gene.
    totals: ?[]f64,
    /// How many positive values each part has seen.
    seen: [parallel.threads_max]u64 = @splat(0),
    parts: usize = 1,

    /// Counts all positive values and gives their number. Gene ids are checked, and slots are below `n_slots`.
    pub fn run(counting: *Counting, threads: u32, report: *Report) Failure!u64 {
        const rows = counting.rows;
        assert(counting.factors.len == rows.count());
        assert(@as(u32, counting.bits_done) + counting.bits <= value_bits);
        counting.parts = parallel.threadCount(threads, rows.indices.len / values_per_thread_min);
        try parallel.run(counting.parts, counting, part, report);
        var total: u64 = 0;
        for (counting.seen[0..counting.parts]) |seen| total += seen;
        return total;
    }

    fn part(counting: *Counting, number: usize, _: *Report) Failure!void {
        const genes = parallel.rangeOf(counting.first.slots.len, counting.parts, number);
        var seen: u64 = 0;
        for (0..counting.rows.count()) |row| {
            const ids = counting.rows.ids(row);
            const start = std.sort.lowerBound(i32, ids, genes.start, order);
            const stop = std.sort.lowerBound(i32, ids, genes.stop, order);
            const values = counting.rows.rowValues(row);
            seen += countRow(counting, ids[start..stop], values[start..stop], counting.factors[row]);
        }
        counting.seen[number] = seen;
    }

    fn order(gene: usize, id: i32) std.math.Order {
        return std.math.order(@as(i64, @intCast(gene)), id);
    }
};

fn countRow(counting: *const Counting, ids: []const i32, values: []const f32, factor: f64) u64 {
    // 31 bits shifted by 31 are 0, the prefix of every gene before the first bit is known
    const prefix_shift: u5 = @intCast(value_bits - @as(u32, counting.bits_done));
    const bucket_shift: u5 = @intCast(value_bits - @as(u32, counting.bits_done) - counting.bits);
    const mask = (@as(u32, 1) << counting.bits) - 1;
    var seen: u64 = 0;
    for (ids, values) |id, value| {
        const scaled: f32 = @floatCast(@as(f64, value) * factor);
        if (!(scaled > 0)) continue; // NaN too
        seen += 1;
        const gene: usize = @intCast(id);
        const bits: u32 = @bitCast(scaled);
        if (counting.totals) |totals| totals[gene] += value;
        const prefix = bits >> prefix_shift;
        const bucket = (bits >> bucket_shift) & mask;
        countIn(counting, counting.first, gene, prefix, bucket);
        if (counting.second) |second| countIn(counting, second, gene, prefix, bucket);
    }
    return seen;
}

inline fn countIn(counting: *const Counting, targets: Targets, gene: usize, prefix: u32, bucket: u32) void {
    if (targets.prefixes[gene] != prefix) return;
    const slot = targets.slots[gene];
    if (slot < 0) return;
    counting.table[bucket * counting.n_slots + @as(usize, @intCast(slot))] += 1;
}

const testing = std.testing;

test "values are counted by their bits, in the slots of their genes" {
    const rows: CsrRows = .{
        .indptr = &.{ 0, 3, 3, 5 },
        .indices = &.{ 0, 1, 2, 0, 2 },
        .values = &.{ 1, 2, -1, 0.5, std.math.nan(f32) },
    };
    // 1 is 0x3f800000, 2 is 0x40000000 and half of it 0x3f800000 again
    var table: [3 * 4]u32 = @splat(0);
    var totals: [3]f64 = @splat(0);
    var counting: Counting = .{
        .rows = rows,
        .factors = &.{ 1, 1, 2 },
        .first = .{ .slots = &.{ 1, -1, 0 }, .prefixes = &.{ 0, 0, 0 } },
        .second = .{ .slots = &.{ -1, 2, -1 }, .prefixes = &.{ 0, 0, 0 } },
        .bits_done = 0,
        .bits = 2,
        .table = &table,
        .n_slots = 3,
        .totals = &totals,
    };
    var report: Report = .{};
    try testing.expectEqual(3, try counting.run(1, &report));
    try testing.expectEqualSlices(u32, &.{ 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0 }, &table);
    try testing.expectEqualSlices(f64, &.{ 1.5, 2, 0 }, &totals);
}

test "with a prefix, other values are left out; every number of threads counts the same" {
    const n_rows = 400;
    const n_genes = 1000;
    const indptr = try testing.allocator.alloc(i64, n_rows + 1);
    defer testing.allocator.free(indptr);
    const indices = try testing.allocator.alloc(i32, n_rows * n_genes);
    defer testing.allocator.free(indices);
    const values = try testing.allocator.alloc(f32, n_rows * n_genes);
    defer testing.allocator.free(values);
    var factors: [n_rows]f64 = undefined;
    var random = std.Random.DefaultPrng.init(7);
    for (indptr, 0..) |*start, row| start.* = @intCast(row * n_genes);
    for (indices, values, 0..) |*id, *value, at| {
        id.* = @intCast(at % n_genes);
        value.* = @floatFromInt(random.random().uintLessThan(u8, 5));
    }
    for (&factors) |*factor| factor.* = 0.5 + random.random().float(f64);
    var slots: [n_genes]i32 = undefined;
    var prefixes: [n_genes]u32 = undefined;
    for (&slots, &prefixes, 0..) |*slot, *prefix, gene| {
        slot.* = @as(i32, @intCast(gene)) - 1;
        prefix.* = 0x3f800000 >> (value_bits - 9);
    }
    const expected = try testing.allocator.alloc(u32, (n_genes - 1) << 4);
    defer testing.allocator.free(expected);
    @memset(expected, 0);
    var n_positive: u64 = 0;
    for (values, 0..) |value, at| {
        const bits: u32 = @bitCast(@as(f32, @floatCast(value * factors[at / n_genes])));
        if (value > 0) n_positive += 1;
        const slot = slots[at % n_genes];
        if (value > 0 and slot >= 0 and bits >> 22 == prefixes[0]) {
            expected[((bits >> 18) & 15) * (n_genes - 1) + @as(usize, @intCast(slot))] += 1;
        }
    }
    const table = try testing.allocator.alloc(u32, expected.len);
    defer testing.allocator.free(table);
    for ([_]u32{ 1, 2, 3, 5 }) |threads| {
        @memset(table, 0);
        var counting: Counting = .{
            .rows = .{ .indptr = indptr, .indices = indices, .values = values },
            .factors = &factors,
            .first = .{ .slots = &slots, .prefixes = &prefixes },
            .second = null,
            .bits_done = 9,
            .bits = 4,
            .table = table,
            .n_slots = n_genes - 1,
            .totals = null,
        };
        var report: Report = .{};
        try testing.expectEqual(n_positive, try counting.run(threads, &report));
        try testing.expectEqualSlices(u32, expected, table);
    }
}
