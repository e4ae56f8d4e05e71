/* scx.h: the C ABI of libscx.
 *
 * Rules that hold for every function:
 *  - The result is a status (SCX_OK or one of the codes below) unless the comment says otherwise.
 *  - `error` may be NULL. It belongs to the caller; a failing call fills it, a call that succeeds leaves it alone.
 *  - Outputs are cleared first, so that a failing call never leaves an old handle in them.
 *  - A handle belongs to the process that made it. In another process every call but its close answers
 *    SCX_WRONG_PROCESS; the close then frees nothing, because the threads and locks stayed in the parent.
 *  - Closing NULL does nothing. A handle must not be used by two threads at once unless its comment allows it.
 *  - Strings are UTF-8. Names from a file are given as pointer and length, without a terminator.
 *  - Structs that may grow start with `struct_bytes`, which the caller sets to sizeof.
 */
#ifndef SCX_H
#define SCX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* scx-ffi-begin: the Python binding parses from here to scx-ffi-end; plain declarations only */

#define SCX_ABI_VERSION 1

/* ---- statuses: numbers are never reused ---- */
#define SCX_OK 0
#define SCX_BAD_ARGUMENT 1   /* a value that no file could make right */
#define SCX_OUT_OF_RANGE 2   /* a row, column or index beyond what there is */
#define SCX_UNSUPPORTED 3    /* a well-formed file that needs something this build lacks */
#define SCX_TRUNCATED 4      /* the file ends before what it promises */
#define SCX_CORRUPT 5        /* the file contradicts itself or a checksum */
#define SCX_IO 6             /* the system refused: os_error holds errno */
#define SCX_NO_MEMORY 7
#define SCX_LIMIT 8          /* a documented bound of the library or of a handle was reached */
#define SCX_CLOSED 9
#define SCX_WRONG_PROCESS 10
#define SCX_NOT_FOUND 11
#define SCX_TIMEOUT 12       /* nothing happened within the given time; call again */
#define SCX_EXISTS 13        /* the target exists and overwriting was not asked for */
#define SCX_BUSY 14          /* another process changes the file, or has changed it since it was opened: open it again */

#define SCX_NO_INDEX 0xFFFFFFFFFFFFFFFF /* in scx_error: no shard or row to name */

typedef struct scx_error {
    int32_t status;
    int32_t os_error;      /* errno, or 0 */
    uint64_t shard;        /* index of the shard in its matrix, or SCX_NO_INDEX */
    uint64_t row;          /* physical row in the file, or SCX_NO_INDEX */
    char section[128];     /* name of the section, terminated, escaped; may be empty */
    char message[1024];    /* terminated UTF-8: what is wrong, where, what to do */
} scx_error;

/* ---- value types (the value_encoding of a shard) ---- */
#define SCX_U8 0
#define SCX_U16 1
#define SCX_U32 2
#define SCX_F32 3
#define SCX_F16 4
#define SCX_F64 64
#define SCX_I32 65
#define SCX_I64 66
#define SCX_U64 67

/* ---- codecs ---- */
#define SCX_CODEC_NONE 0
#define SCX_CODEC_ROWPACK 64

/* ---- the library; any thread ---- */
uint32_t scx_abi_version(void);
const char *scx_library_version(void); /* static, terminated */
const char *scx_simd_level(void);      /* static, terminated: "v2", "v3", "v4", "neon" or "scalar" */

/* ---- a file that is open for reading: calls are safe from several threads at once ---- */
typedef struct scx_file scx_file;

/* open_flags: SCX_OPEN_VERIFY, and in the upper 16 bits how many generations before the last one are opened (0: the last) */
#define SCX_OPEN_VERIFY 1 /* check what is read: row checksums, and a section's hash on first use */

typedef struct scx_file_info {
    uint32_t struct_bytes;
    uint32_t format_version;
    uint32_t catalog_version;
    uint32_t flags;
    uint64_t file_bytes;
    uint64_t n_obs; /* physical rows */
    uint64_t n_vars;
    uint64_t nnz;
    uint64_t manifest_sequence;
    uint32_t shard_target_rows;
    uint32_t n_sections;
    uint32_t n_modalities;
    uint32_t n_unknown_sections; /* sections of types that this build does not know */
} scx_file_info;

typedef struct scx_section_info {
    uint32_t struct_bytes;
    uint32_t section_type;
    uint32_t modality_id;
    uint32_t name_bytes;
    const char *name;    /* in the handle; valid until it is closed */
    const uint8_t *data; /* the mapped bytes; valid until the file is closed */
    uint64_t offset;
    uint64_t length;
    uint8_t blake3[32];
    uint32_t has_shard_stats; /* 1: the fields below are set; all come from the catalog */
    uint32_t reserved;
    uint64_t row_start;
    uint64_t row_end;
    uint64_t column_start;
    uint64_t column_end;
    uint64_t nnz;
    uint64_t value_sum;
    uint32_t value_min;
    uint32_t value_max;
} scx_section_info;

