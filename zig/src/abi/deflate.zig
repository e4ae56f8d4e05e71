//! `scx_chunks_*`: chunks of arrays as HDF5 and Zarr store them.

const std = @import("std");
const assert = std.debug.assert;
const chunk = @import("../deflate/chunk.zig");
const dispatch = @import("../levels/dispatch.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const AbiError = errors.AbiError;
const Failure = errors.Failure;
const Report = errors.Report;

/// `scx_chunk_encoding`
pub const Encoding = extern struct {
    struct_bytes: u32,
    element_bytes: u32,
    is_shuffled: u32,
    wrapping: u32,
    chunk_elements: u64,
};

comptime {
    assert(@sizeOf(Encoding) == 24);
}

fn checked(encoding_in: ?*const Encoding, report: *Report) Failure!chunk.Encoding {
    const given = try handle.required(*const Encoding, encoding_in, "encoding", report);
    try handle.checkSize(Encoding, given.struct_bytes, "scx_chunk_encoding", report);
    switch (given.element_bytes) {
        1, 2, 4, 8 => {},
        else => |n| return report.fail(error.BadArgument, "element_bytes={d} must be 1, 2, 4 or 8", .{n}),
    }
    if (given.wrapping > @backingInt(chunk.Wrapping.blosc)) return report.fail(
        error.BadArgument,
        "wrapping {d} is unknown",
        .{given.wrapping},
    );
    if (given.chunk_elements == 0 or given.chunk_elements > chunk.elements_max) return report.fail(
        error.BadArgument,
        "chunk_elements={d} must be from 1 to {d}",
        .{ given.chunk_elements, chunk.elements_max },
    );
    const wrapping: chunk.Wrapping = @fromBackingInt(given.wrapping);
    if (wrapping == .blosc and given.is_shuffled == 0) return report.fail(
        error.BadArgument,
        "blosc frames are for shuffled values",
        .{},
    );
    return .{
        .element_bytes = given.element_bytes,
        .is_shuffled = @intFromBool(given.is_shuffled != 0),
        .wrapping = wrapping,
        .chunk_elements = @intCast(given.chunk_elements),
    };
}

export fn scx_chunks_bound(encoding: ?*const Encoding, bound_out: ?*u64, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(boundOf(encoding, bound_out, &report), &report, error_out);
}

fn boundOf(encoding_in: ?*const Encoding, bound_out: ?*u64, report: *Report) Failure!void {
    const out = try handle.required(*u64, bound_out, "bound_out", report);
    out.* = 0;
    out.* = (try checked(encoding_in, report)).bound();
}

export fn scx_chunks_encode(
    encoding: ?*const Encoding,
    values: ?*const anyopaque,
    n_values: u64,
    out: ?[*]u8,
    out_bytes: u64,
    lengths_out: ?[*]u64,
    n_chunks: u64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const given: Given = .{ .values = values, .n_values = n_values, .out = out, .out_bytes = out_bytes, .lengths = lengths_out, .n_chunks = n_chunks };
    return handle.answer(encodeAll(encoding, given, &report), &report, error_out);
}

const Given = struct {
    values: ?*const anyopaque,
    n_values: u64,
    out: ?[*]u8,
    out_bytes: u64,
    lengths: ?[*]u64,
    n_chunks: u64,
};

fn encodeAll(encoding_in: ?*const Encoding, given: Given, report: *Report) Failure!void {
    const encoding = try checked(encoding_in, report);
    const n_chunks = std.math.divCeil(u64, given.n_values, encoding.chunk_elements) catch unreachable;
    if (n_chunks != given.n_chunks) return report.fail(
        error.BadArgument,
        "{d} values are {d} chunks, not {d}",
        .{ given.n_values, n_chunks, given.n_chunks },
    );
    if (n_chunks == 0) return;
    const bound = encoding.bound();
    if (given.out_bytes / n_chunks < bound) return report.fail(
        error.BadArgument,
        "{d} chunks need {d} bytes each, there are {d} in all",
        .{ n_chunks, bound, given.out_bytes },
    );
    const values: [*]const u8 = @ptrCast(try handle.required(*const anyopaque, given.values, "values", report));
    const out = try handle.required([*]u8, given.out, "out", report);
    const lengths = try handle.required([*]u64, given.lengths, "lengths_out", report);
    const scratch: *chunk.Scratch = try .init(handle.allocator, encoding);
    defer scratch.deinit(handle.allocator);
    const encodeChunk = dispatch.table().encodeChunk;
    const n_bytes: usize = @intCast(given.n_values * encoding.element_bytes);
    for (0..@intCast(n_chunks)) |which| {
        const start = which * encoding.chunkBytes();
        const length = @min(encoding.chunkBytes(), n_bytes - start);
        lengths[which] = encodeChunk(&encoding, values + start, length, scratch, out + which * bound);
    }
}

test "wrong arguments are answered" {
    var failure: AbiError = undefined;
    var bound: u64 = 0;
    var encoding: Encoding = .{ .struct_bytes = 24, .element_bytes = 4, .is_shuffled = 1, .wrapping = 0, .chunk_elements = 10 };
    try std.testing.expectEqual(handle.ok, scx_chunks_bound(&encoding, &bound, &failure));
    try std.testing.expect(bound > 40);
    const values: [10]u32 = @splat(7);
    var out: [400]u8 = undefined;
    var lengths: [1]u64 = undefined;
    try std.testing.expectEqual(handle.ok, scx_chunks_encode(&encoding, &values, 10, &out, bound, &lengths, 1, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_chunks_encode(&encoding, &values, 10, &out, bound - 1, &lengths, 1, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_chunks_encode(&encoding, &values, 10, &out, bound, &lengths, 2, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_chunks_encode(&encoding, null, 10, &out, bound, &lengths, 1, &failure));
    encoding.element_bytes = 3;
    try std.testing.expectEqual(@as(i32, 1), scx_chunks_bound(&encoding, &bound, &failure));
    encoding.element_bytes = 4;
    encoding.chunk_elements = 0;
    try std.testing.expectEqual(@as(i32, 1), scx_chunks_bound(&encoding, &bound, &failure));
    encoding.chunk_elements = 10;
    encoding.wrapping = 3;
    try std.testing.expectEqual(@as(i32, 1), scx_chunks_bound(&encoding, &bound, &failure));
    encoding.wrapping = 2;
    encoding.is_shuffled = 0;
    try std.testing.expectEqual(@as(i32, 1), scx_chunks_bound(&encoding, &bound, &failure));
}
