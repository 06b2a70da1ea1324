/* Replays files through a libFuzzer target, for compilers without libFuzzer and for `make test`.
 * In: files and folders (not their subfolders). Out: the number of inputs that did not crash. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        return perror(path), 1;
    const long n = ftell(f);
    uint8_t *data = malloc(n > 0 ? (size_t)n : 1); /* exact, so that a read beyond is seen */
    rewind(f);
    const int bad = n < 0 || !data || fread(data, 1, (size_t)n, f) != (size_t)n;
    if (!bad)
        LLVMFuzzerTestOneInput(data, (size_t)n);
    else
        fprintf(stderr, "%s: cannot read\n", path);
    free(data);
    fclose(f);
    return bad;
}

static int replay_folder(const char *path, unsigned *n_done)
{
    DIR *d = opendir(path);
    char full[4096];
    int bad = 0;

    if (!d)
        return (*n_done)++, replay_file(path);
    for (const struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
        bad += replay_file(full);
        (*n_done)++;
    }
    closedir(d);
    return bad;
}

int main(int argc, char **argv)
{
    unsigned n_done = 0;
    int bad = 0;

    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        bad += replay_folder(argv[i], &n_done);
    printf("%u inputs replayed, %d could not be read\n", n_done, bad);
    return bad != 0;
}
