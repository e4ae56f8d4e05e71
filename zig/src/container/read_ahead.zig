//! Linux and macOS: what the system is told of pages of a map that are read soon. Hints alone.

const std = @import("std");
const builtin = @import("builtin");
const c = std.c;
const linux = std.os.linux;
const platform = @import("platform.zig");
const testing_files = @import("testing_files.zig");
const testing = std.testing;

const is_linux = builtin.os.tag == .linux;

const step_bytes = 32 << 20;
/// MADV_POPULATE_READ, since Linux 5.14; older ones refuse it.
const madv_populate_read = 22;
/// MADV_PAGEOUT, since Linux 5.4.
const madv_pageout = 21;
const look_behind_pages = 16;

/// Reads bytes of a map from front to back, and comes back when they are there, or as soon as the system does not say so.
/// A hint alone: nothing happens where the system does not take it.
///
/// `WILLNEED` would fill the page cache page by page, which costs the processor and keeps the disk from large
/// transfers. Asked for in order and in huge pages, as far as the file system has them, the same bytes arrive twice as
/// fast. That is said of a second view of them: the first one goes on to be read in any order.
pub fn readAhead(bytes: []const u8) void {
    if (bytes.len == 0) return;
    const pages = pagesAround(bytes);
    const view = if (is_linux) secondView(pages) else null;
    defer if (view) |own| {
        _ = linux.munmap(own.ptr, own.len);
    };
    var at: usize = 0;
    while (at < pages.len) : (at += step_bytes) {
        const stop = @min(pages.len, at + step_bytes);
        if (view == null or !populate(view.?[at..stop])) startReading(pages[at..stop]);
    }
}

fn secondView(pages: []const u8) ?[]align(std.heap.page_size_min) const u8 {
    const address = linux.mremap(pages.ptr, 0, pages.len, .{ .MAYMOVE = true }, null);
    if (linux.errno(address) != .SUCCESS) return null;
    const view: [*]align(std.heap.page_size_min) const u8 = @ptrFromInt(address);
    _ = linux.madvise(@constCast(view), pages.len, linux.MADV.SEQUENTIAL);
    _ = linux.madvise(@constCast(view), pages.len, linux.MADV.HUGEPAGE);
    return view[0..pages.len];
}

/// Whether the system says that the bytes are there.
fn populate(pages: []const u8) bool {
    return linux.errno(linux.madvise(@constCast(pages.ptr), pages.len, madv_populate_read)) == .SUCCESS;
}

/// Lets the first `length` bytes go that were looked at and are not looked at again soon, if they are all there is in
/// memory. Otherwise no huge page would fit around them, and megabytes after them would be read page by page.
pub fn forgetHead(bytes: []const u8, length: usize) void {
    if (!is_linux) return;
    const page_bytes = std.heap.pageSize();
    const head = pagesAround(bytes[0..length]);
    const behind = std.mem.alignForward(usize, head.len, page_bytes) + look_behind_pages * page_bytes;
    if (pagesAround(bytes).len <= behind) return;
    var states: [2]u8 = undefined;
    if (linux.errno(linux.mincore(@constCast(head.ptr), 1, states[0..1])) != .SUCCESS) return;
    if (linux.errno(linux.mincore(@constCast(head.ptr + behind), 1, states[1..2])) != .SUCCESS) return;
    if (states[0] & 1 == 1 and states[1] & 1 == 0) _ = linux.madvise(@constCast(head.ptr), head.len, madv_pageout);
}

/// Starts to read a few bytes that are looked at next, and does not wait. Where they are touched without that, the
/// system reads megabytes around each first.
pub fn startReading(bytes: []const u8) void {
    const pages = pagesAround(bytes);
    _ = c.madvise(@ptrCast(@alignCast(@constCast(pages.ptr))), pages.len, c.MADV.WILLNEED);
}

/// Has the system read no more than the page that is touched, where it would read megabytes around it; or lets it do so
/// again. Other views of the same file are read as before.
pub fn expectScattered(bytes: []const u8, scattered: bool) void {
    if (!is_linux) return;
    const pages = pagesAround(bytes);
    const advice: u32 = if (scattered) linux.MADV.RANDOM else linux.MADV.NORMAL;
    _ = linux.madvise(@constCast(pages.ptr), pages.len, advice);
}

