//! A dense row from its values: zeros with the values at their places, in the output's own type.
//!
//! The row is put together in a piece that stays in the first cache and leaves it whole cache lines at a time. Large
//! batches leave past the caches: stores of that kind do not read the line first, which halves what goes through the
//! memory, and what was read of the file stays in the caches instead. It is also where float32 becomes a half.

const std = @import("std");
const builtin = @import("builtin");

const assert = std.debug.assert;

/// Elements of a dense batch. Numbers beyond a type's range become infinite, all round to the nearest, ties to even.
pub const Output = enum(u32) {
    f32 = 0,
    f16 = 1,
    /// The upper half of a float32.
    bf16 = 2,

    pub fn bytes(self: Output) usize {
        return if (self == .f32) 4 else 2;
    }
};

/// Elements that are put together at a time: 8 KiB, and a panel of 2,000 genes is one piece.
pub const piece_length = 2048;
pub const Piece = [piece_length]f32;

/// Where a batch goes.
pub const Way = enum(u32) {
    /// Into the caches, where its reader finds it.
    through_caches = 0,
    past_caches = 1,

    /// Batches of so many bytes would not be in the caches any more when they are read: several are made ahead.
    const streamed_bytes_min = 4 * 1024 * 1024;

    pub fn ofBatch(batch_bytes: usize) Way {
        return if (batch_bytes >= streamed_bytes_min) .past_caches else .through_caches;
    }
};

/// A cache line, which is what leaves past the caches at once.
const line_bytes = 64;

pub const Emission = extern struct {
    n_output: u32,
    output: Output,
    way: Way,
    /// What stands where no value is.
    background: f32,
};

/// The values of a row as they are.
pub const Values = struct {
    values: [*]const f32,

    inline fn at(self: Values, index: usize) f32 {
        return self.values[index];
    }
};

/// `slots`, u32 or u16, and `values` are the row's; slots are below n_output, and of equal ones
/// the last counts. They mostly ascend; where they do not, a row of more than a piece goes the plain way. `piece` holds
/// zeros, before and after. Every element of `out` is written.
pub fn emitRow(
    emission: *const Emission,
    slots: anytype,
    values: anytype,
    piece: *align(line_bytes) Piece,
    out: [*]u8,
) void {
    if (emission.n_output > piece_length and !ascends(slots)) return switch (emission.output) {
        inline else => |output| emitPlainly(output, emission, slots, values, out),
    };
    var next: usize = 0;
    var start: u32 = 0;
    while (start < emission.n_output) {
        const length: u32 = @min(piece_length, emission.n_output - start);
        if (emission.background != 0) @memset(piece[0..length], emission.background);
        while (next < slots.len) : (next += 1) {
            const place = @as(u32, slots[next]) -% start;
            if (place >= length) break;
            piece[place] = values.at(next);
        }
        const target = out + start * emission.output.bytes();
        switch (emission.output) {
            inline else => |output| leave(output, emission.way, piece[0..length], target),
        }
        start += length;
    }
    assert(next == slots.len);
}

fn ascends(slots: anytype) bool {
    if (slots.len < 2) return true;
    var descents: u32 = 0;
    for (slots[0 .. slots.len - 1], slots[1..]) |slot, next| descents |= @intFromBool(next < slot);
    return descents == 0;
}

/// Element by element, in any order.
fn emitPlainly(comptime output: Output, emission: *const Emission, slots: anytype, values: anytype, out: [*]u8) void {
    const target: [*]align(1) Element(output) = @ptrCast(out);
    @memset(target[0..emission.n_output], convert(output, 1, .{emission.background})[0]);
    for (slots, 0..) |slot, index| target[slot] = convert(output, 1, .{values.at(index)})[0];
}

fn Element(comptime output: Output) type {
    return switch (output) {
        .f32 => f32,
        .f16 => f16,
        .bf16 => u16,
    };
}

/// Copies the piece, converted, and leaves zeros.
fn leave(comptime output: Output, way: Way, piece: []f32, out: [*]u8) void {
    const T = Element(output);
    const lanes = line_bytes / @sizeOf(T);
    const target: [*]align(1) T = @ptrCast(out);
    var at: usize = 0;
    if (way == .past_caches) {
        // whole lines alone can be streamed, and rows begin anywhere
        const ahead = (line_bytes - @intFromPtr(out) % line_bytes) % line_bytes;
        assert(ahead % @sizeOf(T) == 0);
        const head = @min(piece.len, ahead / @sizeOf(T));
        while (at < head) : (at += 1) target[at] = convert(output, 1, take(1, piece, at))[0];
        while (at + lanes <= piece.len) : (at += lanes) {
            const line: *align(line_bytes) @Vector(lanes, T) = @ptrCast(@alignCast(target + at));
            storePast(line, convert(output, lanes, take(lanes, piece, at)));
        }
    } else {
        while (at + lanes <= piece.len) : (at += lanes) {
            target[at..][0..lanes].* = convert(output, lanes, take(lanes, piece, at));
        }
    }
    while (at < piece.len) : (at += 1) target[at] = convert(output, 1, take(1, piece, at))[0];
}