typedef struct scx_modality_info {
    uint32_t struct_bytes;
    uint32_t modality_type;
    uint32_t name_bytes;
    uint32_t codec_id;
    const char *name; /* in the handle; valid until it is closed */
    uint64_t n_vars;
    uint64_t nnz;
    uint32_t n_csr_shards;
    uint32_t value_type;
} scx_modality_info;

int32_t scx_file_open(const char *path, uint32_t open_flags, scx_file **file_out, scx_error *error);
void scx_file_close(scx_file *file);
int32_t scx_file_get_info(scx_file *file, scx_file_info *info_out, scx_error *error);
int32_t scx_file_get_section(scx_file *file, uint32_t section_index, scx_section_info *info_out, scx_error *error);
/* modality_index counts from 0; the modality's id is modality_index + 1 */
int32_t scx_file_get_modality(scx_file *file, uint32_t modality_index, scx_modality_info *info_out, scx_error *error);
/* for a modality whose n_vars is 0 though it has values, as early files have it; before its matrices are opened */
int32_t scx_file_declare_columns(scx_file *file, uint32_t modality_index, uint64_t n_vars, scx_error *error);
/* SCX_NOT_FOUND when no section of that type, modality and name exists */
int32_t scx_file_find_section(scx_file *file, uint32_t section_type, uint32_t modality_id, const char *name, uint32_t *section_index_out, scx_error *error);
/* what the shard's own header says; reads its first page, which the other calls leave alone */
int32_t scx_file_get_shard_encoding(scx_file *file, uint32_t section_index, uint32_t *codec_id_out, uint32_t *value_type_out, scx_error *error);
/* compares the section's bytes with the BLAKE3 in the catalog: SCX_CORRUPT when they differ */
int32_t scx_file_verify_section(scx_file *file, uint32_t section_index, scx_error *error);
/* compares the whole file with the header's checksum */
int32_t scx_file_verify_checksum(scx_file *file, scx_error *error);
/* For who reads bytes of sections from the map, to call afterwards: SCX_BUSY when the file was cut or overwritten in
 * place since it was opened, SCX_IO when the disk failed. Bytes that could not be read were zeros. All calls that read
 * from a file do the same. What the next generation adds is no such change, and a rename over the file leaves the map as it is. */
int32_t scx_file_expect_unchanged(scx_file *file, scx_error *error);

/* ---- rows that are marked as deleted ---- */
/* Deletion vectors count rows within ranges, those of the shards: the first starts at row 0, each next one where the
 * one before it ends. ends_out may be NULL, else n_ends is the number of ranges. */
int32_t scx_file_get_row_ranges(scx_file *file, uint64_t *ends_out, uint64_t n_ends, uint64_t *n_ranges_out, scx_error *error);
int32_t scx_file_count_deleted(scx_file *file, uint64_t *n_rows_out, scx_error *error);
/* ascending rows of the file; n_rows is what scx_file_count_deleted gave */
int32_t scx_file_get_deleted(scx_file *file, int64_t *rows_out, uint64_t n_rows, scx_error *error);

/* ---- writing a new file, or the next generation of one that is there; one thread at a time ---- */
typedef struct scx_writer scx_writer;

typedef struct scx_writer_options {
    uint32_t struct_bytes;
    uint32_t overwrite;         /* 0: SCX_EXISTS when the target is there */
    uint32_t shard_target_rows;
    uint32_t codec_id;          /* the header's hint */
    uint64_t n_obs;
    uint64_t n_vars;            /* the largest over modalities */
} scx_writer_options;

/* Writes go to a temporary file beside `path`; only scx_writer_finish gives it that name. */
int32_t scx_writer_create(const char *path, const scx_writer_options *options, scx_writer **writer_out, scx_error *error);
/* Locks the file and changes it by appending: sections that are added, and dropped from the catalog. SCX_BUSY when
 * somebody else changes it. scx_writer_finish commits all of it at once; before, and when it fails, the file is as it
 * was. The generation before stays readable; `note` is text that is kept with the new one. Whoever has the file open
 * goes on seeing what it held. */
