//! The same matrices with codec rowpack and with codec none give the same rows, as CSR and dense, and a damaged row is
//! told by its place.

const std = @import("std");
const errors = @import("../errors.zig");
const gather = @import("gather.zig");
const matrix_module = @import("matrix.zig");
const rowpack = @import("rowpack.zig");
const samples = @import("../fuzz_samples.zig");
const validate = @import("validate.zig");
const File = @import("../container/file.zig").File;
const ShardView = @import("shard_view.zig").ShardView;

const testing = std.testing;
const Matrix = matrix_module.Matrix;
const Report = errors.Report;
const Scratch = matrix_module.Scratch;

const Opened = struct {
    file: *File,
    matrix: *Matrix,

    fn init(sample: *const samples.Sample, selector: matrix_module.Selector) !Opened {
        var report: Report = .{};
        const file = try File.fromBytes(testing.allocator, sample.bytes, .{ .verify = true }, &report);
        errdefer file.closeBorrowed();
        const matrix = try Matrix.open(testing.allocator, file, selector, &report);
        return .{ .file = file, .matrix = matrix };
    }

    fn deinit(self: *Opened) void {
        self.matrix.close();
        self.file.closeBorrowed();
    }
};

fn makeSamples() ![]const samples.Sample {
    return samples.make(testing.allocator);
}

test "both codecs give the same rows" {
    const made = try makeSamples();
    defer samples.free(testing.allocator, made);
    for (made[0].selectors) |selector| {
        var packed_rows = try Opened.init(&made[0], selector);
        defer packed_rows.deinit();
        var plain_rows = try Opened.init(&made[1], selector);
        defer plain_rows.deinit();
        try expectSameRows(packed_rows.matrix, plain_rows.matrix);
        try expectSameDense(packed_rows.matrix, plain_rows.matrix);
    }
}

fn expectSameRows(a: *Matrix, b: *Matrix) !void {
    var report: Report = .{};
    var scratch_a = try Scratch.init(testing.allocator, a.n_cols);
    defer scratch_a.deinit();
    var scratch_b = try Scratch.init(testing.allocator, b.n_cols);
    defer scratch_b.deinit();
    try testing.expectEqual(a.nnz, b.nnz);
    for (0..@intCast(a.n_rows)) |row| {
        const found_a = try a.openRow(@intCast(row), &scratch_a, &report);
        const found_b = try b.openRow(@intCast(row), &scratch_b, &report);
        const count = found_a.row.n_values;
        try testing.expectEqual(count, found_b.row.n_values);
        try testing.expectEqual(count, try a.rowCount(row, &report));
        try testing.expectEqualSlices(u32, scratch_a.arrays.row.columns[0..count], scratch_b.arrays.row.columns[0..count]);
        try a.rowValues(&found_a, .f64, &scratch_a, @ptrCast(scratch_a.arrays.values), &report);
        try b.rowValues(&found_b, .f64, &scratch_b, @ptrCast(scratch_b.arrays.values), &report);
        try testing.expectEqualSlices(f64, scratch_a.arrays.values[0..count], scratch_b.arrays.values[0..count]);
    }
}

fn expectSameDense(a: *Matrix, b: *Matrix) !void {
    var report: Report = .{};
    const panel = [_]u32{ 1, 2, 40, 89 };
    const rows = [_]i64{ 11, 0, 5, 5, 7, 6 };
    for ([_]?[]const u32{ null, &panel }) |columns| {
        var results: [2][]f32 = undefined;
        for ([_]*Matrix{ a, b }, &results) |matrix, *result| {
            var plan: matrix_module.DensePlan = try .init(testing.allocator, matrix, .{
                .normalize = true,
                .log1p = true,
                .panel = columns,
            }, &report);
            defer plan.deinit();
            result.* = try testing.allocator.alloc(f32, rows.len * plan.n_output);
            @memset(result.*, std.math.nan(f32));
            var job: gather.DenseGather = .{
                .allocator = testing.allocator,
                .matrix = matrix,
                .plan = &plan,
                .rows = &rows,
                .out = std.mem.sliceAsBytes(result.*),
            };
            try job.run(1, &report);
        }
        defer for (results) |result| testing.allocator.free(result);
        // rows with negatives take their depth from the values, others from the table: equal but for the last bit
        for (results[0], results[1]) |x, y| try testing.expectApproxEqRel(x, y, 1e-6);
    }
}

test "totals are those of the values, negatives left out" {
    const made = try makeSamples();
    defer samples.free(testing.allocator, made);
    for (made[0..2]) |*sample| for (sample.selectors) |selector| {
        var opened = try Opened.init(sample, selector);
        defer opened.deinit();
        const matrix = opened.matrix;
        var report: Report = .{};
        var scratch = try Scratch.init(testing.allocator, matrix.n_cols);
        defer scratch.deinit();
        const rows = [_]i64{ 11, 0, 5, 5, 8 };
        var totals: [rows.len]f64 = undefined;
        try gather.rowTotals(testing.allocator, matrix, &rows, &totals, &report);
        for (rows, totals) |row, total| {
            const found = try matrix.openRow(row, &scratch, &report);
            try matrix.rowValues(&found, .f64, &scratch, @ptrCast(scratch.arrays.values), &report);
            var expected: f64 = 0;
            for (scratch.arrays.values[0..found.row.n_values]) |value| expected += @max(value, 0);
            try testing.expectEqual(expected, total);
        }
        try testing.expectError(error.OutOfRange, gather.rowTotals(testing.allocator, matrix, &.{12}, totals[0..1], &report));
    };
}

