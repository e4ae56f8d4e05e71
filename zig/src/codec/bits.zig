//! Little-endian bit streams of equal-width codes: code `i` of width `w` sits at bits `i*w .. (i+1)*w`.
//!
//! Eight codes take `w` whole bytes, so every group of eight starts at a byte. Unpacking a group needs one load for
//! up to four bits, two for up to eight: the loaded word is copied into all lanes and each lane shifts its own code
//! down. Wider codes are read one by one with an unaligned 8-byte load.
//!
//! Readers may load up to `over_read_bytes` past the last code; the caller's buffer must have them.

const std = @import("std");
const assert = std.debug.assert;

/// Bytes that must be readable behind every stream.
pub const over_read_bytes = 16;
/// Codes that may be written past the last one by `unpack`.
pub const over_write_codes = 16;

pub const width_max = 64;

pub fn packedBytes(count: u64, width: u8) u64 {
    return (count * width + 7) / 8;
}

pub inline fn load(comptime Word: type, source: [*]const u8) Word {
    return std.mem.readInt(Word, source[0..@sizeOf(Word)], .little);
}

pub inline fn lowMask(width: u8) u64 {
    return if (width == 64) std.math.maxInt(u64) else (@as(u64, 1) << @intCast(width)) - 1;
}

/// One code of up to 64 bits.
pub inline fn codeAt(source: [*]const u8, index: usize, width: u8) u64 {
    const bit = index * @as(usize, width);
    const shift: u6 = @intCast(bit & 7);
    const low = load(u64, source + bit / 8) >> shift;
    if (width <= 57) return low & lowMask(width);
    // up to 7 bits of the code lie in the ninth byte
    const high = @as(u64, source[bit / 8 + 8]) << 1 << (63 - shift);
    return (low | high) & lowMask(width);
}

/// Plain version: what `unpack` must give.
pub fn unpackScalar(source: [*]const u8, count: usize, width: u8, codes: [*]u32) void {
    assert(width <= 32);
    for (0..count) |index| codes[index] = @truncate(codeAt(source, index, width));
}

/// Writes `count` codes of up to 32 bits, and rubbish in up to `over_write_codes` more.
pub inline fn unpack(source: [*]const u8, count: usize, width: u8, codes: [*]u32) void {
    switch (width) {
        0 => @memset(codes[0..count], 0),
        inline 1...8 => |w| unpackGroups(w, source, count, codes),
        else => unpackScalar(source, count, width, codes),
    }
}

fn unpackGroups(comptime width: u8, source: [*]const u8, count: usize, codes: [*]u32) void {
    var group: usize = 0;
    const groups = (count + 7) / 8;
    while (group < groups) : (group += 1) {
        codes[group * 8 ..][0..8].* = unpackEight(width, source + group * width);
    }
}

/// Eight codes from `width` bytes. Loads 4 bytes, or 4 from the middle of the group too when width > 4.
pub inline fn unpackEight(comptime width: u8, source: [*]const u8) @Vector(8, u32) {
    comptime assert(width >= 1 and width <= 8);
    const mask: @Vector(8, u32) = @splat((1 << width) - 1);
    if (width <= 4) {
        const words: @Vector(8, u32) = @splat(load(u32, source));
        return (words >> comptime shifts(width, 8, 0)) & mask;
    }
    const second = comptime @as(usize, width) * 4 / 8;
    const first: @Vector(4, u32) = @splat(load(u32, source));
    const last: @Vector(4, u32) = @splat(load(u32, source + second));
    const low = first >> comptime shifts(width, 4, 0);
    const high = last >> comptime shifts(width, 4, @as(u5, width * 4 % 8));
    return std.simd.join(low, high) & mask;
}

fn shifts(comptime width: u8, comptime lanes: usize, comptime first: u5) @Vector(lanes, u5) {
    var amounts: [lanes]u5 = undefined;
    for (&amounts, 0..) |*amount, lane| amount.* = first + lane * width;
    return amounts;
}

/// Bytes behind a stream that `pack` may write zeros to.
pub const pack_slack = 16;

/// Packs codes of at most `width` bits into `target`, which has `packedBytes` and `pack_slack` bytes, zeroed.
pub fn pack(comptime Code: type, codes: []const Code, width: u8, target: [*]u8) void {
    switch (width) {
        0 => {},
        inline 1...8 => |w| packGroups(Code, w, codes, target),
        else => packScalar(Code, codes, width, target),
    }
}

/// Eight codes make `width` whole bytes; what the 8-byte store writes beyond them is zero and is written over.
fn packGroups(comptime Code: type, comptime width: u8, codes: []const Code, target: [*]u8) void {
    var at: usize = 0;
    var group_at: usize = 0;
    while (at + 8 <= codes.len) : (at += 8) {
        var word: u64 = 0;
        inline for (0..8) |lane| word |= @as(u64, codes[at + lane]) << (lane * width);
        std.mem.writeInt(u64, target[group_at..][0..8], word, .little);
        group_at += width;
    }
    if (at == codes.len) return;
    var word: u64 = 0;
    for (codes[at..], 0..) |code, lane| word |= @as(u64, code) << @intCast(lane * width);
    std.mem.writeInt(u64, target[group_at..][0..8], word, .little);
}

/// Plain version, and the one for wide codes.
pub fn packScalar(comptime Code: type, codes: []const Code, width: u8, target: [*]u8) void {
    var bit: usize = 0;
    for (codes) |code| {
        assert(code <= lowMask(width));
        const shift: u6 = @intCast(bit & 7);
        const word = target[bit / 8 ..][0..8];
        std.mem.writeInt(u64, word, std.mem.readInt(u64, word, .little) | @as(u64, code) << shift, .little);
        if (@as(u32, shift) + width > 64) target[bit / 8 + 8] = @truncate(@as(u64, code) >> 1 >> (63 - shift));
        bit += width;
    }
}

test "what is packed comes back, at every width" {
    var random = std.Random.DefaultPrng.init(1);
    var buffer: [200 * 8 + 32]u8 = undefined;
    var want: [200]u64 = undefined;
    for (0..width_max + 1) |width| {
        for ([_]usize{ 0, 1, 7, 8, 9, 127, 128, 129, 200 }) |count| {
            @memset(&buffer, 0);
            for (want[0..count]) |*code| code.* = if (width == 0) 0 else random.random().int(u64) & lowMask(@intCast(width));
            pack(u64, want[0..count], @intCast(width), &buffer);
            var plain: [buffer.len]u8 = @splat(0);
            packScalar(u64, want[0..count], @intCast(width), &plain);
            try std.testing.expectEqualSlices(u8, &plain, &buffer);
            const used = packedBytes(count, @intCast(width));
            @memset(buffer[@intCast(used)..], 0xa5); // what lies behind must not matter
            for (want[0..count], 0..) |code, index| {
                if (width > 0) try std.testing.expectEqual(code, codeAt(&buffer, index, @intCast(width)));
            }
            if (width > 32) continue;
            var codes: [200 + over_write_codes]u32 = @splat(0xdead_beef);
            unpack(&buffer, count, @intCast(width), &codes);
            for (want[0..count], codes[0..count]) |code, got| try std.testing.expectEqual(code, got);
        }
    }
}
