/* Preloaded into a program, answers fsync: appends "file" or "folder" to the file that $SYNCED
 * names, and fails while the file that $SYNC_FAILS names is there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int fsync(int fd)
{
    struct stat s;
    FILE *f = fopen(getenv("SYNCED"), "a");
    if (!f || fstat(fd, &s))
        abort();
    fputs(S_ISDIR(s.st_mode) ? "folder\n" : "file\n", f);
    fclose(f);
    errno = EIO;
    return access(getenv("SYNC_FAILS"), F_OK) ? 0 : -1;
}
