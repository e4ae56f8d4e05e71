//! Rows of several matrices, with columns that are left out, exchanged and added up, against a row worked out value by
//! value.

const std = @import("std");
const columns_module = @import("../codec/columns.zig");
const concatenation = @import("concatenation.zig");
const downsample = @import("../kernels/downsample.zig");
const emit = @import("../kernels/emit.zig");
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
const Transform = @import("../kernels/transform.zig").Transform;

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
    const count = try whole.csrRow(whole.places.placeOf(row), scratch, .through_caches, indices, values, &report);
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
        var whole: Concatenation = try .init(testing.allocator, &list, .{}, &report);
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

/// A row that is clipped and may be drawn, one value at a time.
const ChangedRow = struct {
    sums: [plain_columns]f64 = @splat(0),
    is_there: [plain_columns]bool = @splat(false),
    indices: [plain_columns]i32 = undefined,
    values: [plain_columns]f32 = undefined,
    count: usize = 0,

    const plain_columns = 5000; // more than one digit of sort_row

    fn of(matrix: *const Matrix, map: ?[]const i32, row: i64, transform: Transform, draw: ?downsample.Draw, scratch: *Scratch) !*ChangedRow {
        const self = try testing.allocator.create(ChangedRow);
        errdefer testing.allocator.destroy(self);
        self.* = .{};
        var report: Report = .{};
        const found = try matrix.openRow(row, scratch, &report);
        const stored = scratch.arrays.values[0..found.row.n_values];
        try matrix.rowValues(&found, .f64, scratch, @ptrCast(stored.ptr), &report);
        var depth: f64 = 0;
        for (stored, scratch.arrays.row.columns[0..stored.len]) |value, column| {
            if (value > 0) depth += value;
            const new = if (map) |entries| entries[column] else @as(i32, @intCast(column));
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
        if (draw) |one| {
            try one.drawRow(test_identity, @intCast(row), self.values[0..self.count]);
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
        const scale = transform.factor(depth);
        for (self.indices[0..self.count], self.values[0..self.count]) |column, *value| {
            const exact: f64 = if (draw != null) value.* else self.sums[@intCast(column)];
            value.* = if (transform.isIdentity()) @floatCast(exact) else transform.applyOne(exact, scale);
        }
        return self;
    }
};

const test_identity = 7;

fn expectChanged(matrix: *const Matrix, map: ?[]const i32, transform: Transform, draw: ?downsample.Draw) !void {
    var report: Report = .{};
    var columns: Columns = try .init(testing.allocator, matrix.n_cols, map, ChangedRow.plain_columns, .{
        .normalize = transform.normalize,
        .log1p = transform.log1p,
        .target_sum = transform.target_sum,
    }, &report);
    defer columns.deinit();
    const member: Member = .{ .matrix = matrix, .columns = &columns, .file_identity = test_identity };
    var whole: Concatenation = try .init(testing.allocator, &.{member}, .{ .clips = true, .draw = draw }, &report);
    defer whole.deinit();
    var scratch = try whole.initScratch(testing.allocator);
    defer scratch.deinit();
    var indices: [ChangedRow.plain_columns]i32 = undefined;
    var values: [ChangedRow.plain_columns]f32 = undefined;
    for (0..@intCast(matrix.n_rows)) |row| {
        const plain = try ChangedRow.of(matrix, map, @intCast(row), transform, draw, &scratch);
        defer testing.allocator.destroy(plain);
        const length: usize = @intCast(whole.roomOf(@intCast(row)));
        for ([_]emit.Way{ .through_caches, .past_caches }) |way| {
            @memset(&values, 12345);
            const count = try whole.csrRow(whole.places.placeOf(row), &scratch, way, indices[0..length], values[0..length], &report);
            emit.finishStreaming();
            try testing.expectEqualSlices(i32, plain.indices[0..plain.count], indices[0..count]);
            // totals in tables are sums in another order
            for (plain.values[0..count], values[0..count]) |wanted, found| try testing.expectApproxEqRel(wanted, found, 3e-7);
        }
    }
}

const test_transforms = [_]Transform{
    .{ .normalize = false, .log1p = false, .target_sum = 1 },
    .{ .normalize = true, .log1p = true, .target_sum = 1e4 },
    .{ .normalize = true, .log1p = false, .target_sum = 100 },
};

fn expectChangedMatrix(matrix: *const Matrix, random: std.Random) !void {
    var maps: [4][90]i32 = undefined;
    for (0..90) |column| {
        const number: i32 = @intCast(column);
        maps[0][column] = if (number & 3 == 1) -1 else 50 * number; // ascends, with gaps
        maps[1][column] = 4999 - number; // another order
        maps[2][column] = random.intRangeLessThan(i32, -1, 30); // columns meet
        maps[3][column] = -1;
    }
    for ([_]?[]const i32{ null, &maps[0], &maps[1], &maps[2], &maps[3] }) |entries| {
        const map = if (entries) |all| all[0..matrix.n_cols] else null;
        for (test_transforms) |transform| {
            try expectChanged(matrix, map, transform, null);
            for ([_]downsample.Method{ .binomial, .multinomial }) |method| {
                try expectChanged(matrix, map, transform, .{ .method = method, .target = 9, .seed = 3 });
            }
        }
    }
}

test "rows that are clipped and drawn are as the plain way makes them" {
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
        // draws take counts alone, and the maps have 90 entries
        const is_counts = for ([_][]const u8{ "X", "bytes" }) |name| {
            if (std.mem.eql(u8, selector.name, name)) break true;
        } else false;
        if (!is_counts or matrix.n_cols > 90) continue;
        n_matrices += 1;
        try expectChangedMatrix(matrix, random.random());
    }
    try testing.expectEqual(@as(usize, 2), n_matrices);
}

test "values of any kind are clipped, and find their columns" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    for (made) |sample| {
        var report: Report = .{};
        const file = try File.fromBytes(testing.allocator, sample.bytes, .{ .verify = true }, &report);
        defer file.closeBorrowed();
        for (sample.selectors) |selector| {
            const matrix = try Matrix.open(testing.allocator, file, selector, &report);
            defer matrix.close();
            if (matrix.n_cols > ChangedRow.plain_columns) continue;
            var map: [ChangedRow.plain_columns]i32 = undefined;
            for (&map, 0..) |*new, column| new.* = @intCast((column * 37) % 11);
            const logged: Transform = .{ .normalize = false, .log1p = true, .target_sum = 1 };
            try expectChanged(matrix, map[0..matrix.n_cols], logged, null);
            try expectChanged(matrix, null, test_transforms[0], null);
        }
    }
}

