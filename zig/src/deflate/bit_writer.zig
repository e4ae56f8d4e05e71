//! Bits from the lowest up, as DEFLATE packs them.

const std = @import("std");
const assert = std.debug.assert;

/// Bytes that may be written behind the last one that counts.
pub const over_write_bytes = 8;

/// Bits that may be put between two flushes.
pub const put_bits_max = 56;

pub const BitWriter = struct {
    out: [*]u8,
    /// Bits that wait, fewer than 8 after a flush.
    waiting: u64 = 0,
    n_waiting: u8 = 0,

    /// Bits of `code` above `n_bits` must be zero.
    pub inline fn put(self: *BitWriter, code: u64, n_bits: u8) void {
        self.waiting |= code << @as(u6, @intCast(self.n_waiting));
        self.n_waiting += n_bits;
    }

    pub inline fn flush(self: *BitWriter) void {
        assert(self.n_waiting < 64);
        std.mem.writeInt(u64, self.out[0..8], self.waiting, .little);
        self.out += self.n_waiting >> 3;
        self.waiting >>= @as(u6, @intCast(self.n_waiting & 56));
        self.n_waiting &= 7;
    }

    pub fn putFlush(self: *BitWriter, code: u64, n_bits: u8) void {
        self.put(code, n_bits);
        self.flush();
    }

    /// Fills the last byte with zero bits.
    pub fn alignToByte(self: *BitWriter) void {
        if (self.n_waiting & 7 != 0) self.n_waiting = (self.n_waiting | 7) + 1;
        self.flush();
    }

    pub fn putBytes(self: *BitWriter, bytes: []const u8) void {
        assert(self.n_waiting == 0);
        @memcpy(self.out[0..bytes.len], bytes);
        self.out += bytes.len;
    }
};

test "bits come out lowest first" {
    var out: [3 + over_write_bytes]u8 = undefined;
    var writer: BitWriter = .{ .out = &out };
    writer.put(0b1, 1);
    writer.put(0b10, 2);
    writer.putFlush(0b11111, 5);
    writer.putFlush(0x5, 3);
    writer.alignToByte();
    writer.putBytes(&.{7});
    try std.testing.expectEqualSlices(u8, &.{ 0b11111101, 0b101, 7 }, out[0..3]);
}
