//! Batches of rows, decoded ahead of their consumer by threads of the pipeline's own.
//!
//! The consumer submits lists of rows and receives the batches in the same order. Meanwhile each thread takes a
//! small range of rows of the oldest unfinished batch and decodes it straight into the batch's place in a buffer;
//! there is no stage in between. What is decoded, and how large a batch is, a `Source` says:
//!
//!   Source.Scratch                                        the memory of one thread
//!   source.initScratch(allocator) Failure!Scratch         and scratch.deinit()
//!   source.batchBytes(rows, report) Failure!usize         checks the rows; the size of their batch
//!   source.prepare(rows, memory)                          before any of its rows is decoded
//!   source.decode(task, *scratch, report) Failure!void    writes every byte of the task's rows
//!   source.finish(n_rows, memory)                         after all of them, when the batch is received
//!   source.willNeed(RowRange)                             has the bytes of rows read that are needed soon
//!   source.seemsResident(RowRange) bool                   whether they are in memory, at a glance
//!   source.readsTables() bool                             whether `batchBytes` looks at the counts of rows
//!   source.placeOf(row) ?Place                            where its bytes are, for scattered_reads.zig
//!   source.expectScattered(bool)                          whether single rows are touched, and not stretches
//!   source.expectUnchanged(report) Failure!void           refuses what was overwritten since it was opened
//!   source.afterReading(result, report) Failure!void      `result`, or an error where bytes could not be read
//!   source.deinit()
//!
//! One thread at a time submits and receives. Locks are held for a few instructions, never while decoding.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const buffers = @import("buffers.zig");
const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const platform = @import("platform.zig");
const queues = @import("queue.zig");
const row_reads = @import("../codec/row_reads.zig");
const ScatteredReads = @import("scattered_reads.zig").ScatteredReads;
const sync = @import("sync.zig");
const threads = @import("threads.zig");
const Buffer = buffers.Buffer;
const Failure = errors.Failure;
const Life = threads.Life;
const Report = errors.Report;

pub const threads_max = platform.threads_max;
/// Batches under way in one pipeline; a ring of this size already holds gigabytes.
pub const batches_max = 1024;
/// Rows of one batch.
pub const batch_rows_max = 1 << 24;
/// Rows that a thread takes at once: a fraction of a millisecond, so that the first batch is shared by all cores and
/// a stop is quick, yet long against taking the lock.
pub const range_rows_default = 32;

/// Thousands of files on a file system of the network take a while to look at.
const ms_between_looks = 200;

pub const Options = struct {
    allocator: Allocator,
    page_allocator: Allocator,
    threads: u32,
    batches: u32,
    range_rows: u32 = range_rows_default,
};

/// A received batch. The receiver releases the buffer.
pub const Batch = struct {
    buffer: *Buffer,
    bytes: usize,
    n_rows: usize,
};

/// Rows `begin` to `end` of the batch that fills `memory`.
pub const Task = struct {
    rows: []const i64,
    begin: usize,
    end: usize,
    memory: []align(buffers.alignment.toByteUnits()) u8,
};