test "a row that has other room than values is refused, and says in which file" {
    const made = try samples.make(testing.allocator);
    defer samples.free(testing.allocator, made);
    var report: Report = .{};
    for (std.enums.values(columns_module.Order)) |order| {
        var own: TestMember = try .open(&made[0], 0, order, .{});
        defer own.close();
        const member: Member = .{ .matrix = own.matrix, .columns = &own.columns };
        var whole: Concatenation = try .init(testing.allocator, &.{ member, member }, .{}, &report);
        defer whole.deinit();
        var scratch = try whole.initScratch(testing.allocator);
        defer scratch.deinit();
        var indices: [90]i32 = undefined;
        var values: [90]f32 = undefined;
        const room: usize = @intCast(whole.roomOf(12));
        for ([_]usize{ room - 1, room + 1 }) |length| {
            const place = whole.places.placeOf(12);
            try testing.expectError(error.Corrupt, whole.csrRow(place, &scratch, .through_caches, indices[0..length], values[0..length], &report));
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
    try testing.expectError(error.BadArgument, Concatenation.init(testing.allocator, &.{ good, crossed }, .{}, &report));
    try testing.expectEqualStrings("file 1: its matrix has 4000 columns, its map 90", report.messageText());
    var all: Columns = try .init(testing.allocator, 90, null, 90, .{}, &report);
    defer all.deinit();
    const other: Member = .{ .matrix = narrow.matrix, .columns = &all };
    try testing.expectError(error.BadArgument, Concatenation.init(testing.allocator, &.{ good, other }, .{}, &report));
    try testing.expectEqualStrings("file 1: its map has 90 output columns, that of the first file 40", report.messageText());
}