int32_t scx_writer_change(const char *path, const char *note, scx_writer **writer_out, scx_error *error);
/* declares the next modality (ids count from 1); before its first section */
int32_t scx_writer_add_modality(scx_writer *writer, const char *name, uint32_t modality_type, uint32_t codec_id, uint32_t value_type, uint64_t n_vars, scx_error *error);
/* any section but shards (scx_shard_begin) and the modality table; a name may occur once per type and modality */
int32_t scx_writer_add_section(scx_writer *writer, uint32_t section_type, uint32_t modality_id, const char *name, const uint8_t *data, uint64_t data_bytes, scx_error *error);
/* takes a section out of the catalog, of a file that is changed; its bytes stay */
int32_t scx_writer_drop_section(scx_writer *writer, uint32_t section_type, uint32_t modality_id, const char *name, scx_error *error);
/* The rows that are deleted from then on, all of them: for each vector the number of a row range, and a Roaring bitmap
 * (portable form) of rows inside it; the bitmaps lie one behind the other. */
int32_t scx_writer_set_deleted(scx_writer *writer, uint32_t n_vectors, const uint32_t *shard_ids, const uint32_t *bitmap_bytes, const uint8_t *bitmaps, scx_error *error);
/* catalogs, checksums, sync and rename or commit; afterwards only scx_writer_close is allowed */
int32_t scx_writer_finish(scx_writer *writer, scx_error *error);
/* takes back what was written when scx_writer_finish did not succeed */
void scx_writer_close(scx_writer *writer);

/* ---- writing one shard: begin, append rows in order, finish; one open shard a writer ---- */
typedef struct scx_shard_options {
    uint32_t struct_bytes;
    uint32_t section_type;
    uint32_t modality_id;
    uint32_t codec_id;
    uint32_t value_type;  /* what is stored; appended values must be of this type */
    uint32_t threads;     /* 0: as many as the machine has */
    uint32_t keep_zeros;  /* 1: explicit zeros stay (obsp graphs); 0: dropped */
    uint32_t reserved;
    uint64_t row_start;   /* in the file */
    uint64_t n_rows;
    uint64_t n_cols;
    const char *name;     /* terminated */
} scx_shard_options;

/* what was mended to make rows canonical; added up over calls */
typedef struct scx_mended {
    uint64_t unsorted_rows;
    uint64_t duplicate_entries;
    uint64_t explicit_zeros;
    uint64_t non_finite_values; /* kept, only counted */
    uint64_t negative_values;   /* kept, only counted */
    uint64_t fractional_values; /* kept, only counted: floats that are no whole number */
} scx_mended;

int32_t scx_shard_begin(scx_writer *writer, const scx_shard_options *options, scx_error *error);
/* indptr: n_rows + 1 entries of 8 bytes, any start; indices of index_bytes 4 or 8, signed; both are relative
 * to indptr[0]: entry indptr[r] - indptr[0] of `indices` and `values` is the row's first */
int32_t scx_shard_append_csr(scx_writer *writer, uint64_t n_rows, const int64_t *indptr, const void *indices, uint32_t index_bytes, const void *values, scx_mended *mended, scx_error *error);
/* row-major n_rows x n_cols values of the shard's type */
int32_t scx_shard_append_dense(scx_writer *writer, uint64_t n_rows, const void *values, scx_mended *mended, scx_error *error);
int32_t scx_shard_finish(scx_writer *writer, scx_error *error);

/* ---- a matrix of an open file: X, a layer, raw or a sharded graph; safe from several threads at once ---- */
typedef struct scx_matrix scx_matrix;

typedef struct scx_matrix_info {
    uint32_t struct_bytes;
    uint32_t value_type;
    uint64_t n_rows;
    uint64_t n_cols;
    uint64_t nnz;
    uint32_t n_shards;
    uint32_t codec_id;
} scx_matrix_info;

/* `name`: "X", "raw/X", a layer's name or a graph's key; the file must outlive the matrix */
int32_t scx_matrix_open(scx_file *file, uint32_t section_type, uint32_t modality_id, const char *name, scx_matrix **matrix_out, scx_error *error);
void scx_matrix_close(scx_matrix *matrix);
int32_t scx_matrix_get_info(scx_matrix *matrix, scx_matrix_info *info_out, scx_error *error);
/* rows: physical row numbers, any order, repeats allowed; SCX_OUT_OF_RANGE names the first bad one */
int32_t scx_matrix_row_counts(scx_matrix *matrix, const int64_t *rows, uint64_t n_rows, int64_t *counts_out, scx_error *error);
/* the rows' totals in f64, negatives and NaN counted as 0 (the library size) */
int32_t scx_matrix_row_totals(scx_matrix *matrix, const int64_t *rows, uint64_t n_rows, double *totals_out, scx_error *error);
/* indptr: n_rows + 1 entries, made by the caller from scx_matrix_row_counts, indptr[0] = 0. One that does not fit the rows
 * is SCX_BAD_ARGUMENT, before anything is written.
 * value_type: the matrix's own, or SCX_F32 / SCX_F64 for any matrix (rounded as a cast would). */
