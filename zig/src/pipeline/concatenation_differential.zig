//! Rows of several matrices, with columns that are left out, exchanged and added up, against a row worked out value by
//! value.

const std = @import("std");
const columns_module = @import("../codec/columns.zig");
const concatenation = @import("concatenation.zig");
const errors = @import("../errors.zig");
const matrices = @import("../codec/matrix.zig");
const samples = @import("../fuzz_samples.zig");
const File = @import("../container/file.zig").File;

const testing = std.testing;
const Columns = columns_module.Columns;
const Concatenation = concatenation.Concatenation;
const DenseOptions = matrices.DenseOptions;
const Matrix = matrices.Matrix;
const Member = concatenation.Member;
const Report = errors.Report;
const Scratch = matrices.Scratch;

const test_outputs = 40;

/// Maps of each order from the columns of a matrix, to `test_outputs` columns.
fn fillMap(order: columns_module.Order, map: []i32) void {
    const step = map.len / test_outputs;
    for (map, 0..) |*output, column| {
        const place: i32 = @intCast(column / step);
        output.* = switch (order) {
            .ascending => if (column % step == 1 and place < test_outputs) place else columns_module.not_kept,
            .mixed => if (column % step == 0 and place < test_outputs) @mod(7 * place + 3, test_outputs) else columns_module.not_kept,
            .shared => if (column % 5 == 0) columns_module.not_kept else @intCast(column * 13 % test_outputs),
        };
    }
}

/// A row worked out value by value from what the matrix stores.
const PlainRow = struct {
    stored: [test_outputs]bool = @splat(false),
    results: [test_outputs]f64 = @splat(0),
    centre: f64 = 0,
    factor: f64 = 1,
    logged: bool,

    fn of(matrix: *const Matrix, row: u64, map: []const i32, options: DenseOptions, scratch: *Scratch) !PlainRow {
        var report: Report = .{};
        const found = try matrix.openRow(@intCast(row), scratch, &report);
        try matrix.rowValues(&found, .f64, scratch, @ptrCast(scratch.arrays.values), &report);
        const values = scratch.arrays.values[0..found.row.n_values];
        var self: PlainRow = .{ .logged = options.log1p or options.pflog_alpha != 0 };
        var depth: f64 = 0;
        for (values) |value| depth += if (options.log1p) @max(value, 0) else value;
        if (options.normalize and depth > 0) self.factor = options.target_sum / depth;
        if (options.pflog_alpha != 0) {
            self.factor = 4 * options.pflog_alpha;
            for (values) |value| self.centre += self.change(value);
            self.centre /= @floatFromInt(matrix.n_cols);
        }
        for (values, scratch.arrays.row.columns) |value, column| {
            if (map[column] < 0) continue;
            self.stored[@intCast(map[column])] = true;
            self.results[@intCast(map[column])] += value;
        }
        for (&self.results) |*result| result.* = self.change(result.*) - self.centre;
        return self;
    }

    fn change(self: *const PlainRow, value: f64) f64 {
        return if (self.logged) std.math.log1p(@max(value, 0) * self.factor) else value * self.factor;
    }
};

const TestMember = struct {
    file: *File,
    matrix: *Matrix,
    map: []i32,
    columns: Columns,

    fn open(sample: *const samples.Sample, selector: usize, order: columns_module.Order, options: DenseOptions) !TestMember {
        var report: Report = .{};
        const file = try File.fromBytes(testing.allocator, sample.bytes, .{ .verify = true }, &report);
        errdefer file.closeBorrowed();
        const matrix = try Matrix.open(testing.allocator, file, sample.selectors[selector], &report);
        errdefer matrix.close();
        const map = try testing.allocator.alloc(i32, matrix.n_cols);
        errdefer testing.allocator.free(map);
        fillMap(order, map);
        const columns: Columns = try .init(testing.allocator, matrix.n_cols, map, test_outputs, options, &report);
        try testing.expectEqual(order, columns.order);
        return .{ .file = file, .matrix = matrix, .map = map, .columns = columns };
    }

    fn close(self: *TestMember) void {
        self.columns.deinit();
        testing.allocator.free(self.map);
        self.matrix.close();
        self.file.closeBorrowed();
    }
};

fn expectNear(expected: f64, found: f32) !void {
    // results are float32, and PFlog takes the difference of two of them
    try testing.expectApproxEqAbs(expected, found, 1e-6 * @max(1, @abs(expected)));
}

fn expectDense(whole: *const Concatenation, row: u64, plain: *const PlainRow, scratch: *Scratch) !void {
    var report: Report = .{};
    var out: [test_outputs]f32 = @splat(std.math.nan(f32));
    try whole.denseRow(whole.places.placeOf(row), scratch, .through_caches, @ptrCast(&out), &report);
    for (plain.results, out) |expected, value| try expectNear(expected, value);
}