/// Copies a part of a row as it is.
pub fn copyWords(way: Way, source: []const u32, target: [*]u32) void {
    const lanes = line_bytes / 4;
    var at: usize = 0;
    if (way == .past_caches) {
        const ahead = (line_bytes - @intFromPtr(target) % line_bytes) % line_bytes;
        const head = @min(source.len, ahead / 4);
        while (at < head) : (at += 1) target[at] = source[at];
        while (at + lanes <= source.len) : (at += lanes) {
            const line: *align(line_bytes) @Vector(lanes, u32) = @ptrCast(@alignCast(target + at));
            storePast(line, source[at..][0..lanes].*);
        }
    } else {
        while (at + lanes <= source.len) : (at += lanes) {
            const words: @Vector(lanes, u32) = source[at..][0..lanes].*;
            target[at..][0..lanes].* = words;
        }
    }
    while (at < source.len) : (at += 1) target[at] = source[at];
}

/// Numbers in a smaller type, which has room for them.
pub fn narrowWords(comptime Narrow: type, source: []const u32, target: [*]Narrow) void {
    const lanes = line_bytes / 4;
    var at: usize = 0;
    while (at + lanes <= source.len) : (at += lanes) {
        const words: @Vector(lanes, u32) = source[at..][0..lanes].*;
        const narrow: @Vector(lanes, Narrow) = @truncate(words);
        target[at..][0..lanes].* = narrow;
    }
    while (at < source.len) : (at += 1) target[at] = @intCast(source[at]);
}

/// Takes elements out and leaves zeros.
inline fn take(comptime lanes: usize, piece: []f32, at: usize) @Vector(lanes, f32) {
    const taken: @Vector(lanes, f32) = piece[at..][0..lanes].*;
    piece[at..][0..lanes].* = @splat(0);
    return taken;
}

inline fn convert(comptime output: Output, comptime lanes: usize, values: @Vector(lanes, f32)) @Vector(lanes, Element(output)) {
    return switch (output) {
        .f32 => values,
        .f16 => @floatCast(values),
        .bf16 => roundToUpperHalf(lanes, values),
    };
}

inline fn roundToUpperHalf(comptime lanes: usize, values: @Vector(lanes, f32)) @Vector(lanes, u16) {
    const Words = @Vector(lanes, u32);
    const words: Words = @bitCast(values);
    const sixteen: @Vector(lanes, u5) = @splat(16);
    const odd = words >> sixteen & @as(Words, @splat(1));
    const rounded = words +% @as(Words, @splat(0x7fff)) +% odd;
    // a NaN's payload must not be rounded away to infinity: it keeps its upper half and becomes quiet
    const quiet = words | @as(Words, @splat(0x0040_0000));
    const is_number = values == values;
    return @truncate(@select(u32, is_number, rounded, quiet) >> sixteen);
}

/// Stores a whole line past the caches where the CPU can.
inline fn storePast(line: anytype, value: @TypeOf(line.*)) void {
    if (builtin.cpu.arch != .x86_64) {
        line.* = value;
        return;
    }
    const width = comptime if (builtin.cpu.has(.x86, .avx512f)) 64 else if (builtin.cpu.has(.x86, .avx)) 32 else 16;
    // from vector to vector: by way of an array it would go byte by byte
    const all: @Vector(line_bytes / 4, u32) = @bitCast(value);
    inline for (0..line_bytes / width) |part| {
        const words = std.simd.extract(all, part * width / 4, width / 4);
        const target = @as([*]u8, @ptrCast(line)) + part * width;
        if (width == 64) {
            asm volatile ("vmovntps %[words], (%[target])"
                :
                : [target] "r" (target),
                  [words] "v" (words),
                : .{ .memory = true });
        } else if (width == 32) {
            asm volatile ("vmovntps %[words], (%[target])"
                :
                : [target] "r" (target),
                  [words] "x" (words),
                : .{ .memory = true });
        } else {
            asm volatile ("movntps %[words], (%[target])"
                :
                : [target] "r" (target),
                  [words] "x" (words),
                : .{ .memory = true });
        }
    }
}

/// Before another thread is told that rows which left past the caches are there.
pub inline fn finishStreaming() void {
    if (builtin.cpu.arch != .x86_64) return;
    asm volatile ("sfence" ::: .{ .memory = true });
}

const testing = std.testing;