int32_t scx_matrix_gather_csr(scx_matrix *matrix, const int64_t *rows, uint64_t n_rows, const int64_t *indptr, int32_t *indices_out, uint32_t value_type, void *values_out, uint32_t threads, scx_error *error);

#define SCX_NORMALIZE 1
#define SCX_LOG1P 2

#define SCX_OUTPUT_F32 0
#define SCX_OUTPUT_F16 1  /* rounded to the nearest, ties to even; infinite beyond the type */
#define SCX_OUTPUT_BF16 2 /* the upper half of a float32, rounded likewise */

typedef struct scx_dense_options {
    uint32_t struct_bytes;
    uint32_t transform;       /* SCX_NORMALIZE | SCX_LOG1P */
    double target_sum;
    const uint32_t *panel;    /* ascending distinct columns, or NULL for all */
    uint64_t n_panel;
    double pflog_alpha;       /* 0, or the overdispersion a: ln(1 + 4a v) less its mean over all n_cols; no other transform then */
    uint32_t output;          /* SCX_OUTPUT_*: the elements of dense batches of a pipeline; others are SCX_OUTPUT_F32 */
    uint32_t reserved;        /* 0 */
} scx_dense_options;

/* row-major float32, n_rows x (n_panel or n_cols); every element is written */
int32_t scx_matrix_gather_dense(scx_matrix *matrix, const int64_t *rows, uint64_t n_rows, const scx_dense_options *options, float *values_out, uint32_t threads, scx_error *error);
/* hashes one shard, decodes each of its rows, checks canonical form and the figures written about it */
int32_t scx_matrix_validate_shard(scx_matrix *matrix, uint32_t shard_index, scx_error *error);

/* ---- order: what follows from a seed alone; any thread ---- */
#define SCX_TAG_SHARD_ORDER 0x5343585348524431 /* "SCXSHRD1", big-endian */
#define SCX_TAG_ROW_ORDER 0x534358524F575F32   /* "SCXROW_2", big-endian */

/* the stream of an epoch: m(m(m(seed) ^ tag) ^ epoch) with m = splitmix64 */
uint64_t scx_epoch_stream(uint64_t seed, uint64_t tag, uint64_t epoch);
/* Fisher-Yates, from the last place down: place i swaps with a draw below i + 1. The draws use the 32-bit words of the
 * stream after the first *position; *position becomes the number of words used in all. A draw below n is the upper half
 * of word * n; a word whose lower half exceeds (n << leading zeros of n) - 1 is skipped, so that all values are equally
 * likely. At most 2^32 - 1 values, else SCX_LIMIT. */
int32_t scx_shuffle(uint64_t stream, uint64_t *position, int64_t *values, uint64_t n_values, scx_error *error);

/* ---- batches of rows, decoded ahead by threads of their own ---- */
typedef struct scx_pipeline scx_pipeline;
typedef struct scx_buffer scx_buffer;

#define SCX_PIPELINE_THREADS_MAX 64
#define SCX_PIPELINE_BATCHES_MAX 1024
#define SCX_BATCH_ROWS_MAX 16777216

typedef struct scx_pipeline_options {
    uint32_t struct_bytes;
    uint32_t threads; /* 0: one for each CPU that the process may use, at most SCX_PIPELINE_THREADS_MAX */
    uint32_t batches; /* submitted and not received at once, 1 to SCX_PIPELINE_BATCHES_MAX */
    uint32_t reserved;
} scx_pipeline_options;

/* A batch that was received. The caller gives it to scx_batch_release when nothing reads or writes `data` any more; it
 * may do so after the pipeline was closed. */
typedef struct scx_batch {
    uint32_t struct_bytes;
    uint32_t reserved;
    scx_buffer *buffer;
    void *data; /* aligned to 64 bytes: all values of a dense batch, of its type; the stored ones of a CSR batch, float32 */
    uint64_t data_bytes;
    uint64_t n_rows;
    uint64_t n_values; /* this and the next two: of a CSR batch, else 0 and NULL */
    int32_t *indptr;   /* n_rows + 1 */
    int32_t *indices;  /* n_values; ascending in each row, positions in the panel where there is one */
} scx_batch;

/* Where the columns of a matrix go in batches that several matrices share, and what happens to the values. */
typedef struct scx_columns scx_columns;
/* map: n_columns entries below n_output, -1 for a column that is left out; NULL for each column as itself. Raw values of
 * columns that share an output column are added. `values` has no panel; the depth is that of all stored values, and so is
 * PFlog's centre. */
