//! Finds a section by what makes it unique: type, modality and name.

const std = @import("std");
const Allocator = std.mem.Allocator;
const SectionType = @import("section_types.zig").SectionType;
const Section = @import("catalog.zig").Section;

pub const Key = struct {
    section_type: SectionType,
    modality_id: u8,
    name: []const u8,

    pub fn of(section: *const Section) Key {
        return .{ .section_type = section.section_type, .modality_id = section.modality_id, .name = section.name };
    }
};

const KeyContext = struct {
    pub fn hash(_: KeyContext, key: Key) u64 {
        const seed = @as(u64, @backingInt(key.section_type)) << 8 | key.modality_id;
        return std.hash.Wyhash.hash(seed, key.name);
    }

    pub fn eql(_: KeyContext, a: Key, b: Key) bool {
        return a.section_type == b.section_type and a.modality_id == b.modality_id and std.mem.eql(u8, a.name, b.name);
    }
};

/// From the key to the place in the list of sections.
pub const SectionIndex = std.HashMapUnmanaged(Key, u32, KeyContext, std.hash_map.default_max_load_percentage);

pub const BuildError = Allocator.Error || error{Duplicate};

/// On `error.Duplicate` `duplicate` is the section that is listed twice.
pub fn build(allocator: Allocator, sections: []const Section, duplicate: *u32) BuildError!SectionIndex {
    var index: SectionIndex = .empty;
    errdefer index.deinit(allocator);

    const count = std.math.cast(u32, sections.len) orelse return error.OutOfMemory;
    try index.ensureTotalCapacity(allocator, count);
    for (sections, 0..) |*section, position| {
        const entry = index.getOrPutAssumeCapacity(.of(section));
        if (entry.found_existing) {
            duplicate.* = @intCast(position);
            return error.Duplicate;
        }
        entry.value_ptr.* = @intCast(position);
    }
    return index;
}

fn sectionNamed(name: []const u8, section_type: SectionType, modality_id: u8) Section {
    return .{
        .name = name,
        .offset = 0,
        .length = 0,
        .section_type = section_type,
        .modality_id = modality_id,
        .blake3 = @splat(0),
        .stats = null,
    };
}

test "sections are told apart by type, modality and name" {
    const allocator = std.testing.allocator;
    const sections = [_]Section{
        sectionNamed("a", .obsm, 0),
        sectionNamed("a", .varm, 0),
        sectionNamed("a", .obsm, 1),
        sectionNamed("b", .obsm, 0),
    };
    var duplicate: u32 = undefined;
    var index = try build(allocator, &sections, &duplicate);
    defer index.deinit(allocator);
    for (&sections, 0..) |*section, position| try std.testing.expectEqual(@as(u32, @intCast(position)), index.get(.of(section)).?);
    try std.testing.expectEqual(null, index.get(.{ .section_type = .varm, .modality_id = 1, .name = "a" }));
    try std.testing.expectEqual(null, index.get(.{ .section_type = .obsm, .modality_id = 0, .name = "" }));

    const doubled = sections ++ [_]Section{sectionNamed("a", .obsm, 1)};
    try std.testing.expectError(error.Duplicate, build(allocator, &doubled, &duplicate));
    try std.testing.expectEqual(@as(u32, 4), duplicate);
}
