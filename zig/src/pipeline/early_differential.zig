//! Rows that are decoded early and come into their batches later are those that are decoded at once, bit for bit.

const std = @import("std");
const testing = std.testing;

const concatenated_source = @import("concatenated_source.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const matrices = @import("../codec/matrix.zig");
const samples = @import("../fuzz_samples.zig");
const Columns = @import("../codec/columns.zig").Columns;
const Concatenation = @import("concatenation.zig").Concatenation;
const DenseSource = @import("dense_source.zig").DenseSource;
const EarlyRows = @import("early_rows.zig").EarlyRows;
const File = @import("../container/file.zig").File;
const Matrix = matrices.Matrix;
const Report = errors.Report;
const Scratch = matrices.Scratch;
const Task = @import("pipeline.zig").Task;

const transforms = [_]matrices.DenseOptions{
    .{},
    .{ .normalize = true },
    .{ .log1p = true },
    .{ .normalize = true, .log1p = true },
    .{ .pflog_alpha = 0.3 },
};

test "rows of one matrix" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    const panel = [_]u32{ 0, 1, 2, 40, 41, 42, 43, 44, 45, 89 };
    var report: Report = .{};
    for (made[0..2]) |*sample| for (sample.selectors) |selector| {
        const file = try File.fromBytes(testing.allocator, sample.bytes, .{ .verify = true }, &report);
        defer file.closeBorrowed();
        const matrix = try Matrix.open(testing.allocator, file, selector, &report);
        defer matrix.close();
        for (transforms) |transform| for ([_]?[]const u32{ null, &panel }) |columns| for (std.enums.values(emit.Output)) |output| {
            var options = transform;
            options.panel = columns;
            options.output = output;
            var source: DenseSource = try .init(testing.allocator, matrix, options, &report);
            defer source.deinit();
            try expectSame(&source, matrix.n_rows, matrix.n_cols);
        };
    };
}

test "rows of several matrices, with columns in their order, in another one, and shared" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    var report: Report = .{};
    const selector = made[0].selectors[0];
    const file = try File.fromBytes(testing.allocator, made[0].bytes, .{ .verify = true }, &report);
    defer file.closeBorrowed();
    const matrix = try Matrix.open(testing.allocator, file, selector, &report);
    defer matrix.close();
    const n_cols = matrix.n_cols;
    const n_output = n_cols / 2;
    const maps = try testing.allocator.alloc(i32, 3 * n_cols);
    defer testing.allocator.free(maps);
    for (maps[0..n_cols], maps[n_cols..][0..n_cols], maps[2 * n_cols ..], 0..) |*ascending, *mixed, *shared, column| {
        const kept: i32 = if (column < n_output) @intCast(column) else -1;
        ascending.* = kept;
        mixed.* = if (kept < 0) -1 else @as(i32, @intCast(n_output)) - 1 - kept;
        shared.* = @intCast(column % n_output);
    }
    for (transforms) |transform| {
        var columns: [3]Columns = undefined;
        var count: usize = 0;
        defer for (columns[0..count]) |*own| own.deinit();
        while (count < 3) : (count += 1) {
            const map = maps[count * n_cols ..][0..n_cols];
            columns[count] = try .init(testing.allocator, n_cols, map, n_output, transform, &report);
        }
        var source: concatenated_source.ConcatenatedSource = .{
            .layout = .dense,
            .whole = try Concatenation.init(testing.allocator, &.{
                .{ .matrix = matrix, .columns = &columns[0] },
                .{ .matrix = matrix, .columns = &columns[1] },
                .{ .matrix = matrix, .columns = &columns[2] },
            }, &report),
        };
        defer source.deinit();
        try expectSame(&source, 3 * matrix.n_rows, n_cols);
    }
}

/// Two of three rows are decoded early; the batch takes all, from the last to the first.
fn expectSame(source: anytype, n_rows: u64, n_cols: u32) !void {
    var rows: [256]i64 = undefined;
    var early: [256]i64 = undefined;
    var n_early: usize = 0;
    const count: usize = @intCast(@min(n_rows, rows.len));
    for (rows[0..count], 0..) |*row, index| row.* = @intCast(count - 1 - index);
    for (0..count) |row| if (row % 3 != 1) {
        early[n_early] = @intCast(row);
        n_early += 1;
    };
    const kept = (try EarlyRows.create(.{
        .allocator = testing.allocator,
        .page_allocator = testing.allocator,
        .rows = early[0..n_early],
        .n_output = source.keptColumns().?,
        .bytes_max = 4 << 20,
    })).?;
    defer {
        std.debug.assert(kept.lose());
        kept.destroy();
    }
    var scratch: Scratch = try .init(testing.allocator, n_cols);
    defer scratch.deinit();
    while (kept.claim(n_rows, 8)) |claim| {
        source.decodeEarly(claim, &scratch);
        kept.running -= 1;
        std.debug.assert(!kept.lose());
    }
    try testing.expectEqual(n_early, kept.kept.load(.monotonic));

    const bytes = count * source.rowBytes();
    const expected = try testing.allocator.alignedAlloc(u8, .@"64", bytes);
    defer testing.allocator.free(expected);
    const found = try testing.allocator.alignedAlloc(u8, .@"64", bytes);
    defer testing.allocator.free(found);
    @memset(expected, 0xa5);
    @memset(found, 0x5a);
    var report: Report = .{};
    var task: Task = .{ .rows = rows[0..count], .begin = 0, .end = count, .memory = expected };
    try source.decode(task, &scratch, &report);
    task.memory = found;
    task.early = kept;
    try source.decode(task, &scratch, &report);
    try testing.expectEqualSlices(u8, expected, found);
    try testing.expect(kept.isSpent());
}
