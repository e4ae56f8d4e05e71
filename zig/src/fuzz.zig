//! Feeds damaged files to the reader and the decoder until the time is over.
//!
//!   scx-fuzz SECONDS [SEED]
//!
//! Each round takes a small good file, changes some bytes, and reads whatever can still be opened: with the checks on
//! as a user would, and with them off, so that the damage gets past the checksums and into the decoder. Compiled with
//! safety checks, so that any access out of bounds stops the program; every column must lie inside the matrix. The
//! seed is printed and can be given again.

const std = @import("std");
const concatenation = @import("pipeline/concatenation.zig");
const deletion_vectors = @import("container/deletion_vectors.zig");
const errors = @import("errors.zig");
const matrix_module = @import("codec/matrix.zig");
const samples = @import("fuzz_samples.zig");
const Columns = @import("codec/columns.zig").Columns;
const File = @import("container/file.zig").File;
const Matrix = matrix_module.Matrix;
const Report = errors.Report;
const validate = @import("codec/validate.zig");

const allocator = std.heap.c_allocator;

const rows_max = 1 << 12;
/// Columns of the batches that rows are put into.
const outputs = 20;

const Tally = struct {
    rounds: u64 = 0,
    opened: u64 = 0,
    rows: u64 = 0,
    refused_rows: u64 = 0,
    deleted: u64 = 0,
    refused_vectors: u64 = 0,
};

pub fn main(init: std.process.Init.Minimal) !void {
    var arguments = try init.args.iterateAllocator(allocator);
    defer arguments.deinit();
    _ = arguments.skip();
    const seconds = try std.fmt.parseInt(u64, arguments.next() orelse "60", 10);
    const seed = if (arguments.next()) |text| try std.fmt.parseInt(u64, text, 10) else samples.clockSeconds();
    std.debug.print("seed {d}, {d} seconds\n", .{ seed, seconds });
    const good = try samples.make(allocator);
    var prng = std.Random.DefaultPrng.init(seed);
    var tally: Tally = .{};
    const stop = samples.clockSeconds() + seconds;
    while (samples.clockSeconds() < stop) {
        for (0..64) |_| try round(prng.random(), good, &tally);
    }
    std.debug.print("{d} rounds: {d} files opened, {d} rows decoded, {d} refused, {d} rows deleted, {d} times refused\n", .{
        tally.rounds, tally.opened, tally.rows, tally.refused_rows, tally.deleted, tally.refused_vectors,
    });
    // a fuzzer that refuses everything, or nothing, tests nothing
    if (tally.opened == 0 or tally.rows == 0 or tally.refused_rows == 0) return error.NothingWasTested;
    if (tally.deleted == 0 or tally.refused_vectors == 0) return error.NothingWasTested;
}

fn round(random: std.Random, good: []const samples.Sample, tally: *Tally) !void {
    tally.rounds += 1;
    const sample = good[random.uintLessThan(usize, good.len)];
    const bytes = try samples.alignedCopy(allocator, sample.bytes);
    defer allocator.free(bytes);
    const length = damage(random, bytes);
    const verify = random.uintLessThan(u8, 4) == 0;
    if (!verify) samples.repairHashes(bytes[0..length]);
    var report: Report = .{};
    const file = File.fromBytes(allocator, bytes[0..length], .{ .verify = verify }, &report) catch return;
    defer file.closeBorrowed();
    tally.opened += 1;
    readDeleted(file, tally, &report) catch {
        tally.refused_vectors += 1;
    };
    for (sample.selectors) |selector| {
        const matrix = Matrix.open(allocator, file, selector, &report) catch continue;
        defer matrix.close();
        try readRows(matrix, tally);
        for (0..matrix.shards.len) |number| {
            validate.validateShard(allocator, matrix, @intCast(number), &report) catch {};
        }
    }
}

fn readDeleted(file: *const File, tally: *Tally, report: *Report) !void {
    const section = try deletion_vectors.find(file.sections, report) orelse return;
    const n_obs = file.header.n_obs;
    const ranges = try deletion_vectors.ranges(allocator, file.sections, n_obs, report);
    defer allocator.free(ranges);
    const n_rows = try deletion_vectors.count(file.sectionBytes(section), ranges, report);
    if (n_rows > 1 << 20) return; // a row may be named twice: that costs time, not safety
    const rows = try allocator.alloc(i64, @intCast(n_rows));
    defer allocator.free(rows);
    try deletion_vectors.fill(file.sectionBytes(section), ranges, rows, report);
    tally.deleted += n_rows;
    for (rows, 0..) |row, place| {
        if (row < 0 or row >= n_obs) @panic("a deleted row outside the file was let through");
        if (place > 0 and row <= rows[place - 1]) @panic("deleted rows out of order were let through");
    }
}