int32_t scx_columns_open(uint64_t n_columns, const int32_t *map, uint64_t n_output, const scx_dense_options *values, scx_columns **columns_out, scx_error *error);
void scx_columns_close(scx_columns *columns);

typedef struct scx_member {
    scx_matrix *matrix;
    scx_columns *columns;
    uint64_t file_identity; /* of the draws about its rows */
} scx_member;

/* What happens to the values of CSR rows, in this order: they are clipped at 0, and NaN becomes 0; they find their
 * columns, and are added where columns meet; they are downsampled; then they are normalised and logged, of which the
 * depth is the total of all stored values, or of what was drawn. */
typedef struct scx_row_changes {
    uint32_t struct_bytes;
    uint32_t clips;             /* 0 or 1; values that are drawn are clipped all the same */
    uint32_t downsample_method; /* 0, SCX_BINOMIAL or SCX_MULTINOMIAL */
    uint32_t reserved;
    uint64_t downsample_target;
    uint64_t downsample_seed;
} scx_row_changes;

#define SCX_LAYOUT_DENSE 0
#define SCX_LAYOUT_CSR 1

/* Batches of the rows of matrices, put end to end: row numbers count on over all of them. Dense ones are as those of
 * scx_matrix_gather_dense. Values that a transform makes 0 stay stored in CSR batches, which PFlog does not have.
 * Matrices and columns must outlive the pipeline; their number of output columns is one. `changes` may be NULL, and
 * must be for dense batches. Of several matrices, messages about a row begin with "file N: ". No thread is started before the
 * first batch is submitted. One thread at a time may call the functions of one pipeline. */
int32_t scx_pipeline_open(uint32_t layout, const scx_member *members, uint64_t n_members, const scx_row_changes *changes, const scx_pipeline_options *options, scx_pipeline **pipeline_out, scx_error *error);
/* Copies the row numbers. SCX_OUT_OF_RANGE names the first bad one; SCX_LIMIT when `batches` are under way. */
int32_t scx_pipeline_submit(scx_pipeline *pipeline, const int64_t *rows, uint64_t n_rows, scx_error *error);
/* The oldest submitted batch. SCX_TIMEOUT: it is not ready, call again; SCX_NOT_FOUND: none was submitted; any other
 * failure is that of the batch, which is gone, and the next call gives the one after it. */
int32_t scx_pipeline_wait(scx_pipeline *pipeline, uint32_t timeout_ms, scx_batch *batch_out, scx_error *error);
/* Forgets all batches that were submitted and not received. */
int32_t scx_pipeline_cancel(scx_pipeline *pipeline, scx_error *error);
/* Has a thread tell the system that the bytes of these rows are read soon. A hint: it may be dropped. Where they are not
 * in memory and `hold` is not 0, no batch is decoded until they are. */
int32_t scx_pipeline_will_need(scx_pipeline *pipeline, uint64_t row_start, uint64_t row_end, uint32_t hold, scx_error *error);
/* Whether batches take rows from anywhere. Then a thread asks for the bytes of each before its rows are decoded, unless
 * they seem to be in memory, and where a row is touched all the same, only its own pages are read. */
int32_t scx_pipeline_expect_scattered(scx_pipeline *pipeline, uint32_t scattered, scx_error *error);
/* Ends the threads. SCX_TIMEOUT: a thread did not end in time; the handle is gone all the same, and the matrix must
 * stay open for the rest of the process. */
int32_t scx_pipeline_close(scx_pipeline *pipeline, uint32_t deadline_ms);
/* any thread */
/* The memory goes back to the pipeline, and the struct becomes empty. An empty one, with a NULL buffer, is let be. */
void scx_batch_release(scx_batch *batch);

/* ---- kernels on a batch in memory; any thread ---- */

/* Rows in CSR. The gene ids of each row are non-negative and strictly ascending: what is not is SCX_BAD_ARGUMENT. */
typedef struct scx_csr_rows {
    uint32_t struct_bytes;
    uint32_t reserved;
    const int64_t *indptr;  /* n_rows + 1 entries, from 0, ascending, up to n_values */
    const int32_t *indices; /* n_values */
    const float *values;    /* n_values */
    uint64_t n_rows;
    uint64_t n_values;
} scx_csr_rows;

/* How the values of a row are changed; negatives and NaN are 0 first. */
#define SCX_PASS_THROUGH 0
#define SCX_LOG1P_RAW 1
#define SCX_NORMALIZE_LOG1P 2
#define SCX_PFLOG_RAW 3

/* How the rows of cell sets are collated. A query says which genes are asked for: k_dec for each set, shared by its
 * rows, or, with query_offsets, those of each row. Ids that no row can hold are in no row. */