pub fn Pipeline(comptime Source: type) type {
    return struct {
        const Self = @This();

        allocator: Allocator,
        page_allocator: Allocator,
        source: Source,
        process: u32,
        pool: *buffers.Pool,
        workers: []Worker,
        /// How many workers have their scratch, and how many of those their thread.
        scratch_count: usize = 0,
        thread_count: usize = 0,
        hint_thread: ?std.Thread = null,
        /// Changed under the mutex, read anywhere.
        life: std.atomic.Value(Life) = .init(.fresh),

        mutex: sync.Mutex = .{},
        /// There may be rows to take, or the pipeline stops.
        work: sync.Condition = .{},
        /// The oldest batch may be finished.
        finished: sync.Condition = .{},
        /// The last thread has ended.
        ended: sync.Condition = .{},
        queue: queues.Queue,
        hints: hints.Hints = .{},
        scattered: ScatteredReads,
        /// When it is looked at again whether a file was overwritten. The consumer's.
        next_look: sync.Deadline,
        /// Workers that wait for `work`.
        idle_count: usize = 0,
        /// Threads that have not ended, those that read ahead among them.
        live_count: usize = 0,

        const Worker = struct {
            thread: std.Thread,
            scratch: Source.Scratch,
        };

        /// Takes the source over when it succeeds. No thread is started yet.
        pub fn open(source: Source, options: Options) Failure!*Self {
            assert(options.threads >= 1 and options.threads <= threads_max);
            assert(options.batches >= 1 and options.batches <= batches_max);
            const allocator = options.allocator;
            const self = try allocator.create(Self);
            errdefer allocator.destroy(self);

            const workers = try allocator.alloc(Worker, options.threads);
            errdefer allocator.free(workers);

            var queue: queues.Queue = try .init(allocator, .{
                .batches_max = options.batches,
                .threads = options.threads,
                .range_rows = options.range_rows,
            });
            errdefer queue.deinit(allocator);

            const pool: *buffers.Pool = try .create(.{
                .memory = .{ .allocator = allocator, .page_allocator = options.page_allocator },
                // Those under way, the one that the consumer works on, and the one it is about to let go.
                .idle_max = options.batches + 2,
            });
            self.* = .{
                .allocator = allocator,
                .page_allocator = options.page_allocator,
                .source = source,
                .process = platform.processId(),
                .pool = pool,
                .workers = workers,
                .queue = queue,
                .scattered = .init(allocator),
                .next_look = .after(ms_between_looks),
            };
            return self;
        }

        /// Puts a batch at the end of the queue; the rows are copied. `Limit` when as many batches as the pipeline
        /// was opened for have not been received yet.
        pub fn submit(self: *Self, rows: []const i64, report: *Report) Failure!void {
            try self.checkProcess(report);
            if (rows.len > batch_rows_max) return report.fail(
                error.Limit,
                "a batch of {d} rows is too large: at most {d} are possible",
                .{ rows.len, @as(usize, batch_rows_max) },
            );
            if (self.queue.count == 0) try self.source.expectUnchanged(report); // an epoch may begin here
            const unread = self.scattered.asks();
            if (unread and self.source.readsTables()) self.scattered.askForTables(&self.source, rows);
            const bytes = self.source.batchBytes(rows, report) catch |failure| return self.source.afterReading(failure, report);
            try self.ensureWorkers(report);
            if (unread) try self.ensureReader(report);

            const request = try self.takeSpare(report);
            errdefer self.giveBack(request);
            try request.rows.appendSlice(self.allocator, rows);
            request.buffer = try self.pool.acquire(bytes);
            request.bytes = bytes;
            self.source.prepare(rows, request.buffer.?.memory[0..bytes]);

            self.mutex.lock();
            defer self.mutex.unlock();
            request.unread = unread;
            self.queue.push(request);
            if (unread) return self.scattered.arrived.signal();
            if (self.idle_count == 0) return;
            if (rows.len <= self.queue.range_rows) self.work.signal() else self.work.broadcast();
        }

        /// The oldest batch, or its failure. `Timeout` when it is not ready in time and stays where it is;
        /// `NotFound` when there is none.
        pub fn wait(self: *Self, timeout_ms: u32, report: *Report) Failure!Batch {
            try self.checkProcess(report);
            if (self.next_look.isOver()) {
                self.next_look = .after(ms_between_looks);
                try self.source.expectUnchanged(report);
            }
            const request = try self.popFinished(timeout_ms, report);
            defer self.giveBack(request);
            const buffer = request.buffer.?;
            request.buffer = null;
            if (request.failure) |failure| {
                report.* = request.report;
                buffer.release();
                return failure;
            }
            self.source.finish(request.rows.items.len, buffer.memory[0..request.bytes]);
            return .{ .buffer = buffer, .bytes = request.bytes, .n_rows = request.rows.items.len };
        }

        /// Forgets every batch that was submitted and not received. Ranges that threads are decoding right now go on
        /// to their end, in buffers that nobody gets.
        pub fn cancel(self: *Self, report: *Report) Failure!void {
            try self.checkProcess(report);
            self.mutex.lock();
            defer self.mutex.unlock();
            self.cancelPending();
            self.hints.clear();
        }

        /// Has a thread tell the system that these rows are read soon. Hints that come too fast are dropped. With
        /// `hold` no batch is decoded until the bytes are there: threads that wait for a page each, in any order, would
        /// have the disk read everything in pieces, and not from front to back. Answers whether batches are held.
        pub fn willNeed(self: *Self, range: hints.RowRange, hold: bool, report: *Report) Failure!bool {
            try self.checkProcess(report);
            assert(range.row_start <= range.row_end);
            const holds = hold and (self.isHolding() or !self.source.seemsResident(range));
            self.mutex.lock();
            defer self.mutex.unlock();
            if (self.hint_thread == null) {
                self.hint_thread = try threads.spawn(hintLoop, .{self}, report);
                self.live_count += 1;
            }
            self.hints.push(.{ .range = range, .holds = holds });
            self.hints.arrived.signal();
            return holds;
        }

        /// Whether batches take rows from anywhere, so that each is asked for on its own.
        pub fn expectScattered(self: *Self, scattered: bool, report: *Report) Failure!void {
            try self.checkProcess(report);
            if (self.scattered.enabled == scattered) return; // no other thread changes it
            {
                self.mutex.lock();
                defer self.mutex.unlock();
                self.scattered.enabled = scattered;
            }
            self.source.expectScattered(scattered);
        }

        /// Ends the threads and frees everything but the buffers that are still held. `Timeout` when a thread has
        /// not ended by the deadline: then nothing is freed, and what the source reads from must stay for the rest
        /// of the process. In another process nothing is done at all.
        pub fn close(self: *Self, deadline_ms: u32) Failure!void {
            if (self.process != platform.processId()) return;
            const all_ended = self.stop(deadline_ms);
            for (self.workers[0..self.thread_count]) |*worker| endThread(worker.thread, all_ended);
            if (self.hint_thread) |thread| endThread(thread, all_ended);
            if (self.scattered.thread) |thread| endThread(thread, all_ended);
            if (!all_ended) return error.Timeout;

            self.cancelPending();
            for (self.workers[0..self.scratch_count]) |*worker| worker.scratch.deinit();
            self.pool.close();
            self.queue.deinit(self.allocator);
            self.scattered.deinit();
            if (self.scattered.enabled) self.source.expectScattered(false);
            self.source.deinit();
            self.allocator.free(self.workers);
            self.allocator.destroy(self);
        }

        /// Then nobody has to ask the system about more bytes, which waits for those that are read.
        fn isHolding(self: *Self) bool {
            self.mutex.lock();
            defer self.mutex.unlock();
            return self.hints.holding > 0;
        }

        fn checkProcess(self: *const Self, report: *Report) Failure!void {
            const current = platform.processId();
            if (self.process == current) return;
            return report.fail(
                error.WrongProcess,
                "this pipeline belongs to process {d}; its threads stayed there when process {d} was forked from it: " ++
                    "open a new one in this process",
                .{ self.process, current },
            );
        }

        fn takeSpare(self: *Self, report: *Report) Failure!*queues.Request {
            self.mutex.lock();
            defer self.mutex.unlock();
            return self.queue.takeSpare() orelse report.fail(
                error.Limit,
                "{d} batches are under way, as many as the pipeline was opened for: receive one first",
                .{self.queue.count},
            );
        }

        fn giveBack(self: *Self, request: *queues.Request) void {
            self.mutex.lock();
            defer self.mutex.unlock();
            self.queue.giveBack(request);
        }

        fn popFinished(self: *Self, timeout_ms: u32, report: *Report) Failure!*queues.Request {
            const deadline: sync.Deadline = .after(timeout_ms);
            self.mutex.lock();
            defer self.mutex.unlock();
            if (self.queue.count == 0) {
                return report.fail(error.NotFound, "there is no batch to wait for: submit one first", .{});
            }
            while (!self.queue.oldestFinished()) {
                const in_time = self.finished.waitUntil(&self.mutex, deadline);
                if (in_time or self.queue.oldestFinished()) continue;
                return report.fail(error.Timeout, "the next batch is not ready yet", .{});
            }
            return self.queue.popFinished();
        }

        fn cancelPending(self: *Self) void {
            while (self.queue.count > 0) {
                if (self.queue.cancelOldest()) |buffer| buffer.release();
            }
        }

        /// All workers or none: a pipeline that is slower than what was asked for would go unnoticed.
        fn ensureWorkers(self: *Self, report: *Report) Failure!void {
            switch (self.life.load(.acquire)) {
                .running => return,
                .stopping => return report.fail(error.Closed, "the threads could not all be started: close the " ++
                    "pipeline and open another one", .{}),
                .fresh => {},
            }
            for (self.workers[self.scratch_count..]) |*worker| {
                worker.scratch = try self.source.initScratch(self.allocator);
                self.scratch_count += 1;
            }
            self.mutex.lock();
            defer self.mutex.unlock();
            errdefer self.beginStop();
            for (self.workers) |*worker| {
                worker.thread = try threads.spawn(decodeLoop, .{ self, &worker.scratch }, report);
                self.thread_count += 1;
                self.live_count += 1;
            }
            self.life.store(.running, .release);
        }

        fn ensureReader(self: *Self, report: *Report) Failure!void {
            self.mutex.lock();
            defer self.mutex.unlock();
            if (self.scattered.thread != null) return;
            self.scattered.thread = try threads.spawn(readLoop, .{self}, report);
            self.live_count += 1;
        }

        fn beginStop(self: *Self) void {
            self.life.store(.stopping, .release);
            self.work.broadcast();
            self.scattered.arrived.broadcast();
            self.hints.arrived.broadcast();
        }

        /// True when every thread has ended in time.
        fn stop(self: *Self, deadline_ms: u32) bool {
            const deadline: sync.Deadline = .after(deadline_ms);
            self.mutex.lock();
            defer self.mutex.unlock();
            self.beginStop();
            while (self.live_count > 0) {
                const in_time = self.ended.waitUntil(&self.mutex, deadline);
                if (!in_time and self.live_count > 0) return false;
            }
            return true;
        }

        /// A thread that counts as ended only has to return, so joining it takes no time.
        fn endThread(thread: std.Thread, ended: bool) void {
            if (ended) thread.join() else thread.detach();
        }

        fn threadEnds(self: *Self) void {
            self.live_count -= 1;
            if (self.live_count == 0) self.ended.signal();
        }

        fn decodeLoop(self: *Self, scratch: *Source.Scratch) void {
            threads.nameSelf("scx-decode");
            self.mutex.lock();
            defer self.mutex.unlock();
            defer self.threadEnds();
            var faults: row_reads.Faults = .begin();
            while (self.life.load(.acquire) != .stopping) {
                if (self.hints.holding == 0) {
                    if (self.queue.claim()) |range| {
                        self.decode(range, scratch, &faults);
                        continue;
                    }
                }
                self.idle_count += 1;
                self.work.wait(&self.mutex);
                self.idle_count -= 1;
            }
        }

        /// Gives the mutex up while it decodes.
        fn decode(self: *Self, range: queues.Range, scratch: *Source.Scratch, faults: *row_reads.Faults) void {
            const request = range.request;
            const task: Task = .{
                .rows = request.rows.items,
                .begin = range.begin,
                .end = range.end,
                .memory = request.buffer.?.memory[0..request.bytes],
            };
            const watched = self.scattered.enabled;
            self.mutex.unlock();
            var report: Report = .{};
            const result = self.source.afterReading(self.source.decode(task, scratch, &report), &report);
            const failure: ?Failure = if (result) |_| null else |err| err;
            if (watched) faults.tellSometimes(&self.scattered.watch);
            self.mutex.lock();
            const outcome = self.queue.complete(range, failure, &report);
            if (outcome.oldest_finished) self.finished.signal();
            if (outcome.orphan) |buffer| buffer.release();
        }

        fn hintLoop(self: *Self) void {
            threads.nameSelf("scx-read-ahead");
            self.mutex.lock();
            defer self.mutex.unlock();
            defer self.threadEnds();
            while (self.life.load(.acquire) != .stopping) {
                const hint = self.hints.pop() orelse {
                    self.hints.arrived.wait(&self.mutex);
                    continue;
                };
                self.mutex.unlock();
                self.source.willNeed(hint.range);
                self.mutex.lock();
                self.hints.done(hint);
                if (hint.holds and self.hints.holding == 0) {
                    self.work.broadcast();
                    self.scattered.arrived.broadcast();
                }
            }
        }

        /// Asks for the bytes of batches, but for none while what a hint names is read from front to back.
        fn readLoop(self: *Self) void {
            threads.nameSelf("scx-row-reads");
            self.mutex.lock();
            defer self.mutex.unlock();
            defer self.threadEnds();
            while (self.life.load(.acquire) != .stopping) {
                const claimed = if (self.hints.holding == 0) self.queue.claimReading() else null;
                const range = claimed orelse {
                    self.scattered.arrived.wait(&self.mutex);
                    continue;
                };
                self.mutex.unlock();
                self.scattered.askForRows(&self.source, range.request.rows.items);
                self.mutex.lock();
                const outcome = self.queue.completeReading(range);
                if (outcome.oldest_finished) self.finished.signal();
                if (outcome.orphan) |buffer| buffer.release();
                self.work.broadcast();
            }
        }
    };
}