/// Some bytes set, flipped, copied or cut. Gives the new length.
fn damage(random: std.Random, bytes: []u8) usize {
    for (0..random.uintAtMost(usize, 6)) |_| {
        const at = random.uintLessThan(usize, bytes.len);
        switch (random.uintLessThan(u8, 4)) {
            0 => bytes[at] ^= @as(u8, 1) << random.int(u3),
            1 => bytes[at] = random.int(u8),
            2 => bytes[at] = if (random.boolean()) 0 else 0xff,
            else => {
                const count = @min(random.uintLessThan(usize, 16), bytes.len - at);
                const from = random.uintAtMost(usize, bytes.len - count);
                std.mem.copyForwards(u8, bytes[at..][0..count], bytes[from..][0..count]);
            },
        }
    }
    if (random.uintLessThan(u8, 16) == 0) return random.uintAtMost(usize, bytes.len);
    return bytes.len;
}

fn readRows(matrix: *Matrix, tally: *Tally) !void {
    var report: Report = .{};
    // a damaged header may promise more than a machine has; readers get an error for it, the fuzzer saves its time
    if (matrix.n_cols > 1 << 16 or matrix.n_rows > rows_max) return;
    var scratch = try matrix_module.Scratch.init(allocator, matrix.n_cols);
    defer scratch.deinit();
    const panel = [_]u32{0};
    var plan = try matrix_module.DensePlan.init(allocator, matrix, .{
        .normalize = true,
        .log1p = true,
        .panel = if (matrix.n_cols > 0 and tally.rounds % 2 == 0) &panel else null,
    }, &report);
    defer plan.deinit();
    const out = try allocator.alloc(f32, plan.n_output);
    defer allocator.free(out);
    const map = try allocator.alloc(i32, matrix.n_cols);
    defer allocator.free(map);
    for (map, 0..) |*output, column| output.* = if (column % 5 == 0) -1 else @intCast(column * 13 % outputs);
    var columns: Columns = try .init(allocator, matrix.n_cols, map, outputs, .{}, &report);
    defer columns.deinit();
    var rows: [rows_max]i64 = undefined;
    for (rows[0..@intCast(matrix.n_rows)], 0..) |*row, number| row.* = @intCast(number);
    matrix.startReadingRows(rows[0..@intCast(matrix.n_rows)]);
    for (0..@intCast(matrix.n_rows)) |row| {
        tally.rows += 1;
        matrix.prefetch(rows[0..@intCast(matrix.n_rows)], row);
        readRow(matrix, &plan, @intCast(row), &scratch, out, &report) catch {
            tally.refused_rows += 1;
        };
        try readRowElsewhere(matrix, &columns, row, &scratch);
    }
}

fn readRow(
    matrix: *Matrix,
    plan: *const matrix_module.DensePlan,
    row: i64,
    scratch: *matrix_module.Scratch,
    out: []f32,
    report: *Report,
) errors.Failure!void {
    const found = try matrix.openRow(row, scratch, report);
    for (scratch.arrays.row.columns[0..found.row.n_values]) |column| {
        if (column >= matrix.n_cols) @panic("a column outside the matrix was let through");
    }
    try matrix.rowValues(&found, .f64, scratch, @ptrCast(scratch.arrays.values), report);
    try matrix.denseRow(plan, row, scratch, .ofBatch(0), @ptrCast(out.ptr), report);
}

/// What batches are made of: the row with its columns put elsewhere, drawn down, put together with others, and sorted.
fn readRowElsewhere(matrix: *Matrix, columns: *const Columns, row: u64, scratch: *matrix_module.Scratch) !void {
    var report: Report = .{};
    const room: usize = @intCast(matrix.roomOf(row));
    const indices = try allocator.alloc(i32, room);
    defer allocator.free(indices);
    const values = try allocator.alloc(f32, room);
    defer allocator.free(values);
    const member: concatenation.Member = .{ .matrix = matrix, .columns = columns };
    for ([_]concatenation.RowChanges{
        .{},
        .{ .clips = true, .draw = if (row % 2 == 0) .{ .method = .multinomial, .target = 5, .seed = 1 } else null },
    }) |changes| {
        var whole: concatenation.Concatenation = try .init(allocator, &.{member}, changes, &report);
        defer whole.deinit();
        const place = whole.places.placeOf(row);
        if (whole.csrRow(place, scratch, .through_caches, indices, values, &report)) |count| try expectInside(indices[0..count]) else |_| {}
        var out: [outputs]f32 = undefined;
        whole.denseRow(place, scratch, .ofBatch(0), @ptrCast(&out), &report) catch {};
    }
}

fn expectInside(indices: []const i32) !void {
    for (indices) |index| if (index < 0 or index >= outputs) @panic("a column of a batch lies outside of it");
}