typedef struct scx_collate_options {
    uint32_t struct_bytes;
    uint32_t threads;                  /* 0: as many as the machine has */
    uint32_t mode;                     /* SCX_PASS_THROUGH and its like */
    uint32_t lib_size_redef;           /* 1: library_size sums the query's genes only */
    const int64_t *set_offsets;        /* n_sets + 1 entries, from 0 to n_rows */
    uint64_t n_sets;
    uint64_t k_enc;
    uint64_t k_dec;
    uint64_t n_genes_total;            /* the vocabulary; GENE_MASK is n_genes_total and PAD one more */
    double target_sum;                 /* for SCX_NORMALIZE_LOG1P */
    double pflog_alpha;                /* for SCX_PFLOG_RAW */
    const int32_t *query_gene_ids;     /* n_query */
    const uint8_t *enc_mask_positions; /* n_marks: not 0 where the encoder may not see the gene; NULL for nowhere */
    const int64_t *query_offsets;      /* NULL, or n_rows + 1 entries from 0 to n_query */
    uint64_t n_query;                  /* n_sets * k_dec without query_offsets */
    const uint8_t *hide_readout;       /* n_rows: not 0 where the encoder sees nothing; NULL for nowhere */
    const int64_t *n_measured;         /* for SCX_PFLOG_RAW, else NULL: for each set, or for each row with query_offsets */
    uint64_t n_marks;                  /* n_query, or n_rows * k_dec without query_offsets: for each row of a set */
} scx_collate_options;

/* Arrays of the caller, row-major; every element is written. */
typedef struct scx_collated {
    uint32_t struct_bytes;
    uint32_t reserved;
    int32_t *encoder_gene_ids; /* n_rows x k_enc, as the next three */
    float *encoder_counts;
    uint8_t *encoder_mask;
    uint8_t *encoder_pad_mask;
    float *target_counts;      /* n_rows x k_dec, as the next one */
    uint8_t *target_pad_mask;
    double *library_size;      /* n_rows */
} scx_collated;

int32_t scx_collate_cell_sets(const scx_csr_rows *rows, const scx_collate_options *options, const scx_collated *collated, scx_error *error);

#define SCX_BINOMIAL 1
#define SCX_MULTINOMIAL 2

/* Each row draws from a generator of its own: m(m(m(m(seed) ^ method) ^ file_identity) ^ row_number), m = splitmix64. */
typedef struct scx_downsample_options {
    uint32_t struct_bytes;
    uint32_t threads;                /* 0: as many as the machine has */
    uint32_t method;                 /* SCX_BINOMIAL or SCX_MULTINOMIAL */
    uint32_t reserved;
    uint64_t target;                 /* total of a row at least 1; a row that has no more is only rounded */
    uint64_t seed;
    const uint64_t *file_identities; /* n_rows */
    const uint64_t *row_numbers;     /* n_rows */
} scx_downsample_options;

/* Outputs of n_values entries each: what is left of row i begins at indptr[i] and has kept_out[i] entries; what stands
 * behind them is unspecified. */
int32_t scx_downsample_counts(const scx_csr_rows *rows, const scx_downsample_options *options, int32_t *indices_out, float *values_out, int64_t *kept_out, scx_error *error);

/* Copies counts[i] of n_values entries from starts[i] on, row after row without gaps, to n_out at most. The outputs may be
 * the inputs where no row then begins behind its start. What does not fit is SCX_BAD_ARGUMENT, before anything is written. */
int32_t scx_pack_rows(const int64_t *starts, const int64_t *counts, uint64_t n_rows, const int32_t *indices, const float *values, uint64_t n_values, int32_t *indices_out, float *values_out, uint64_t n_out, scx_error *error);

/* the first eight bytes of the BLAKE3 of some bytes, little-endian */
uint64_t scx_hash64(const void *bytes, uint64_t n_bytes);
/* ---- matrices by column, and what is computed once for a browser; any thread ---- */

/* Rows of a matrix in CSR. `indptr` has n_rows + 1 entries, any start; `indices` of index_bytes 4 or 8, signed, and
 * `values` begin with the entry that indptr[0] counts. `places`, where given, says for each of the n_cols columns which
 * column of the result it becomes, below 0 for none. */
typedef struct scx_cell_rows {
    uint32_t struct_bytes;
    uint32_t index_bytes;
    uint32_t value_type;
    uint32_t reserved;
    uint64_t n_rows;
    uint64_t n_cols;
    const int64_t *indptr;
    const void *indices;
    const void *values;
    const int32_t *places; /* NULL: every column keeps its number */
} scx_cell_rows;

/* what was seen in the columns that have a place, and in all columns of values that are no finite float32; added up
 * over calls */
