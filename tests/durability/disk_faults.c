/* Preloaded, it counts every call that changes a file below a folder and lets one of them fail, or kills the process at it.
 *
 * disk_arm(root, at, error): the call number `at` gets `error`; KILLED: the process is killed before it; TORN: after half of a write.
 * A full or read-only disk stays so for the calls after it. disk_steps(): calls so far. disk_trace(): what they were. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KILLED = 1000, TORN = 1001, MOST_FILES = 1024 };
static char root[4096], trace[1 << 16], names[MOST_FILES][512];
static long steps, at;
static int error_wanted, armed;

void disk_arm(const char *folder, long step, int error) {
    snprintf(root, sizeof root, "%s", folder);
    memset(names, 0, sizeof names);
    trace[0] = 0, steps = 0, at = step, error_wanted = error, armed = 1;
}
void disk_disarm(void) { armed = 0; }
long disk_steps(void) { return steps; }
const char *disk_trace(void) { return trace; }

static int below(const char *path) {
    size_t length = strlen(root);
    return armed && path && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}
static const char *name_of(int fd) { return armed && fd >= 0 && fd < MOST_FILES && names[fd][0] ? names[fd] : NULL; }

/* One call: 0 to go on, -1 with errno set to fail. grows: whether it needs room on the disk. */
static int step(const char *call, const char *path, const char *more, int grows) {
    size_t used = strlen(trace);
    snprintf(trace + used, sizeof trace - used, "%s\t%s\t%s\n", call, path + strlen(root), more);
    if (++steps < at) return 0;
    if (steps == at && (error_wanted == KILLED || (error_wanted == TORN && strcmp(call, "write")))) kill(getpid(), SIGKILL);
    if (error_wanted >= KILLED) return 0;
    int lasts = error_wanted == EROFS || (grows && (error_wanted == ENOSPC || error_wanted == EDQUOT));
    if (steps > at && !lasts) return 0;
    if (steps == at && !grows && (error_wanted == ENOSPC || error_wanted == EDQUOT)) return 0;
    errno = error_wanted;
    return -1;
}

#define REAL(kind, name, ...) static kind (*real)(__VA_ARGS__); if (!real) real = (kind (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int opened(int fd, const char *path) {
    if (fd >= 0 && fd < MOST_FILES) snprintf(names[fd], sizeof names[fd], "%s", below(path) ? path : "");
    return fd;
}
static int refuses_open(const char *path, int flags) {
    char more[64];
    if (!below(path) || ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT))) return 0;
    snprintf(more, sizeof more, "%s%s%s", flags & O_EXCL ? "excl " : "", flags & O_NOFOLLOW ? "nofollow " : "",
             flags & O_TRUNC ? "trunc" : "");
    return step("open", path, more, (flags & O_CREAT) && access(path, F_OK));
}
#define OPENER(name)                                                                             \
    int name(const char *path, int flags, ...) {                                                 \
        REAL(int, #name, const char *, int, ...);                                                \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest);   \
        return refuses_open(path, flags) ? -1 : opened(real(path, flags, mode), path);           \
    }
OPENER(open)
OPENER(open64)
int openat64(int folder, const char *path, int flags, ...) {
    REAL(int, "openat64", int, const char *, int, ...);
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest);
    return refuses_open(path, flags) ? -1 : opened(real(folder, path, flags, mode), path);
}
int close(int fd) {
    REAL(int, "close", int);
    if (fd >= 0 && fd < MOST_FILES) names[fd][0] = 0;
    return real(fd);
}
ssize_t write(int fd, const void *text, size_t count) {
    REAL(ssize_t, "write", int, const void *, size_t);
    const char *path = name_of(fd);
    if (path && step("write", path, "", 1)) return -1;
    if (path && steps == at && error_wanted == TORN) { real(fd, text, count / 2); kill(getpid(), SIGKILL); }
    return real(fd, text, count);
}
#define ON_FILE(name, call, parameters, arguments, grows)                                        \
    int name parameters {                                                                        \
        REAL(int, #name, int ON_FILE_REST_##call);                                    \
        const char *path = name_of(fd);                                                          \
        return path && step(#call, path, "", grows) ? -1 : real arguments;                       \
    }
#define ON_FILE_REST_fsync
#define ON_FILE_REST_truncate , off_t
ON_FILE(fsync, fsync, (int fd), (fd), 1)
ON_FILE(fdatasync, fsync, (int fd), (fd), 1)
ON_FILE(ftruncate, truncate, (int fd, off_t size), (fd, size), 0)
ON_FILE(ftruncate64, truncate, (int fd, off_t size), (fd, size), 0)
int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return below(from) && step("rename", from, to + strlen(root), 0) ? -1 : real(from, to);
}
int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    return below(path) && step("unlink", path, "", 0) ? -1 : real(path);
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return below(path) && step("mkdir", path, "", 1) ? -1 : real(path, mode);
}
