/* A checkpoint of every rank, as files of their own or as one shared file:
 *   checkpoint own|shared|strided FOLDER BLOCKS
 * `own` writes rank-N.dat by POSIX, `shared` shared.dat by MPI-IO, `strided` strided.dat by pwrite. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096 };

static void check(int right, const char *what) {
    if (!right) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int count, char **arguments) {
    int rank, size;
    char path[4096], block[BLOCK];
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(count == 4, "arguments");
    const char *folder = arguments[2];
    int blocks = atoi(arguments[3]);
    memset(block, 'a' + rank, BLOCK);
    if (strcmp(arguments[1], "own") == 0) {
        snprintf(path, sizeof path, "%s/rank-%d.dat", folder, rank);
        int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
        check(file >= 0, path);
        for (int index = 0; index < blocks + rank; index++)
            check(write(file, block, BLOCK) == BLOCK, "write");
        check(close(file) == 0, "close");
    } else if (strcmp(arguments[1], "strided") == 0) {
        snprintf(path, sizeof path, "%s/strided.dat", folder);
        int file = open(path, O_CREAT | O_WRONLY, 0644);
        check(file >= 0, path);
        for (int index = 0; index < blocks; index++)
            check(pwrite(file, block, BLOCK, (off_t)(index * size + rank) * BLOCK) == BLOCK, "pwrite");
        check(close(file) == 0, "close");
    } else {
        MPI_File file;
        snprintf(path, sizeof path, "%s/shared.dat", folder);
        int opened = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
        check(opened == MPI_SUCCESS, path);
        for (int index = 0; index < blocks; index++) {
            MPI_Offset offset = (MPI_Offset)(index * size + rank) * BLOCK;
            int wrote = MPI_File_write_at(file, offset, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
            check(wrote == MPI_SUCCESS, "write");
        }
        MPI_File_close(&file);
    }
    MPI_Finalize();
    return 0;
}