fn expectCsr(whole: *const Concatenation, row: u64, plain: *const PlainRow, scratch: *Scratch) !void {
    var report: Report = .{};
    const room: usize = @intCast(whole.roomOf(@intCast(row)));
    const indices = try testing.allocator.alloc(i32, room);
    defer testing.allocator.free(indices);
    const values = try testing.allocator.alloc(f32, room);
    defer testing.allocator.free(values);
    const count = try whole.csrRow(whole.places.placeOf(row), scratch, indices, values, &report);
    var next: usize = 0;
    for (plain.stored, plain.results, 0..) |is_stored, expected, output| {
        if (!is_stored) continue;
        try testing.expect(next < count);
        try testing.expectEqual(@as(i32, @intCast(output)), indices[next]);
        try expectNear(expected, values[next]);
        next += 1;
    }
    try testing.expectEqual(next, count);
}

test "rows of several matrices are as the plain way makes them, whatever the maps do with the columns" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    const signed = 8;
    const wide = 9; // 4,000 columns
    for ([_]DenseOptions{
        .{},
        .{ .normalize = true, .target_sum = 100 },
        .{ .log1p = true },
        .{ .normalize = true, .log1p = true },
        .{ .pflog_alpha = 0.05 },
    }) |options| for ([_][3]columns_module.Order{
        .{ .ascending, .mixed, .shared }, .{ .shared, .ascending, .mixed }, .{ .mixed, .shared, .ascending },
    }) |orders| {
        var report: Report = .{};
        var members: [3]TestMember = undefined;
        members[0] = try .open(&made[0], 0, orders[0], options);
        defer members[0].close();
        members[1] = try .open(&made[0], wide, orders[1], options);
        defer members[1].close();
        members[2] = try .open(&made[1], signed, orders[2], options);
        defer members[2].close();
        var list: [3]Member = undefined;
        for (&list, &members) |*member, *own| member.* = .{ .matrix = own.matrix, .columns = &own.columns };
        var whole: Concatenation = try .init(testing.allocator, &list, &report);
        defer whole.deinit();
        try testing.expectEqual(3 * members[0].matrix.n_rows, whole.rowCount());
        var scratch = try whole.initScratch(testing.allocator);
        defer scratch.deinit();
        for (0..@intCast(whole.rowCount())) |row| {
            const own = &members[row / @as(usize, @intCast(members[0].matrix.n_rows))];
            const plain: PlainRow = try .of(own.matrix, row % own.matrix.n_rows, own.map, options, &scratch);
            try expectDense(&whole, row, &plain, &scratch);
            if (options.pflog_alpha == 0) try expectCsr(&whole, row, &plain, &scratch);
        }
    };
}

test "a row that has other room than values is refused, and says in which file" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    var report: Report = .{};
    for (std.enums.values(columns_module.Order)) |order| {
        var own: TestMember = try .open(&made[0], 0, order, .{});
        defer own.close();
        const member: Member = .{ .matrix = own.matrix, .columns = &own.columns };
        var whole: Concatenation = try .init(testing.allocator, &.{ member, member }, &report);
        defer whole.deinit();
        var scratch = try whole.initScratch(testing.allocator);
        defer scratch.deinit();
        var indices: [90]i32 = undefined;
        var values: [90]f32 = undefined;
        const room: usize = @intCast(whole.roomOf(12));
        for ([_]usize{ room - 1, room + 1 }) |length| {
            const place = whole.places.placeOf(12);
            try testing.expectError(error.Corrupt, whole.csrRow(place, &scratch, indices[0..length], values[0..length], &report));
            try testing.expectEqualStrings("file 1: row 0 has another number of values than the table of its shard says", report.messageText());
        }
    }
}

test "members whose columns do not fit are refused" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    var report: Report = .{};
    var narrow: TestMember = try .open(&made[0], 0, .mixed, .{});
    defer narrow.close();
    var wide: TestMember = try .open(&made[0], 9, .mixed, .{});
    defer wide.close();
    const good: Member = .{ .matrix = narrow.matrix, .columns = &narrow.columns };
    const crossed: Member = .{ .matrix = wide.matrix, .columns = &narrow.columns };
    try testing.expectError(error.BadArgument, Concatenation.init(testing.allocator, &.{ good, crossed }, &report));
    try testing.expectEqualStrings("file 1: its matrix has 4000 columns, its map 90", report.messageText());
    var all: Columns = try .init(testing.allocator, 90, null, 90, .{}, &report);
    defer all.deinit();
    const other: Member = .{ .matrix = narrow.matrix, .columns = &all };
    try testing.expectError(error.BadArgument, Concatenation.init(testing.allocator, &.{ good, other }, &report));
    try testing.expectEqualStrings("file 1: its map has 90 output columns, that of the first file 40", report.messageText());
}
