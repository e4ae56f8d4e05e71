//! `scx_deflate`: chunks of arrays of which few values are different.

const std = @import("std");
const chunk = @import("../deflate/chunk.zig");
const dispatch = @import("../levels/dispatch.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const AbiError = errors.AbiError;
const Failure = errors.Failure;
const Report = errors.Report;

fn checked(element_bytes: u32, chunk_elements: u64, report: *Report) Failure!chunk.Encoding {
    switch (element_bytes) {
        4, 8 => {},
        else => |n| return report.fail(error.BadArgument, "element_bytes={d} must be 4 or 8", .{n}),
    }
    if (chunk_elements == 0 or chunk_elements > chunk.elements_max) return report.fail(
        error.BadArgument,
        "chunk_elements={d} must be from 1 to {d}",
        .{ chunk_elements, chunk.elements_max },
    );
    return .{ .element_bytes = element_bytes, .chunk_elements = @intCast(chunk_elements) };
}

export fn scx_deflate_bound(element_bytes: u32, chunk_elements: u64, bound_out: ?*u64, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(boundOf(element_bytes, chunk_elements, bound_out, &report), &report, error_out);
}

fn boundOf(element_bytes: u32, chunk_elements: u64, bound_out: ?*u64, report: *Report) Failure!void {
    const out = try handle.required(*u64, bound_out, "bound_out", report);
    out.* = 0;
    out.* = (try checked(element_bytes, chunk_elements, report)).bound();
}

export fn scx_deflate(
    element_bytes: u32,
    chunk_elements: u64,
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
    return handle.answer(encodeAll(element_bytes, chunk_elements, given, &report), &report, error_out);
}

const Given = struct {
    values: ?*const anyopaque,
    n_values: u64,
    out: ?[*]u8,
    out_bytes: u64,
    lengths: ?[*]u64,
    n_chunks: u64,
};

fn encodeAll(element_bytes: u32, chunk_elements: u64, given: Given, report: *Report) Failure!void {
    const encoding = try checked(element_bytes, chunk_elements, report);
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
    const deflateChunk = dispatch.table().deflateChunk;
    const n_bytes: usize = @intCast(given.n_values * encoding.element_bytes);
    for (0..@intCast(n_chunks)) |which| {
        const start = which * encoding.chunkBytes();
        const length = @min(encoding.chunkBytes(), n_bytes - start);
        lengths[which] = deflateChunk(&encoding, values + start, length, scratch, out + which * bound);
    }
}

test "wrong arguments are answered" {
    var failure: AbiError = undefined;
    var bound: u64 = 0;
    try std.testing.expectEqual(handle.ok, scx_deflate_bound(4, 10, &bound, &failure));
    try std.testing.expect(bound > 40);
    const values: [10]u32 = @splat(7);
    var out: [400]u8 = undefined;
    var lengths: [1]u64 = undefined;
    try std.testing.expectEqual(handle.ok, scx_deflate(4, 10, &values, 10, &out, bound, &lengths, 1, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_deflate(4, 10, &values, 10, &out, bound - 1, &lengths, 1, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_deflate(4, 10, &values, 10, &out, bound, &lengths, 2, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_deflate(4, 10, null, 10, &out, bound, &lengths, 1, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_deflate_bound(2, 10, &bound, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_deflate_bound(4, 0, &bound, &failure));
    try std.testing.expectEqual(@as(i32, 1), scx_deflate_bound(8, chunk.elements_max + 1, &bound, &failure));
}