fn expectRow(emission: Emission, slots: []const u32, values: []const f32, offset: usize) !void {
    const size = emission.output.bytes();
    const memory = try testing.allocator.alignedAlloc(u8, .@"64", (emission.n_output + 80) * size);
    defer testing.allocator.free(memory);
    @memset(memory, 0xa5);
    var piece: Piece align(line_bytes) = @splat(0);
    const out = memory.ptr + offset * size;
    emitRow(&emission, slots, Values{ .values = values.ptr }, &piece, out);
    finishStreaming();
    for (piece) |entry| try testing.expectEqual(@as(f32, 0), entry);
    for (memory[0 .. offset * size]) |byte| try testing.expectEqual(@as(u8, 0xa5), byte);
    for (memory[(offset + emission.n_output) * size ..]) |byte| try testing.expectEqual(@as(u8, 0xa5), byte);
    const expected = try testing.allocator.alloc(f32, emission.n_output);
    defer testing.allocator.free(expected);
    @memset(expected, emission.background);
    for (slots, values) |slot, value| expected[slot] = value;
    for (expected, 0..) |want, index| switch (emission.output) {
        .f32 => try testing.expectEqual(want, std.mem.bytesToValue(f32, out[index * 4 ..][0..4])),
        .f16 => try testing.expectEqual(@as(f16, @floatCast(want)), std.mem.bytesToValue(f16, out[index * 2 ..][0..2])),
        .bf16 => try testing.expectEqual(upperHalf(want), std.mem.bytesToValue(u16, out[index * 2 ..][0..2])),
    };
}

/// By distance: the nearer one of the two neighbours, the even one in the middle.
fn upperHalf(value: f32) u16 {
    const word: u32 = @bitCast(value);
    const below: u16 = @intCast(word >> 16);
    const rest = word & 0xffff;
    if (rest > 0x8000 or (rest == 0x8000 and below & 1 == 1)) return below + 1;
    return below;
}

test "rows of every type and length, at every alignment, ascending or not" {
    var random = std.Random.DefaultPrng.init(13);
    var slots: [500]u32 = undefined;
    var values: [500]f32 = undefined;
    for (0..600) |round| {
        const n_output = random.random().intRangeAtMost(u32, 1, if (round % 4 == 0) 3 * piece_length else 100);
        const count = random.random().uintAtMost(usize, @min(n_output, slots.len));
        for (slots[0..count], values[0..count]) |*slot, *value| {
            slot.* = random.random().uintLessThan(u32, n_output);
            value.* = random.random().floatNorm(f32) * 100;
        }
        if (round % 3 != 0) std.mem.sort(u32, slots[0..count], {}, std.sort.asc(u32));
        for (std.enums.values(Way)) |way| for (std.enums.values(Output)) |output| {
            const emission: Emission = .{
                .n_output = n_output,
                .output = output,
                .way = way,
                .background = if (round % 5 == 0) -1.5 else 0,
            };
            try expectRow(emission, slots[0..count], values[0..count], round % 33);
        };
    }
}

test "words copied either way, at every alignment and length" {
    var source: [100]u32 = undefined;
    for (&source, 0..) |*word, index| word.* = @intCast(index * 7 + 1);
    for (std.enums.values(Way)) |way| for (0..17) |offset| for (0..source.len + 1) |count| {
        var memory: [source.len + 40]u32 align(line_bytes) = @splat(0xa5a5_a5a5);
        copyWords(way, source[0..count], memory[offset..].ptr);
        finishStreaming();
        try testing.expectEqualSlices(u32, source[0..count], memory[offset..][0..count]);
        for (memory[0..offset]) |word| try testing.expectEqual(@as(u32, 0xa5a5_a5a5), word);
        for (memory[offset + count ..]) |word| try testing.expectEqual(@as(u32, 0xa5a5_a5a5), word);
    };
}

test "narrow words, at every length" {
    inline for ([_]type{ u8, u16 }) |Narrow| {
        var source: [100]u32 = undefined;
        for (&source, 0..) |*word, index| word.* = @intCast(std.math.maxInt(Narrow) - index);
        for (0..source.len + 1) |count| {
            var narrow: [source.len]Narrow = @splat(7);
            narrowWords(Narrow, source[0..count], &narrow);
            for (source[0..count], narrow[0..count]) |word, own| try testing.expectEqual(word, own);
            for (narrow[count..]) |own| try testing.expectEqual(7, own);
        }
    }
}

test "rounding to halves: ties, overflow, NaN" {
    const values = [_]f32{ 1.00390625, 1.01171875, 3.4e38, std.math.inf(f32), -0.0, 1e-40 };
    const halves: [6]u16 = roundToUpperHalf(6, values);
    // 1 + 2^-8 lies between 0x3f80 and 0x3f81, 1 + 3 * 2^-8 between 0x3f81 and 0x3f82
    try testing.expectEqual([6]u16{ 0x3f80, 0x3f82, 0x7f80, 0x7f80, 0x8000, 0x0001 }, halves);
    const nan = roundToUpperHalf(1, .{@as(f32, @bitCast(@as(u32, 0x7f80_0001)))})[0];
    try testing.expectEqual(@as(u16, 0x7fc0), nan);
    try testing.expect(std.math.isInf(convert(.f16, 1, .{65520})[0]));
    try testing.expectEqual(@as(f16, 65504), convert(.f16, 1, .{65519})[0]);
    // 1 + 2^-11 and 1 + 3 * 2^-11: ties in float16
    try testing.expectEqual(@as(f16, 1), convert(.f16, 1, .{1.00048828125})[0]);
    try testing.expectEqual(@as(f16, 1.001953125), convert(.f16, 1, .{1.00146484375})[0]);
}
