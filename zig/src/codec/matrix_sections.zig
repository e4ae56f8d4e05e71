//! Which sections make up a matrix: the names of shards.

const std = @import("std");
const errors = @import("../errors.zig");
const matrix_module = @import("matrix.zig");
const File = @import("../container/file.zig").File;

const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Report = errors.Report;
const Selector = matrix_module.Selector;

/// Indices into file.sections, in the order of their numbers; at least one. The caller frees.
pub fn find(allocator: Allocator, file: *const File, selector: Selector, report: *Report) Failure![]u32 {
    var found: std.ArrayList(u32) = .empty;
    errdefer found.deinit(allocator);
    var name: std.Io.Writer.Allocating = .init(allocator);
    defer name.deinit();
    while (true) {
        name.clearRetainingCapacity();
        shardName(&name.writer, file, selector, found.items.len) catch return error.OutOfMemory;
        const index = file.find(selector.section_type, selector.modality_id, name.written()) orelse break;
        try found.append(allocator, index);
    }
    if (found.items.len == 0) {
        return report.fail(error.NotFound, "the file has no matrix '{f}' ({s}, modality {d})", .{
            errors.escaped(selector.name), selector.section_type.label(), selector.modality_id,
        });
    }
    return found.toOwnedSlice(allocator);
}

/// The name of shard `number`: of a single-modality file, or within a modality.
fn shardName(writer: *std.Io.Writer, file: *const File, selector: Selector, number: usize) !void {
    if (selector.modality_id == 0 or selector.modality_id > file.modalities.len) {
        switch (selector.section_type) {
            .obsp_csr_shard => try writer.print("obsp/{s}_shard_{d}", .{ selector.name, number }),
            else => try writer.print("{s}_shard_{d}", .{ selector.name, number }),
        }
        return;
    }
    const modality = file.modalities[selector.modality_id - 1].name;
    switch (selector.section_type) {
        .layer_csr_shard => try writer.print("layer/{s}/{s}/shard_{d}", .{ modality, selector.name, number }),
        .obsp_csr_shard => try writer.print("obsp/{s}/{s}/shard_{d}", .{ modality, selector.name, number }),
        .raw_csr_shard => try writer.print("raw/{s}/X/shard_{d}", .{ modality, number }),
        else => try writer.print("X/{s}/shard_{d}", .{ modality, number }),
    }
}
