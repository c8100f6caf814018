/* Writes blocks of 4 KiB in turns: for each line on standard input it writes COUNT blocks and prints how long they took.
 *   write_loop FILE COUNT
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS_OF_FILE = 1024 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char **arguments) {
    static char block[BLOCK], line[16];
    int file = count == 3 ? open(arguments[1], O_CREAT | O_TRUNC | O_WRONLY, 0644) : -1;
    if (file < 0) {
        perror("write_loop FILE COUNT");
        return 1;
    }
    int blocks = atoi(arguments[2]), position = 0;
    memset(block, 'w', sizeof block);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        double start = now();
        for (int index = 0; index < blocks; index++) {
            if (write(file, block, sizeof block) != BLOCK) {
                perror("write");
                return 1;
            }
            if (++position == BLOCKS_OF_FILE) {
                lseek(file, 0, SEEK_SET);
                position = 0;
            }
        }
        printf("%.1f\n", (now() - start) / blocks);
        fflush(stdout);
    }
    return close(file) != 0;
}
