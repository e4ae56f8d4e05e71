//! Rows of joined matrices are as a plain version makes them, one value at a time.

const std = @import("std");
const downsample = @import("../kernels/downsample.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const joined = @import("joined.zig");
const matrix_module = @import("matrix.zig");
const samples = @import("../fuzz_samples.zig");
const File = @import("../container/file.zig").File;
const Transform = @import("../kernels/transform.zig").Transform;

const testing = std.testing;
const Changes = joined.Changes;
const Matrix = matrix_module.Matrix;
const Report = errors.Report;
const Scratch = matrix_module.Scratch;
const Source = joined.Source;

/// A row done the plain way: one value at a time, in a dense row of all new columns.
const PlainRow = struct {
    sums: [plain_columns]f64 = @splat(0),
    is_there: [plain_columns]bool = @splat(false),
    indices: [plain_columns]i32 = undefined,
    values: [plain_columns]f32 = undefined,
    count: usize = 0,

    const plain_columns = 5000; // more than one digit of sort_row

    fn of(source: *const Source, row: i64, changes: *const Changes, scratch: *Scratch) !*PlainRow {
        const self = try testing.allocator.create(PlainRow);
        self.* = .{};
        var report: Report = .{};
        const found = try source.matrix.openRow(row, scratch, &report);
        const stored = scratch.arrays.values[0..found.row.n_values];
        try source.matrix.rowValues(&found, .f64, scratch, @ptrCast(stored.ptr), &report);
        var depth: f64 = 0;
        for (stored, scratch.arrays.row.columns[0..stored.len]) |value, column| {
            if (value > 0) depth += value;
            const new = if (source.remap) |remap| remap[column] else @as(i32, @intCast(column));
            if (new < 0) continue;
            const place: usize = @intCast(new);
            self.is_there[place] = true;
            if (value > 0) self.sums[place] += value;
        }
        for (self.is_there, self.sums, 0..) |is_there, sum, column| {
            if (!is_there) continue;
            self.indices[self.count] = @intCast(column);
            self.values[self.count] = @floatCast(sum);
            self.count += 1;
        }
        if (changes.draw) |draw| {
            try draw.drawRow(source.file_identity, @intCast(row), self.values[0..self.count]);
            depth = 0;
            var left: usize = 0;
            for (0..self.count) |place| {
                if (self.values[place] == 0) continue;
                self.indices[left], self.values[left] = .{ self.indices[place], self.values[place] };
                depth += self.values[place];
                left += 1;
            }
            self.count = left;
        }
        const scale = changes.transform.factor(depth);
        for (self.indices[0..self.count], self.values[0..self.count]) |column, *value| {
            const exact: f64 = if (changes.draw != null) value.* else self.sums[@intCast(column)];
            value.* = if (changes.transform.isIdentity()) @floatCast(exact) else changes.transform.applyOne(exact, scale);
        }
        return self;
    }
};

fn expectPlain(source: *const Source, changes: *const Changes) !void {
    var report: Report = .{};
    var scratch = try joined.initScratch(testing.allocator, @as([*]const Source, @ptrCast(source))[0..1]);
    defer scratch.deinit();
    var indices: [PlainRow.plain_columns]i32 = undefined;
    var values: [PlainRow.plain_columns]f32 = undefined;
    for (0..@intCast(source.matrix.n_rows)) |row| {
        const plain = try PlainRow.of(source, @intCast(row), changes, &scratch);
        defer testing.allocator.destroy(plain);
        const length: usize = @intCast(try source.matrix.rowCount(row, &report));
        for ([_]emit.Way{ .through_caches, .past_caches }) |way| {
            @memset(&values, 12345);
            const count = try joined.decodeRow(source, @intCast(row), changes, &scratch, way, indices[0..length], values[0..length], &report);
            emit.finishStreaming();
            try testing.expectEqualSlices(i32, plain.indices[0..plain.count], indices[0..count]);
            for (plain.values[0..count], values[0..count]) |wanted, found| {
                if (std.math.isNan(wanted)) try testing.expect(std.math.isNan(found)) else try testing.expectEqual(wanted, found);
            }
        }
    }
}

fn expectPlainMatrix(matrix: *const Matrix, random: std.Random) !void {
    var remaps: [4][90]i32 = undefined;
    for (0..90) |column| {
        const number: i32 = @intCast(column);
        remaps[0][column] = if (number & 3 == 1) -1 else 50 * number; // ascends, with gaps
        remaps[1][column] = 4999 - number; // another order
        remaps[2][column] = random.intRangeLessThan(i32, -1, 30); // columns meet
        remaps[3][column] = -1;
    }
    const plain: Transform = .{ .normalize = false, .log1p = false, .target_sum = 1 };
    const both: Transform = .{ .normalize = true, .log1p = true, .target_sum = 1e4 };
    const scaled: Transform = .{ .normalize = true, .log1p = false, .target_sum = 100 };
    for ([_]?[]const i32{ null, &remaps[0], &remaps[1], &remaps[2], &remaps[3] }) |remap| {
        const source: Source = .{
            .matrix = matrix,
            .remap = if (remap) |entries| entries[0..matrix.n_cols] else null,
            .file_identity = 7,
        };
        for ([_]Transform{ plain, both, scaled }) |transform| {
            try expectPlain(&source, &.{ .transform = transform, .draw = null });
            for ([_]downsample.Method{ .binomial, .multinomial }) |method| {
                try expectPlain(&source, &.{ .transform = transform, .draw = .{ .method = method, .target = 9, .seed = 3 } });
            }
        }
    }
}

test "rows are as the plain way makes them" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    var random = std.Random.DefaultPrng.init(11);
    var report: Report = .{};
    const file = try File.fromBytes(testing.allocator, made[0].bytes, .{ .verify = true }, &report);
    defer file.closeBorrowed();
    var n_matrices: usize = 0;
    for (made[0].selectors) |selector| {
        const matrix = try Matrix.open(testing.allocator, file, selector, &report);
        defer matrix.close();
        // draws take counts alone, and the remaps have 90 entries
        const is_counts = for ([_][]const u8{ "X", "bytes" }) |name| {
            if (std.mem.eql(u8, selector.name, name)) break true;
        } else false;
        if (!is_counts or matrix.n_cols > 90) continue;
        n_matrices += 1;
        try expectPlainMatrix(matrix, random.random());
    }
    try testing.expectEqual(@as(usize, 2), n_matrices);
}