typedef struct scx_column_scan {
    uint32_t struct_bytes;
    uint32_t reserved;
    uint64_t stored_zeros;
    uint64_t nan_values;
    uint64_t positive_infinities;
    uint64_t negative_infinities;
    uint64_t beyond_f32;        /* finite, but infinite as float32 */
    uint64_t fractional_values;
    uint64_t above_whole_f32;   /* finite and larger than 2^24, of either sign */
    uint64_t unordered_rows;    /* rows whose columns do not strictly ascend */
} scx_column_scan;

/* n_columns columns from column_start on, to be filled */
typedef struct scx_column_range {
    uint32_t struct_bytes;
    uint32_t value_type;        /* of values_out: SCX_F32 or SCX_F64 */
    uint64_t row_start;         /* number of the first of the rows */
    uint64_t column_start;
    uint64_t n_columns;
    uint64_t n_values;          /* length of rows_out and values_out */
    int64_t *cursors;           /* n_columns: where the next value of each goes; ascending, moved on by the call */
    int32_t *rows_out;
    void *values_out;
} scx_column_range;

/* n_values of the result, its columns one after the other, to be filled from rows that all lie in memory */
typedef struct scx_column_stretch {
    uint32_t struct_bytes;
    uint32_t value_type;        /* of values_out: SCX_F32 or SCX_F64 */
    uint64_t first;             /* how many values of the result stand before these */
    uint64_t n_values;
    uint64_t n_columns;
    int64_t *row_at;            /* n_rows: the entry with which each row goes on, indptr at first; moved on by the call */
    int64_t *cursors;           /* n_columns: where in the result the next value of each goes; moved on by the call */
    int32_t *rows_out;
    void *values_out;
} scx_column_stretch;

/* Adds to `counts` how many values other than 0 each column of the result gets. */
int32_t scx_columns_scan(const scx_cell_rows *rows, int64_t *counts, uint64_t n_counts, scx_column_scan *scan, scx_error *error);
/* Puts the values other than 0 of the range's columns in their places, in the order of the rows. SCX_OUT_OF_RANGE
 * when there are more than scx_columns_scan has counted. threads: 0 for as many as the machine has. */
int32_t scx_columns_scatter(const scx_cell_rows *rows, const scx_column_range *range, uint32_t threads, scx_error *error);
/* The next stretch of the result, where the columns of every row ascend, and their places with them. Called for one
 * stretch after the other. SCX_OUT_OF_RANGE when the rows do not have the values that scx_columns_scan has counted. */
int32_t scx_columns_stretch(const scx_cell_rows *rows, const scx_column_stretch *stretch, scx_error *error);
/* For each cell the share of its category's cells that are as close to their centre or closer, NaN where a category is
 * none (a code below 0) or has fewer than cells_min cells. coordinates: row-major, n_cells x n_axes. */
int32_t scx_outlier_shares(uint64_t n_cells, uint64_t n_axes, const float *coordinates, const int32_t *codes, uint64_t n_categories, uint64_t cells_min, float *shares_out, scx_error *error);

/* ---- DEFLATE streams (RFC 1951) of chunks of an array of which few values are different; any thread ---- */

/* bytes that each chunk needs in the output; element_bytes is 4 or 8 */
int32_t scx_deflate_bound(uint32_t element_bytes, uint64_t chunk_elements, uint64_t *bound_out, scx_error *error);
/* Encodes consecutive chunks of values, the last one filled up with zeros. The stream of chunk i begins at i * bound of
 * `out`, and lengths_out[i] says how long it is: 0 for a chunk of which more than 256 values are different, which needs a
 * general encoder. The same values give the same bytes on every machine. */
int32_t scx_deflate(uint32_t element_bytes, uint64_t chunk_elements, const void *values, uint64_t n_values, uint8_t *out, uint64_t out_bytes, uint64_t *lengths_out, uint64_t n_chunks, scx_error *error);

/* ---- tokens of a batch in memory; any thread ----
 * Rows do not depend on one another, and results not on `threads` (0: as many as the machine has). What the outputs
 * hold after a failure is not specified. */

/* The k largest positive values of each row, ties by id. n_rows x k each: id, value, mask 0, pad 0; slots left over hold
 * n_genes_total + 1, 0, 0, 1; a row without a positive value begins with n_genes_total, 0, 1, 0. */
int32_t scx_tokens_top_k(const scx_csr_rows *rows, uint64_t k, uint64_t n_genes_total, int32_t *ids_out, float *values_out, uint8_t *mask_out, uint8_t *pad_out, uint32_t threads, scx_error *error);

typedef struct scx_rank_options {
    uint32_t struct_bytes;
    uint32_t threads;
    const float *gene_stats; /* n_genes, finite and positive */
    uint64_t n_genes;        /* above every gene id */
    double target_sum;
    uint64_t l_max;
} scx_rank_options;

