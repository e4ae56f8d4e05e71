//! A chunk of an array as containers store it: a zlib or gzip stream, or a frame of c-blosc (format 2) with zlib.

const std = @import("std");
const assert = std.debug.assert;
const bit_writer = @import("bit_writer.zig");
const checksums = @import("checksums.zig");
const matches = @import("matches.zig");
const planes = @import("planes.zig");
const stream = @import("stream.zig");
const BitWriter = bit_writer.BitWriter;

pub const Wrapping = enum(u32) { zlib = 0, gzip = 1, blosc = 2 };

pub const Encoding = extern struct {
    /// 1, 2, 4 or 8
    element_bytes: u32,
    /// Whether the bytes of the values are cut into planes first.
    is_shuffled: u32,
    wrapping: Wrapping,
    chunk_elements: u32,

    pub fn chunkBytes(self: Encoding) usize {
        return @as(usize, self.element_bytes) * self.chunk_elements;
    }

    /// Bytes that an encoded chunk may take, and that encoding may write.
    pub fn bound(self: Encoding) usize {
        const for_splits = 16 + 4 + @as(usize, self.element_bytes) * (4 + 6 + 16);
        return stream.boundOf(self.chunkBytes(), self.element_bytes) + 24 + for_splits;
    }
};

pub const elements_max = 1 << 24;

/// What encoding needs besides its input and output.
pub const Scratch = struct {
    stream: stream.Scratch,
    /// Of `chunkBytes()`.
    padded: []u8,
    /// Of as many and `matches.over_read_bytes` more, which are zero.
    planes: []u8,

    pub fn init(allocator: std.mem.Allocator, encoding: Encoding) error{OutOfMemory}!*Scratch {
        const self = try allocator.create(Scratch);
        errdefer allocator.destroy(self);
        self.padded = try allocator.alloc(u8, encoding.chunkBytes());
        errdefer allocator.free(self.padded);
        self.planes = try allocator.alloc(u8, encoding.chunkBytes() + matches.over_read_bytes);
        @memset(self.planes[encoding.chunkBytes()..], 0);
        return self;
    }

    pub fn deinit(self: *Scratch, allocator: std.mem.Allocator) void {
        allocator.free(self.padded);
        allocator.free(self.planes);
        allocator.destroy(self);
    }
};

/// Encodes a chunk, which is filled up with zeros, into `out` of `bound()` bytes. 0 for values that are not shuffled
/// and of which too many are different: there is nothing to gain over a general encoder.
pub fn encode(encoding: Encoding, given: []const u8, scratch: *Scratch, out: []u8) usize {
    assert(given.len <= encoding.chunkBytes() and out.len >= encoding.bound());
    var values = given;
    if (given.len < encoding.chunkBytes()) {
        @memcpy(scratch.padded[0..given.len], given);
        @memset(scratch.padded[given.len..], 0);
        values = scratch.padded;
    }
    const bytes = scratch.planes[0..values.len];
    const is_planes = encoding.is_shuffled != 0 or encoding.element_bytes == 1;
    if (is_planes) planes.shuffle(encoding.element_bytes, values, bytes);
    if (encoding.wrapping == .blosc) {
        assert(is_planes);
        return bloscFrame(encoding, values, bytes, scratch, out);
    }
    const head = headOf(encoding.wrapping);
    @memcpy(out[0..head.len], head);
    var writer: BitWriter = .{ .out = out.ptr + head.len };
    if (is_planes) {
        stream.writePlanes(bytes, encoding.chunk_elements, &writer, &scratch.stream);
    } else {
        const done = switch (encoding.element_bytes) {
            inline 4, 8 => |width| stream.writeValues(width, values, scratch.planes, &writer, &scratch.stream),
            else => false,
        };
        if (!done) return 0;
    }
    writer.alignToByte();
    const plain = if (is_planes) bytes else values;
    return writer.out - out.ptr + writeTail(encoding.wrapping, plain, writer.out);
}

fn headOf(wrapping: Wrapping) []const u8 {
    return switch (wrapping) {
        .zlib, .blosc => &.{ 0x78, 0x9c },
        // no name, no time, no system
        .gzip => &.{ 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff },
    };
}

fn writeTail(wrapping: Wrapping, plain: []const u8, out: [*]u8) usize {
    switch (wrapping) {
        .zlib, .blosc => {
            std.mem.writeInt(u32, out[0..4], checksums.adler32(plain), .big);
            return 4;
        },
        .gzip => {
            std.mem.writeInt(u32, out[0..4], checksums.crc32(plain), .little);
            std.mem.writeInt(u32, out[4..8], @truncate(plain.len), .little);
            return 8;
        },
    }
}

const blosc_head_bytes = 16;
const blosc_shuffled = 0x1;
const blosc_copied = 0x2;
const blosc_unsplit = 0x10;
const blosc_zlib = 3 << 5;
/// Below so many bytes readers expect a copy, below so many elements one stream instead of one for each plane.
const blosc_small = 128;

/// One block, each plane a stream of its own.
fn bloscFrame(encoding: Encoding, values: []const u8, bytes: []const u8, scratch: *Scratch, out: []u8) usize {
    const n_elements = encoding.chunk_elements;
    if (values.len >= blosc_small) {
        const is_split = n_elements >= blosc_small;
        const step = if (is_split) n_elements else bytes.len;
        std.mem.writeInt(u32, out[blosc_head_bytes..][0..4], blosc_head_bytes + 4, .little);
        var end: usize = blosc_head_bytes + 4;
        var at: usize = 0;
        while (at < bytes.len) : (at += step) {
            const part = bytes[at..][0..step];
            const length = bloscPart(part, n_elements, scratch, out[end + 4 ..]);
            std.mem.writeInt(u32, out[end..][0..4], @intCast(length), .little);
            end += 4 + length;
        }
        if (end < blosc_head_bytes + values.len) {
            const split_flag: u8 = if (is_split) 0 else blosc_unsplit;
            writeBloscHead(encoding, blosc_shuffled | blosc_zlib | split_flag, end, out);
            return end;
        }
    }
    @memcpy(out[blosc_head_bytes..][0..values.len], values);
    writeBloscHead(encoding, blosc_shuffled | blosc_zlib | blosc_copied, blosc_head_bytes + values.len, out);
    return blosc_head_bytes + values.len;
}

/// A zlib stream, or the bytes themselves: readers know a copy by its length.
fn bloscPart(part: []const u8, n_elements: usize, scratch: *Scratch, out: []u8) usize {
    const head = headOf(.blosc);
    @memcpy(out[0..head.len], head);
    var writer: BitWriter = .{ .out = out.ptr + head.len };
    stream.writePlanes(part, n_elements, &writer, &scratch.stream);
    writer.alignToByte();
    const length = writer.out - out.ptr + writeTail(.blosc, part, writer.out);
    if (length < part.len) return length;
    @memcpy(out[0..part.len], part);
    return part.len;
}

fn writeBloscHead(encoding: Encoding, flags: u8, n_bytes: usize, out: []u8) void {
    out[0] = 2; // of the format
    out[1] = 1; // of how zlib is used in it
    out[2] = flags;
    out[3] = @intCast(encoding.element_bytes);
    std.mem.writeInt(u32, out[4..8], @intCast(encoding.chunkBytes()), .little);
    std.mem.writeInt(u32, out[8..12], @intCast(encoding.chunkBytes()), .little);
    std.mem.writeInt(u32, out[12..16], @intCast(n_bytes), .little);
}