test "rows for which an array has other room than they need are refused" {
    const made = try makeSamples();
    defer samples.free(testing.allocator, made);
    var opened = try Opened.init(&made[0], made[0].selectors[0]);
    defer opened.deinit();
    const matrix = opened.matrix;
    var report: Report = .{};
    const count: i64 = @intCast(try matrix.rowCount(1, &report));
    var indices: [100]i32 = undefined;
    var values: [100]f32 = undefined;
    for ([_]struct { [2]i64, bool }{
        .{ .{ 0, count }, true },
        .{ .{ 3, count + 3 }, true },
        .{ .{ 0, count - 1 }, false },
        .{ .{ 0, count + 1 }, false },
        .{ .{ count, 0 }, false },
        .{ .{ -count, 0 }, false },
        .{ .{ std.math.minInt(i64), std.math.maxInt(i64) }, false },
        .{ .{ count, std.math.minInt(i64) }, false },
    }) |case| {
        const indptr, const fits = case;
        var job: gather.CsrGather = .{
            .allocator = testing.allocator,
            .matrix = matrix,
            .rows = &.{1},
            .indptr = &indptr,
            .indices = &indices,
            .target = .f32,
            .value_bytes = 4,
            .values = @ptrCast(&values),
        };
        if (fits) try job.run(1, &report) else try testing.expectError(error.BadArgument, job.run(1, &report));
    }
}

test "rows that are read at once are where the table says" {
    const made = try makeSamples();
    defer samples.free(testing.allocator, made);
    var report: Report = .{};
    for (made[0..2]) |*sample| for (sample.selectors) |selector| {
        var opened = try Opened.init(sample, selector);
        defer opened.deinit();
        const matrix = opened.matrix;
        for (matrix.shards) |*view| {
            for (0..view.n_rows) |first| for (1..view.n_rows - first + 1) |count| {
                try expectPlaces(view, first, count);
            };
        }
        const n_rows: i64 = @intCast(matrix.n_rows);
        // in one shard, over the end of one, from anywhere, backwards, too few: hints do no harm
        const wishes = [_][]const i64{ &.{ 0, 1, 2 }, &.{ n_rows - 2, n_rows - 1 }, &.{ n_rows - 1, 0 }, &.{ 5, 5, 4 }, &.{3}, &.{} };
        for (wishes) |rows| matrix.startReadingRows(rows);
        var all: [matrix_module.Matrix.rows_read_at_once_max]i64 = undefined;
        const some = all[0..@min(all.len, @as(usize, @intCast(n_rows)))];
        for (some, 0..) |*row, index| row.* = @intCast(index);
        matrix.startReadingRows(some);
        for (some) |row| _ = try matrix.rowCount(@intCast(row), &report);
    };
}

fn expectPlaces(view: *const ShardView, first: usize, count: usize) !void {
    const table = view.tableOf(first, count);
    const entry_bytes: usize = if (view.codec == .rowpack) @sizeOf(rowpack.RowEntry) else 8;
    try testing.expectEqual(count * entry_bytes, table.len);
    try testing.expectEqual(view.indptr.ptr + first * entry_bytes, table.ptr);
    const payload = view.payloadOf(first, count) orelse return testing.expectEqual(.none, view.codec);
    var n_bytes: usize = 0;
    for (first..first + count) |row| n_bytes += view.entryOf(row).payload_bytes;
    try testing.expectEqual(n_bytes, payload.len);
    try testing.expectEqual(view.values.ptr + view.entryOf(first).payload_offset, payload.ptr);
}

test "every shard of a good file is valid" {
    const made = try makeSamples();
    defer samples.free(testing.allocator, made);
    for (made) |*sample| for (sample.selectors) |selector| {
        var opened = try Opened.init(sample, selector);
        defer opened.deinit();
        var report: Report = .{};
        for (0..opened.matrix.shards.len) |number| {
            try validate.validateShard(testing.allocator, opened.matrix, @intCast(number), &report);
        }
    };
}

test "a damaged row names its shard and its row" {
    const made = try makeSamples();
    defer samples.free(testing.allocator, made);
    var opened = try Opened.init(&made[0], made[0].selectors[0]);
    defer opened.deinit();
    var scratch = try Scratch.init(testing.allocator, opened.matrix.n_cols);
    defer scratch.deinit();
    const view = &opened.matrix.shards[1];
    const entry = view.entryOf(2);
    const payload: [*]u8 = @constCast(view.values.ptr + entry.payload_offset);
    payload[entry.payload_bytes / 2] ^= 4;
    var report: Report = .{};
    const row: i64 = @intCast(view.row_start + 2);
    try testing.expectError(error.Corrupt, opened.matrix.openRow(row, &scratch, &report));
    try testing.expectEqual(1, report.shard);
    try testing.expectEqual(@as(u64, @intCast(row)), report.row);
    try testing.expectEqualStrings("X_shard_1", report.section[0..report.section_length]);
    // its neighbours are as good as before
    _ = try opened.matrix.openRow(row - 1, &scratch, &report);
    _ = try opened.matrix.openRow(row + 1, &scratch, &report);
}

fn openAndClose(allocator: std.mem.Allocator, sample: *const samples.Sample) !void {
    var report: Report = .{};
    const file = try File.fromBytes(allocator, sample.bytes, .{}, &report);
    defer file.closeBorrowed();
    const matrix = try Matrix.open(allocator, file, sample.selectors[0], &report);
    defer matrix.close();
    var scratch = try Scratch.init(allocator, matrix.n_cols);
    defer scratch.deinit();
    const panel = [_]u32{3};
    var plan = try matrix_module.DensePlan.init(allocator, matrix, .{ .panel = &panel }, &report);
    plan.deinit();
}

test "nothing leaks when memory runs out while a matrix is opened" {
    const made = try makeSamples();
    defer samples.free(testing.allocator, made);
    try testing.checkAllAllocationFailures(testing.allocator, openAndClose, .{&made[0]});
}
