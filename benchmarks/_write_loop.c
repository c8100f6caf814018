/* Writes blocks in turns: for each line on standard input it writes COUNT blocks and prints how long each of them took.
 *   write_loop FILE COUNT [BYTES]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCK_MAX = 1 << 20, BLOCKS_OF_FILE = 1024, FILE_BYTES_MAX = 1 << 24 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char **arguments) {
    static char block[BLOCK_MAX], line[16];
    int bytes = count == 4 ? atoi(arguments[3]) : BLOCK;
    int is_used_right = (count == 3 || count == 4) && bytes > 0 && bytes <= BLOCK_MAX;
    int file = is_used_right ? open(arguments[1], O_CREAT | O_TRUNC | O_WRONLY, 0644) : -1;
    if (file < 0) {
        perror("write_loop FILE COUNT [BYTES]");
        return 1;
    }
    int blocks = atoi(arguments[2]), position = 0;
    int of_file = bytes > FILE_BYTES_MAX / BLOCKS_OF_FILE ? FILE_BYTES_MAX / bytes : BLOCKS_OF_FILE;
    memset(block, 'w', sizeof block);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        double start = now();
        for (int index = 0; index < blocks; index++) {
            if (write(file, block, (size_t)bytes) != bytes) {
                perror("write");
                return 1;
            }
            if (++position == of_file) {
                lseek(file, 0, SEEK_SET);
                position = 0;
            }
        }
        printf("%.1f\n", (now() - start) / blocks);
        fflush(stdout);
    }
    return close(file) != 0;
}