/* Genes by float32(max(v, 0) * (target_sum / total) / stat), the largest first, ties by id. ids_out: n_rows x l_max, 0
 * behind a row's tokens; lengths_out: n_rows. */
int32_t scx_tokens_rank(const scx_csr_rows *rows, const scx_rank_options *options, int32_t *ids_out, int32_t *lengths_out, scx_error *error);

#define SCX_TIE_LEFT 0
#define SCX_TIE_RIGHT 1
#define SCX_TIE_SEEDED 2

typedef struct scx_bin_options {
    uint32_t struct_bytes;
    uint32_t threads;
    uint32_t n_bins;             /* 3 to 65536 */
    uint32_t tie;                /* SCX_TIE_LEFT and its like */
    const double *edges;         /* n_bins - 1, finite, ascending; NULL for the quantiles of each row */
    uint64_t n_edges;
    uint64_t seed;               /* this and the next two: for SCX_TIE_SEEDED */
    uint64_t file_identity;
    const uint64_t *row_numbers; /* n_rows; NULL for places in the batch */
} scx_bin_options;

/* bins_out: one for each value, 0 for those that are not positive */
int32_t scx_tokens_bin(const scx_csr_rows *rows, const scx_bin_options *options, int32_t *bins_out, scx_error *error);

#define SCX_WEIGHT_LOG1P 0
#define SCX_WEIGHT_COUNT 1

typedef struct scx_sample_options {
    uint32_t struct_bytes;
    uint32_t threads;
    uint32_t weight; /* SCX_WEIGHT_LOG1P or SCX_WEIGHT_COUNT */
    uint32_t reserved;
    uint64_t n;      /* draws of each row */
    uint64_t seed;
    uint64_t file_identity;
    const uint64_t *row_numbers; /* n_rows; NULL for places in the batch */
} scx_sample_options;

/* ids_out: n_rows x n; lengths_out: n, or 0 for a row without a positive value, whose ids are 0 */
int32_t scx_tokens_sample(const scx_csr_rows *rows, const scx_sample_options *options, int32_t *ids_out, int32_t *lengths_out, scx_error *error);

typedef struct scx_transform_options {
    uint32_t struct_bytes;
    uint32_t threads;
    uint32_t mode;             /* SCX_PASS_THROUGH and its like */
    uint32_t reserved;
    double target_sum;         /* for SCX_NORMALIZE_LOG1P */
    double pflog_alpha;        /* for SCX_PFLOG_RAW, as the next one */
    const int64_t *n_measured; /* n_rows, each at least 1 */
} scx_transform_options;

/* The next two look at indptr and values alone: indices may be NULL. */
int32_t scx_tokens_transform(const scx_csr_rows *rows, const scx_transform_options *options, float *values_out, scx_error *error);
int32_t scx_tokens_library_size(const scx_csr_rows *rows, double *totals_out, uint32_t threads, scx_error *error);
/* Looks at indptr and indices alone: values may be NULL. panel: strictly ascending; measured_out: n_rows x n_panel, 1 where the row carries
 * the gene. */
int32_t scx_tokens_measured(const scx_csr_rows *rows, const int32_t *panel, uint64_t n_panel, uint8_t *measured_out, uint32_t threads, scx_error *error);

/* ---- counts of values over many batches, for exact medians of genes; any thread ---- */

/* A value of a row is multiplied with the row's factor in float64 and rounded to float32. The 31 bits of a positive one are in the order of
 * the values. Where the upper bits_done of them are the gene's prefix, it is counted in the gene's column of the table, in the row of the
 * bits that follow. */
typedef struct scx_value_counts {
    uint32_t struct_bytes;
    uint32_t threads;
    const double *factors;           /* n_rows */
    uint64_t n_genes;
    const int32_t *slots;            /* n_genes: columns of the table, negative for none */
    const uint32_t *prefixes;        /* n_genes */
    const int32_t *second_slots;     /* NULL, or another column for each gene, as the next one */
    const uint32_t *second_prefixes;
    uint32_t bits_done;              /* 0 to 31 */
    uint32_t bits;                   /* at most 24, and 31 with bits_done */
    uint32_t *table;                 /* 2^bits x n_slots: counts are added */
    uint64_t n_slots;
    double *totals;                  /* NULL, or n_genes: positive values are added as they are, in the order of the rows */
} scx_value_counts;

/* n_values_out: how many values are positive, counted or not */
int32_t scx_values_count(const scx_csr_rows *rows, const scx_value_counts *counts, uint64_t *n_values_out, scx_error *error);

/* scx-ffi-end */

#ifdef __cplusplus
}
#endif

#endif