/// What the calling thread has caused so far; always 0 where the system does not count it.
pub const Reads = struct {
    /// Touches of pages that had to be read first.
    faults: u64 = 0,
    /// Of 512 bytes each, that were read from a disk.
    blocks: u64 = 0,
};

pub fn ownReads() Reads {
    if (!is_linux) return .{};
    var usage: linux.rusage = undefined;
    if (linux.errno(linux.getrusage(linux.rusage.THREAD, &usage)) != .SUCCESS) return .{};
    return .{ .faults = @bitCast(@as(i64, usage.majflt)), .blocks = @bitCast(@as(i64, usage.inblock)) };
}

/// Looks at a page in every megabyte. True where the system does not tell, which it does of nobody else's files.
pub fn seemsResident(bytes: []const u8) bool {
    if (!is_linux) return true;
    const pages = pagesAround(bytes);
    var at: usize = 0;
    while (at < pages.len) : (at += 1 << 20) {
        var state: [1]u8 = undefined;
        if (linux.errno(linux.mincore(@constCast(pages.ptr + at), 1, &state)) != .SUCCESS) return true;
        if (state[0] & 1 == 0) return false;
    }
    return true;
}

/// From the start of the first page on.
fn pagesAround(bytes: []const u8) []const u8 {
    const start = std.mem.alignBackward(usize, @intFromPtr(bytes.ptr), std.heap.pageSize());
    return @as([*]const u8, @ptrFromInt(start))[0 .. @intFromPtr(bytes.ptr) + bytes.len - start];
}

test "the head of bytes is forgotten where it is in memory alone" {
    if (!is_linux) return error.SkipZigTest;
    const page_bytes = std.heap.pageSize();
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    const content = try testing.allocator.alloc(u8, 32 * page_bytes);
    defer testing.allocator.free(content);
    for (content, 0..) |*byte, index| byte.* = @truncate(index * 31);
    try folder.put("bytes", content);
    var errno: i32 = 0;
    const path = try testing.allocator.dupeSentinel(u8, folder.path("bytes"), 0);
    defer testing.allocator.free(path);
    const file = try platform.openForReading(path, &errno);
    defer platform.closeFile(file);
    const mapped = try platform.map(file, content.len, &errno);
    defer platform.unmap(mapped);

    forgetHead(mapped, 100); // all are there
    try testing.expect(seemsResident(mapped[0..1]));
    forgetHead(mapped[0..100], 100); // nothing is known of what lies behind
    try testing.expect(seemsResident(mapped[0..1]));

    try platform.syncFile(file, &errno);
    _ = linux.fadvise(file.descriptor, 0, 0, linux.POSIX_FADV.DONTNEED);
    if (seemsResident(mapped[0..1])) return; // a file system in memory
    startReading(mapped[0..100]);
    try testing.expectEqual(content[99], mapped[99]);
    forgetHead(mapped, 100);
    try testing.expectEqualSlices(u8, content, mapped);
}

test "bytes that are asked for are in memory, as they were, and mapped no second time" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var content: [5 * 4096 + 17]u8 = undefined;
    for (&content, 0..) |*byte, index| byte.* = @truncate(index * 31);
    try folder.put("bytes", &content);
    var errno: i32 = 0;
    const path = try testing.allocator.dupeSentinel(u8, folder.path("bytes"), 0);
    defer testing.allocator.free(path);
    const file = try platform.openForReading(path, &errno);
    const mapped = try platform.map(file, content.len, &errno);
    platform.closeFile(file);
    defer platform.unmap(mapped);
    for ([_][2]usize{ .{ 0, content.len }, .{ 4095, 4098 }, .{ 9000, 9000 }, .{ content.len, content.len } }) |part| {
        const bytes = mapped[part[0]..part[1]];
        startReading(bytes);
        readAhead(bytes);
        try testing.expect(seemsResident(bytes));
    }
    try testing.expectEqualSlices(u8, &content, mapped);
    if (!is_linux) return;
    try testing.expect(populate(mapped));
    try testing.expectEqual(1, try countMaps(&folder.inner.sub_path));
}

fn countMaps(name: []const u8) !usize {
    var errno: i32 = 0;
    const maps = try platform.openForReading("/proc/self/maps", &errno);
    defer platform.closeFile(maps);
    var lines: [1 << 14]u8 = undefined;
    var count: usize = 0;
    while (true) {
        const length = c.read(maps.descriptor, &lines, lines.len);
        if (length <= 0) return count;
        count += std.mem.count(u8, lines[0..@intCast(length)], name);
    }
}