test "values of any kind find their columns" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    var report: Report = .{};
    const file = try File.fromBytes(testing.allocator, made[0].bytes, .{ .verify = true }, &report);
    defer file.closeBorrowed();
    const transform: Transform = .{ .normalize = false, .log1p = true, .target_sum = 1 };
    for (made[0].selectors) |selector| {
        const matrix = try Matrix.open(testing.allocator, file, selector, &report);
        defer matrix.close();
        if (matrix.n_cols > PlainRow.plain_columns) continue;
        var remap: [PlainRow.plain_columns]i32 = undefined;
        for (&remap, 0..) |*new, column| new.* = @intCast((column * 37) % 11);
        const source: Source = .{ .matrix = matrix, .remap = remap[0..matrix.n_cols], .file_identity = 0 };
        try expectPlain(&source, &.{ .transform = transform, .draw = null });
    }
}

test "a row that has other room than values is refused" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    var report: Report = .{};
    const file = try File.fromBytes(testing.allocator, made[0].bytes, .{}, &report);
    defer file.closeBorrowed();
    const matrix = try Matrix.open(testing.allocator, file, made[0].selectors[0], &report);
    defer matrix.close();
    const source: Source = .{ .matrix = matrix, .remap = null, .file_identity = 0 };
    var scratch = try joined.initScratch(testing.allocator, &.{source});
    defer scratch.deinit();
    const changes: Changes = .{ .transform = .{ .normalize = false, .log1p = false, .target_sum = 1 }, .draw = null };
    const room: usize = @intCast(try matrix.rowCount(1, &report) + 1);
    const indices = try testing.allocator.alloc(i32, room);
    defer testing.allocator.free(indices);
    const values = try testing.allocator.alloc(f32, room);
    defer testing.allocator.free(values);
    try testing.expectError(error.BadArgument, joined.decodeRow(&source, 1, &changes, &scratch, .through_caches, indices, values, &report));
}
