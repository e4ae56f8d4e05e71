//! A chunk of an array whose values are of 4 or 8 bytes, and few of them different, as a DEFLATE stream.

const std = @import("std");
const assert = std.debug.assert;
const bit_writer = @import("bit_writer.zig");
const matches = @import("matches.zig");
const stream = @import("stream.zig");
const BitWriter = bit_writer.BitWriter;

pub const Encoding = extern struct {
    /// 4 or 8
    element_bytes: u32,
    chunk_elements: u32,

    pub fn chunkBytes(self: Encoding) usize {
        return @as(usize, self.element_bytes) * self.chunk_elements;
    }

    /// Bytes that an encoded chunk may take, and that encoding may write.
    pub fn bound(self: Encoding) usize {
        return stream.boundOf(self.chunkBytes());
    }
};

pub const elements_max = 1 << 24;

/// What encoding needs besides its input and output.
pub const Scratch = struct {
    stream: stream.Scratch,
    /// Of `chunkBytes()`.
    padded: []u8,
    /// One for each value, and `matches.over_read_bytes` more.
    symbols: []u8,

    pub fn init(allocator: std.mem.Allocator, encoding: Encoding) error{OutOfMemory}!*Scratch {
        const self = try allocator.create(Scratch);
        errdefer allocator.destroy(self);
        self.padded = try allocator.alloc(u8, encoding.chunkBytes());
        errdefer allocator.free(self.padded);
        self.symbols = try allocator.alloc(u8, encoding.chunk_elements + matches.over_read_bytes);
        return self;
    }

    pub fn deinit(self: *Scratch, allocator: std.mem.Allocator) void {
        allocator.free(self.padded);
        allocator.free(self.symbols);
        allocator.destroy(self);
    }
};

/// Encodes a chunk, which is filled up with zeros, into `out` of `bound()` bytes. 0 where more than 256 values are
/// different: there is nothing to gain over a general encoder.
pub fn encode(encoding: Encoding, given: []const u8, scratch: *Scratch, out: []u8) usize {
    assert(given.len <= encoding.chunkBytes() and out.len >= encoding.bound());
    var values = given;
    if (given.len < encoding.chunkBytes()) {
        @memcpy(scratch.padded[0..given.len], given);
        @memset(scratch.padded[given.len..], 0);
        values = scratch.padded;
    }
    var writer: BitWriter = .{ .out = out.ptr };
    const done = switch (encoding.element_bytes) {
        inline 4, 8 => |width| stream.writeValues(width, values, scratch.symbols, &writer, &scratch.stream),
        else => unreachable, // checked where the library is entered
    };
    if (!done) return 0;
    writer.alignToByte();
    return writer.out - out.ptr;
}
