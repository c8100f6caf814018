/* Every process writes and reads its interleaved part of one file: collectively, alone, and by the shared pointer.
   Arguments: the file, and hints as NAME=VALUE. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                  \
    do {                                                                                             \
        int code = (call);                                                                           \
        if (code != MPI_SUCCESS) {                                                                   \
            char words[MPI_MAX_ERROR_STRING];                                                        \
            int length;                                                                              \
            MPI_Error_string(code, words, &length);                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, words);                               \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                            \
        }                                                                                            \
    } while (0)

enum { ROWS = 64, CHUNK = 500, ROUNDS = 3 };

static void differ(const char *what) {
    fprintf(stderr, "other numbers than written: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int count, char **arguments) {
    int rank, size;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Info hints;
    MPI_Info_create(&hints);
    for (int i = 2; i < count; i++) {
        char *value = strchr(arguments[i], '=');
        *value++ = 0;
        MPI_Info_set(hints, arguments[i], value);
    }
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, arguments[1], MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file));

    /* Columns of a matrix: row r holds CHUNK integers of each process in turn. */
    MPI_Datatype columns;
    MPI_Type_vector(ROWS, CHUNK, CHUNK * size, MPI_INT, &columns);
    MPI_Type_commit(&columns);
    CHECK(MPI_File_set_view(file, (MPI_Offset)rank * CHUNK * sizeof(int), MPI_INT, columns, "native", hints));
    int *mine = malloc(sizeof(int) * ROWS * CHUNK), *seen = malloc(sizeof(int) * ROWS * CHUNK);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROWS * CHUNK; i++) mine[i] = rank * 1000000 + round * 100000 + i;
        CHECK(MPI_File_write_at_all(file, 0, mine, ROWS * CHUNK, MPI_INT, MPI_STATUS_IGNORE));
        /* Alone, into the same stripes as the others: read, changed and written back under locks with data sieving. */
        for (int i = 7; i < 11 * CHUNK; i++) mine[i]++;
        CHECK(MPI_File_write_at(file, 7, mine + 7, 11 * CHUNK - 7, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(MPI_File_read_at_all(file, 0, seen, ROWS * CHUNK, MPI_INT, MPI_STATUS_IGNORE));
        if (memcmp(mine, seen, sizeof(int) * ROWS * CHUNK) != 0) differ("own columns");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", hints));
    int next = (rank + 1) % size;
    CHECK(MPI_File_read_at_all(file, (MPI_Offset)next * CHUNK, seen, CHUNK, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < CHUNK; i++)
        if (seen[i] != next * 1000000 + (ROUNDS - 1) * 100000 + i + (i >= 7)) differ("columns of the neighbour");

    MPI_Offset bytes;
    CHECK(MPI_File_get_size(file, &bytes));
    if (bytes != (MPI_Offset)sizeof(int) * ROWS * CHUNK * size) differ("size");
    CHECK(MPI_File_seek_shared(file, bytes / (MPI_Offset)sizeof(int), MPI_SEEK_SET));
    CHECK(MPI_File_write_ordered(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at_all(file, bytes / (MPI_Offset)sizeof(int) + next, seen, 1, MPI_INT, MPI_STATUS_IGNORE));
    if (seen[0] != next) differ("shared pointer");
    CHECK(MPI_File_set_size(file, 1000));
    CHECK(MPI_File_preallocate(file, 2000));
    CHECK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d processes agree\n", size);
        CHECK(MPI_File_delete(arguments[1], MPI_INFO_NULL));
    }
    MPI_Finalize();
    return 0;
}
