//! The memory of one decoding thread. It grows to the longest row that it meets: a matrix may have far more columns than
//! memory has room for.

const std = @import("std");
const dense = @import("../kernels/dense.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const rowpack_decode = @import("rowpack_decode.zig");
const sort_row = @import("sort_row.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;

pub const Scratch = struct {
    allocator: Allocator,
    memory: []align(64) u8,
    /// Values that a row may have.
    capacity: u32,
    capacity_max: u32,
    arrays: dense.DenseScratch,

    /// Few rows are longer: 2 MB.
    const capacity_start = 1 << 16;

    /// For rows of matrices that have at most `n_cols` columns.
    pub fn init(allocator: Allocator, n_cols: u32) Failure!Scratch {
        return create(allocator, @min(n_cols, capacity_start), n_cols);
    }

    fn create(allocator: Allocator, capacity: u32, capacity_max: u32) Failure!Scratch {
        const elements: usize = capacity + rowpack_decode.scratch_slack;
        // the piece first, then columns, codes (twice), positions, tier: u32; values: f64; table: f32
        const bytes = @sizeOf(emit.Piece) + elements * (5 * 4 + 8) + dense.table_length * 4;
        const memory = try allocator.alignedAlloc(u8, .@"64", bytes);
        const piece: *align(64) emit.Piece = @ptrCast(memory.ptr);
        piece.* = @splat(0);
        const words: [*]align(8) u32 = @ptrCast(@alignCast(memory.ptr + @sizeOf(emit.Piece)));
        const values: [*]f64 = @ptrCast(words);
        return .{
            .allocator = allocator,
            .memory = memory,
            .capacity = capacity,
            .capacity_max = capacity_max,
            .arrays = .{
                .values = values,
                .row = .{
                    .codes = @alignCast(words + 2 * elements),
                    .columns = words + 4 * elements,
                    .positions = words + 5 * elements,
                    .tier = words + 6 * elements,
                },
                .table = @ptrCast(words + 7 * elements),
                .piece = piece,
            },
        };
    }

    pub fn deinit(self: *Scratch) void {
        self.allocator.free(self.memory);
    }

    /// Room for a row; what the scratch held is lost. `n_values` is at most the matrix's number of columns.
    pub inline fn reserve(self: *Scratch, n_values: u32) Failure!void {
        if (n_values > self.capacity) try self.grow(n_values);
    }

    /// Room for the entries of the row that was decoded last, which then has no codes any more.
    pub fn entries(self: *const Scratch, count: usize) []align(4) sort_row.Entry {
        assert(count <= self.capacity);
        return @as([*]align(4) sort_row.Entry, @ptrCast(self.arrays.row.codes))[0..count];
    }

    /// As much again, instead of positions and tiers.
    pub fn spareEntries(self: *const Scratch, count: usize) []align(4) sort_row.Entry {
        assert(count <= self.capacity);
        // the two arrays lie end to end
        assert(self.arrays.row.tier == self.arrays.row.positions + self.capacity + rowpack_decode.scratch_slack);
        return @as([*]align(4) sort_row.Entry, @ptrCast(self.arrays.row.positions))[0..count];
    }

    /// By half as much again, so that rows which are a little longer each time do not all allocate.
    fn grow(self: *Scratch, n_values: u32) Failure!void {
        assert(n_values <= self.capacity_max);
        const larger = try create(self.allocator, @min(n_values +| n_values / 2, self.capacity_max), self.capacity_max);
        self.deinit();
        self.* = larger;
    }
};

const testing = std.testing;

/// Writes to every element that a row of `n_values` may use, a number of its own for each array, and reads them back.
fn expectApart(scratch: *Scratch, n_values: u32) !void {
    const arrays = &scratch.arrays;
    const length = n_values + rowpack_decode.scratch_slack;
    // values share their place with nothing that is needed at the same time as they are
    @memset(arrays.values[0..length], 0.5);
    @memset(arrays.row.codes[0 .. 2 * length], 1);
    @memset(arrays.row.columns[0..length], 2);
    @memset(arrays.row.positions[0..length], 3);
    @memset(arrays.row.tier[0..length], 4);
    @memset(arrays.table[0..dense.table_length], 5);
    for (arrays.values[0..length]) |value| try testing.expectEqual(0.5, value);
    for (arrays.row.codes[0 .. 2 * length]) |code| try testing.expectEqual(1, code);
    for (arrays.row.columns[0..length]) |column| try testing.expectEqual(2, column);
    for (arrays.row.positions[0..length]) |position| try testing.expectEqual(3, position);
    for (arrays.row.tier[0..length]) |code| try testing.expectEqual(4, code);
    for (arrays.table[0..dense.table_length]) |entry| try testing.expectEqual(5, entry);
    try testing.expectEqual(@as(emit.Piece, @splat(0)), arrays.piece.*);
}

test "the arrays do not overlap, also after it grew" {
    const n_cols = 3 * Scratch.capacity_start;
    var scratch: Scratch = try .init(testing.allocator, n_cols);
    defer scratch.deinit();
    try testing.expectEqual(Scratch.capacity_start, scratch.capacity);
    try expectApart(&scratch, scratch.capacity);
    for ([_]u32{ 5, Scratch.capacity_start + 1, n_cols }) |n_values| {
        try scratch.reserve(n_values);
        try testing.expect(scratch.capacity >= n_values and scratch.capacity <= n_cols);
        try expectApart(&scratch, scratch.capacity);
    }
}

test "entries and spare entries are apart from columns and values" {
    var scratch: Scratch = try .init(testing.allocator, 7);
    defer scratch.deinit();
    try testing.expectEqual(7, scratch.capacity);
    @memset(scratch.arrays.values[0..7], 0.25);
    @memset(scratch.arrays.row.columns[0..7], 9);
    @memset(scratch.entries(7), 1);
    @memset(scratch.spareEntries(7), 2);
    for (scratch.entries(7), scratch.spareEntries(7)) |entry, spare| {
        try testing.expectEqual(1, entry);
        try testing.expectEqual(2, spare);
    }
    for (scratch.arrays.values[0..7], scratch.arrays.row.columns[0..7]) |value, column| {
        try testing.expectEqual(0.25, value);
        try testing.expectEqual(9, column);
    }
}

test "a scratch that cannot grow keeps what it has" {
    var failing: testing.FailingAllocator = .init(testing.allocator, .{ .fail_index = 1 });
    var scratch: Scratch = try .init(failing.allocator(), 2 * Scratch.capacity_start);
    defer scratch.deinit();
    try testing.expectError(error.OutOfMemory, scratch.reserve(Scratch.capacity_start + 1));
    try expectApart(&scratch, scratch.capacity);
}
